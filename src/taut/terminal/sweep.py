"""A sweep while it goes, and the table it ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from taut.store import Run
from taut.store.compare import summary_rows
from taut.terminal.console import foreign, glyphs_of, printable
from taut.terminal.tables import RESULT_COLUMNS, plain_table


class SweepLines:
    """Prints a line as each run ends."""

    def __init__(self, total: int, console: Console) -> None:
        self.total = total
        self.console = console
        self.ended = 0
        self.announced = ""

    def wait(self, what: str, done: int, total: int) -> None:
        """Says once what the first run waits for."""
        if what and what != self.announced:
            self.announced = what
            self.console.print(what, soft_wrap=True)

    def end(self, run: Run) -> None:
        self.ended += 1
        [result] = summary_rows([run])
        words = [
            f"{heading} {form(result[name])}"
            for name, (heading, form) in RESULT_COLUMNS.items()
            if result.get(name) is not None
        ]
        place = f"{self.ended:>{len(str(self.total))}}/{self.total}"
        self.console.print("  ".join([place, printable(run.name, self.console), *words]), soft_wrap=True)


def sweep_table(rows: Sequence[Mapping[str, Any]], axes: Sequence[str], console: Console) -> Table:
    """Rows as `launch.sweep.summarize` gives them, each result as mean ± standard deviation."""
    right = ["runs", *(heading for heading, _ in RESULT_COLUMNS.values())]
    table = plain_table(*(axis.rpartition(".")[2] for axis in axes), *right, right=right)
    sign = f" {glyphs_of(console).plus_minus} "
    for row in rows:
        values = [foreign(str(row[axis]), console) for axis in axes]
        results = [_with_deviation(row[name], form, sign) for name, (_, form) in RESULT_COLUMNS.items()]
        table.add_row(*values, str(row["runs"]), *results)
    return table


def _with_deviation(
    result: tuple[float, float | None] | None, form: Callable[[float], str], sign: str
) -> str:
    if result is None:
        return ""
    mean, deviation = result
    if deviation is None:
        return form(mean)
    return f"{form(mean).removesuffix(' %')}{sign}{form(deviation)}"  # the unit stands once
