"""A replayed step: whether it came out as it was stored, and what other settings changed."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from taut.checks.bisect import Culprits
from taut.checks.replay import BATCH, ReplayedStep
from taut.store import StepRecord
from taut.terminal.console import foreign
from taut.terminal.tables import plain_table

if TYPE_CHECKING:
    from taut.launch.replay import Replay

PER_OPTIMIZER_STEP = ("loss/policy", "value/loss", "grad/norm")
SHOWN_DIFFERENCES = 5
PROMPT_END = 200
"""Characters of a prompt."""


def print_replay(replay: Replay, console: Console) -> None:
    last, start = replay.last, replay.start.step
    origin = f"from the checkpoint of step {start}" if replay.start.folder else "from the start of the run"
    stored = last.stored
    tokens = sum(int(reply.mask.sum()) for reply in stored.replies)
    console.print(
        Text(f"step {stored.step}", style="bold").append(
            f"   {origin}: {len(last.replayed.optimizer_steps)} optimiser steps, {len(stored.replies)} replies, "
            f"{tokens} trained tokens",
            style="not bold dim",
        ),
        soft_wrap=True,
    )
    console.print(_verdict(replay, console), soft_wrap=True)
    console.print(_optimizer_steps(last))
    if replay.settings:
        console.print(_changed_metrics(last, console))
    if last.stopped:
        console.print(foreign(f"the run stops here: {last.stopped}", console, style="red"), soft_wrap=True)
    if replay.culprits is not None:
        console.print(_culprits(replay.culprits, stored, console), soft_wrap=True)


def _verdict(replay: Replay, console: Console) -> Text:
    """Of the steps that were taken as recorded."""
    last = replay.last.stored.step
    first, until = replay.start.step + 1, last - 1 if replay.settings else last
    if until < first:
        return Text("under other settings than it was recorded with", style="dim")
    steps = f"step {first}" if first == until else f"steps {first} to {until}"
    if not replay.differences:
        return Text(f"{steps}: every number is the stored one, bit for bit", style="green")
    lines = [f"{steps}: {len(replay.differences)} quantities are not as they were stored, first"]
    lines += map(str, replay.differences[:SHOWN_DIFFERENCES])
    if replay.changes_of_machine:
        lines.append(f"that may be since {replay.changes_of_machine}")
    return Text("\n").join(foreign(line, console, style="red") for line in lines)


def _optimizer_steps(last: ReplayedStep) -> Table:
    """What each of them logged, stored and replayed."""
    pairs = [
        [update.scalars if update else {} for update in pair]
        for pair in zip_longest(last.stored.optimizer_steps, last.replayed.optimizer_steps)
    ]
    names = [name for name in PER_OPTIMIZER_STEP if any(name in each for pair in pairs for each in pair)]
    headings = [heading for name in names for heading in (f"{name}\nstored", "\nreplayed")]
    table = plain_table("optimiser\nstep", *headings, right=["optimiser\nstep", *headings])
    for number, pair in enumerate(pairs):
        cells = [_number(each.get(name)) for name in names for each in pair]
        table.add_row(str(number), *cells)
    return table


def _changed_metrics(last: ReplayedStep, console: Console) -> Table:
    table = plain_table("metric", "stored", "replayed", right=["stored", "replayed"])
    for difference in last.differences:
        if difference.place == BATCH:
            numbers = (_number(difference.stored), _number(difference.replayed))
            table.add_row(foreign(difference.quantity, console), *numbers)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _culprits(culprits: Culprits, stored: StepRecord, console: Console) -> Text:
    place = f"epoch {culprits.epoch + 1}, minibatch {culprits.minibatch + 1}"
    count = len(culprits.rows)
    alone = "1 reply alone brings" if count == 1 else f"{count} replies, only together, bring"
    lines = [
        Text(f"{alone} it about, of {culprits.of} in {place}:", style="bold"),
        foreign(culprits.why, console),
    ]
    for row in culprits.rows:
        reply = stored.replies[row]
        lines.append(foreign(f"reply {row}, prompt  {reply.prompt_text[-PROMPT_END:]}", console, style="dim"))
        lines.append(foreign(f"reply {row}, text    {reply.text}", console))
    return Text("\n").join(lines)
