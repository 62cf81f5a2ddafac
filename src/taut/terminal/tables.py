"""Tables of runs, results and samples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from taut.terminal.console import foreign, glyphs_of
from taut.terminal.metrics import number, percent

if TYPE_CHECKING:
    from taut.types import Rollout

STATUS_STYLES = {
    "running": "green",
    "failed": "red",
    "dead": "red",
    "unreadable": "red",
    "interrupted": "yellow",
}
RESULT_COLUMNS = {
    "reward/mean": ("reward", number),
    "eval/accuracy": ("held-out", number),
    "eval/greedy": ("greedy", number),
    "clip/binding": ("clipped", percent),
}
"""Result -> its heading and its unit."""


def plain_table(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


def runs_table(rows: Sequence[Mapping[str, Any]], console: Console) -> Table:
    """As `store.runs.list_runs` gives them."""
    right = ("steps", "reward", "held-out")
    table = plain_table("run", "status", "created", *right, right=right)
    for name, row in as_tree(rows, console):
        status = foreign(row["status"], console, STATUS_STYLES.get(row["status"], ""))
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"])) if row["created"] else ""
        results = (cell(row["reward/mean"], number), cell(row["eval/accuracy"], number))
        table.add_row(name, status, created, str(row["steps"]), *results)
    return table


def results_table(rows: Sequence[Mapping[str, Any]], console: Console) -> Table:
    """As `store.compare.summary_rows` gives them."""
    shown = {name: column for name, column in RESULT_COLUMNS.items() if any(name in row for row in rows)}
    right = ["steps", *(heading for heading, _ in shown.values())]
    table = plain_table("run", "status", *right, right=right)
    for name, row in as_tree(rows, console):
        status = foreign(row["status"], console, STATUS_STYLES.get(row["status"], ""))
        results = [cell(row[key], form) for key, (_, form) in shown.items()]
        table.add_row(name, status, str(row["steps"]), *results)
    return table


def as_tree(rows: Sequence[Mapping[str, Any]], console: Console) -> Iterator[tuple[Text, Mapping[str, Any]]]:
    """Each row with the run's name as it is shown, forks beneath what they were forked from."""
    names = {row["run"] for row in rows}
    waiting = [(0, row) for row in reversed(rows) if row["parent"] not in names]
    while waiting:
        depth, row = waiting.pop()
        name = foreign(row["run"], console)
        if depth:
            name = Text("  " * (depth - 1) + f"{glyphs_of(console).branch} ", style="dim").append_text(name)
            name.append(f" from step {row['parent_step']}", style="dim")
        elif row["parent"] is not None:
            origin = foreign(f" from {row['parent']}, step {row['parent_step']}", console, "dim")
            name.append_text(origin)
        yield name, row
        waiting += [(depth + 1, child) for child in reversed(rows) if child["parent"] == row["run"]]


def differences_table(
    names: Sequence[str], differences: Mapping[str, Sequence[Any]], console: Console
) -> Table:
    """One row a setting in which the runs differ, one column a run."""
    table = plain_table("setting")
    for name in names:
        table.add_column(foreign(name, console), overflow="fold")
    for key, values in differences.items():
        cells = ["null" if value is None else str(value) for value in values]
        table.add_row(foreign(key, console), *(foreign(cell, console) for cell in cells))
    return table


def samples_table(rollouts: Sequence[Rollout], console: Console) -> Table:
    """One row a reply, in a line a turn; a prompt is shown at its first."""
    table = plain_table("prompt", "reply", "ended")
    shown = None
    for rollout in rollouts:
        prompt = "" if rollout.prompt.index == shown else rollout.prompt.text
        shown = rollout.prompt.index
        ended = "cut" if rollout.truncated else "by itself"
        table.add_row(foreign(prompt, console), _reply(rollout, console), ended)
    return table


def _reply(rollout: Rollout, console: Console) -> Text:
    """Its text; of several turns, a line each, with who speaks."""
    turns = rollout.episode.dialogue if rollout.episode else ()
    if len(turns) < 2:
        return foreign(rollout.text, console)
    lines = []
    for turn in turns:
        speaker = foreign(f"{turn['role']}: ", console, style="dim")
        lines.append(speaker.append_text(foreign(str(turn["content"]), console, style="not dim")))
    return Text("\n").join(lines)


def cell(value: float | None, form: Any) -> str:
    return "" if value is None else form(value)
