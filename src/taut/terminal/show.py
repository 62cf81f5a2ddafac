"""One run: its summary, and the replies of a step token by token, as an optimiser step saw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from taut.launch.pieces import token_pieces
from taut.store import ReplyRecord, Run
from taut.store.clip import TokenClip, token_clips
from taut.terminal.console import foreign, glyphs_of
from taut.terminal.metrics import clip_label, number
from taut.terminal.summary import run_summary, summary_row
from taut.terminal.tokens import ClipName, ColorBy, TokenView, legend, token_lines

LEFT = 12
"""Columns beside the tokens, in which "reward 1.000" fits."""
PROMPT_LINES = 4


@dataclass(frozen=True)
class ReplyView:
    prompt: str
    text: str
    reward: float
    finish_reason: str
    failures: dict[str, str]
    """Why it has no reward, by the function that failed."""
    seen_at: int | None
    """The optimiser step that the ratios are of: a token is seen once an epoch. None: not seen yet."""
    tokens: list[TokenView]


@dataclass(frozen=True)
class StepView:
    """Replies of one step of the loop, as of one optimiser step in it (from 0)."""

    step: int
    optimizer_step: int
    optimizer_steps: int
    epoch: int
    clip_low: float | None
    clip_high: float | None
    surrogate: str
    batch_size: int
    without_reward: int
    replies: list[ReplyView]
    """Those with the most tokens held by the clip first, and of as many, in the order of the batch; then one of each
    failure that is not among them."""


def print_run(
    run: Run, console: Console, step: int, optimizer_step: int, color: ColorBy, replies: int
) -> None:
    view = step_view(run, step, optimizer_step, replies)  # first: an error about it stands alone
    console.print(run_summary(run, console))
    if view is not None:
        console.print(Padding(_step_grid(view, color, console), (1, 1, 0, 1)))


def run_object(run: Run, step: int, optimizer_step: int, replies: int) -> dict[str, Any]:
    """The same as one JSON object."""
    view = step_view(run, step, optimizer_step, replies)
    return {**summary_row(run), "replies_of": view and asdict(view)}


def step_view(run: Run, step: int, optimizer_step: int, replies: int) -> StepView | None:
    """-1 is the newest step that is kept, and the last optimiser step. None where the run has no replies.

    Raises ValueError for a step whose replies are not kept, or an optimiser step it does not have.
    """
    if step == -1:
        kept = [kept for kept in run.kept_steps() if kept > 0]
        if not kept:
            return None
        step = kept[-1]
    batch, records = run.batch(step), run.replies(step)
    count = len(batch.updates)
    if not count:
        raise ValueError(f"step {step} of run {run.name!r} has no replies: nothing was trained in it")
    if not -count <= optimizer_step < count:
        raise ValueError(
            f"step {step} has {count} optimiser steps, counted from 0: there is no {optimizer_step}"
        )
    at = range(count)[optimizer_step]
    seen: dict[int, tuple[int, int]] = {}
    for earlier in range(at + 1):
        seen |= {int(row): (earlier, place) for place, row in enumerate(batch.updates[earlier].rows)}
    states, text_of = token_clips(batch), token_pieces(run).text_of
    held = {row: _held(states[earlier], place) for row, (earlier, place) in seen.items()}
    most_held = sorted(range(len(records)), key=lambda row: (-held.get(row, 0), row))
    chosen = most_held[:replies] if replies > 0 else []
    chosen += _rows_of_other_failures(records, chosen) if chosen else []
    shown = [_reply_view(records[row], text_of, seen.get(row), states) for row in chosen]
    failed = sum(math.isnan(record.reward) for record in records)
    low, high, surrogate = (batch.constants[key] for key in ("clip_low", "clip_high", "surrogate"))
    epoch = batch.updates[at].epoch
    return StepView(step, at, count, epoch, low, high, surrogate, len(records), failed, shown)


def _rows_of_other_failures(records: Sequence[ReplyRecord], chosen: Sequence[int]) -> list[int]:
    """The first reply of each failure that no chosen reply has: what failed, and the kind of why it gave."""

    def kinds(row: int) -> set[tuple[str, str]]:
        return {(name, why.partition(":")[0]) for name, why in records[row].failures.items()}

    told = {kind for row in chosen for kind in kinds(row)}
    rows = []
    for row in range(len(records)):
        if not kinds(row) <= told:
            rows.append(row)
            told |= kinds(row)
    return rows


def _held(clip: TokenClip, place: int) -> int:
    """How many of a reply's tokens the clip holds."""
    return int(clip.held[place].sum())


