"""The lines of `taut check`, each as soon as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from taut.terminal.console import foreign

if TYPE_CHECKING:
    from taut.launch.preflight import Line

STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
NAME_WIDTH = 16


def print_line(line: Line, console: Console) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=STYLES[line.verdict], width=4)
    table.add_column(style="bold", width=NAME_WIDTH)
    table.add_column(overflow="fold")
    message = Text("\n").join(foreign(problem, console) for problem in line.message.splitlines())
    table.add_row(line.verdict, line.name, message)
    console.print(table)
    for text in line.shown:
        console.print(Padding(foreign(text, console, "dim"), (0, 0, 0, 4 + 2 + NAME_WIDTH + 2)))