def _reply_view(
    record: ReplyRecord,
    text_of: Callable[[int], str],
    seen: tuple[int, int] | None,
    states: Sequence[TokenClip],
) -> ReplyView:
    tokens, observed = [], record.observed.tolist()
    for position, (token, trained) in enumerate(zip(record.ids.tolist(), record.mask.tolist(), strict=True)):
        ratio: float | None = None
        clip: ClipName = ""
        if seen is not None and trained:
            state, place = states[seen[0]], (seen[1], position)
            ratio, clip = state.ratio[place].item(), clip_name(state, place)
        advantage = None if record.advantages is None or not trained else float(record.advantages[position])
        tokens.append(TokenView(text_of(token), trained, ratio, advantage, clip, observed[position]))
    return ReplyView(
        record.prompt_text,
        record.text,
        record.reward,
        record.finish_reason,
        dict(record.failures),
        seen and seen[0],
        tokens,
    )


def clip_name(clip: TokenClip, place: tuple[int, int]) -> ClipName:
    """Of the token at `place`: which reply of the update, which position in it."""
    if clip.dual[place]:
        return "dual"
    if clip.high[place]:
        return "high" if clip.binding[place] else "outside-high"
    if clip.low[place]:
        return "low" if clip.binding[place] else "outside-low"
    return ""


def _step_grid(view: StepView, color: ColorBy, console: Console) -> Group:
    """Prompts, each with its replies: reward on the left, tokens on the right."""
    place = f"optimiser step {view.optimizer_step} of 0 to {view.optimizer_steps - 1}, epoch {view.epoch + 1}"
    grid = Table.grid(padding=(0, 2, 1, 0))
    grid.add_column(width=LEFT, style="dim")
    grid.add_column(overflow="fold")
    width = console.width - LEFT - 5
    strongest, prompt = _strongest(view, color), None
    for reply in view.replies:
        if reply.prompt != prompt:
            prompt = reply.prompt
            grid.add_row("prompt", _end(prompt, PROMPT_LINES * width, console))
        lines = token_lines(reply.tokens, color, strongest, width, console)
        for name, why in reply.failures.items():
            lines.append(foreign(f"{name} {why}", console, style="red"))
        grid.add_row(_beside(reply, view.optimizer_step), Text("\n").join(lines))
    head = Text(f"step {view.step}", style="bold").append(
        f"   {place}, coloured by {color}", style="not bold"
    )
    first = f"the most {clip_label(view.surrogate)} first"
    head.append(f"\n{len(view.replies)} of {view.batch_size} replies, {first}", style="not bold dim")
    if view.without_reward:
        told = f"{view.without_reward} have no reward; one of each failure is shown"
        head.append(f"\n{told}", style="not bold red")
    observed = any(token.observed for reply in view.replies for token in reply.tokens)
    return Group(head, legend(color, view.surrogate, observed, console), "", grid)


def _end(prompt: str, characters: int, console: Console) -> Text:
    """The end of a prompt is what the reply answers; a long one would push the replies off the screen."""
    cut = glyphs_of(console).ellipsis if len(prompt) > characters else ""
    return foreign(cut + prompt[-characters:], console, style="bold")


def _beside(reply: ReplyView, optimizer_step: int) -> str:
    """What stands beside a reply: its reward, and what is special about it."""
    lines = ["no reward" if math.isnan(reply.reward) else f"reward {number(reply.reward)}"]
    if reply.seen_at is None:
        lines.append("not seen yet")
    elif reply.seen_at < optimizer_step:
        lines.append(f"seen at {reply.seen_at}")
    if reply.finish_reason == "length":
        lines.append("cut")
    return "\n".join(lines)


def _strongest(view: StepView, color: ColorBy) -> tuple[float, float]:
    """From which size on, below and above, a token has the strongest colour: at the clip, or the largest advantage."""
    if color == "ratio":
        low = math.inf if view.clip_low is None or view.clip_low >= 1 else -math.log1p(-view.clip_low)
        return low, math.inf if view.clip_high is None else math.log1p(view.clip_high)
    sizes = [abs(token.advantage or 0.0) for reply in view.replies for token in reply.tokens]
    return max(sizes, default=0.0), max(sizes, default=0.0)
