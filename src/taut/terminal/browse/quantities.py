"""What tokens can be coloured by, and the number that stands beneath each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from taut.store import ReplyRecord
from taut.terminal.browse.step import StepReplies, td_errors
from taut.terminal.console import Glyphs, glyphs_of, printable
from taut.terminal.show import clip_name
from taut.terminal.tokens import UNTRAINED, Cell, ClipName, clip_sign, clip_style, observed_cell, tint


@dataclass(frozen=True)
class Seen:
    """A reply of L tokens as of one optimiser step. What is not known is NaN."""

    record: ReplyRecord
    gamma: float
    clips: list[ClipName]
    ratio: np.ndarray  # [L]
    logprobs: np.ndarray  # [L]
    seen_at: int | None


@dataclass(frozen=True)
class Quantity:
    name: str
    meaning: str
    values: Callable[[Seen], np.ndarray | None]
    """[L], NaN where a token has none; None where the run has none."""
    form: str = "{:+.2f}"
    is_ratio: bool = False
    """Coloured by its logarithm, strongest at the clip."""


def _minus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return None if a is None or b is None else a - b


QUANTITIES = (
    Quantity("ratio", "π now / π old", lambda seen: seen.ratio, "{:.2f}", is_ratio=True),
    Quantity("clip", "what the clip did", lambda seen: seen.ratio, ""),
    Quantity("advantage", "A as used", lambda seen: seen.record.advantages),
    Quantity("logprob", "log π now, in nats", lambda seen: seen.logprobs, "{:.2f}"),
    Quantity("entropy", "before the updates, in nats", lambda seen: seen.record.entropy, "{:.2f}"),
    Quantity("KL to ref", "k1: log π now - log π ref", lambda seen: _minus(seen.logprobs, seen.record.ref_logprobs)),
    Quantity("value", "the critic's", lambda seen: seen.record.values),
    Quantity("TD error", "r + γV' - V", lambda seen: td_errors(seen.record, seen.gamma)),
    Quantity("return", "what the critic learns", lambda seen: seen.record.returns),
    Quantity("reward", "per token, KL included", lambda seen: seen.record.token_rewards),
    Quantity(
        "sampler gap",
        "log π old - the sampler's",
        lambda seen: _minus(seen.record.old_logprobs, seen.record.behavior_logprobs),
        "{:+.0e}",
    ),
)  # fmt: skip


def seen_reply(step: StepReplies, reply: int, optimizer_step: int) -> Seen:
    record = step.records[reply]
    length, gamma = len(record.ids), float(step.batch.constants.get("gamma", 1.0))
    unknown = np.full(length, np.nan, dtype=np.float32)
    seen = step.sighting(reply, optimizer_step)
    if seen is None:
        return Seen(record, gamma, [""] * length, unknown, unknown, None)
    clip, (at, place) = step.clip_of(seen), seen
    logprobs = np.where(record.mask, step.batch.updates[at].logprobs[place, :length], np.nan)
    names = [clip_name(clip, (place, position)) for position in range(length)]
    return Seen(record, gamma, names, clip.ratio[place, :length], logprobs, at)


def offered(step: StepReplies) -> list[Quantity]:
    """Those that this step has."""
    seen = seen_reply(step, 0, 0)
    return [quantity for quantity in QUANTITIES if quantity.values(seen) is not None]


def token_cells(
    texts: Sequence[str], seen: Seen, quantity: Quantity, step: StepReplies, console: Console
) -> list[Cell]:
    """Each token with its number beneath; the sign of the clip stands behind a ratio."""
    glyphs, record = glyphs_of(console), seen.record
    values = quantity.values(seen)
    assert values is not None, "only what is offered is asked for"
    strongest = _strongest(quantity, values, record.mask, step)
    cells = []
    told, trained = record.observed.tolist(), record.mask.tolist()
    for position, (text, value) in enumerate(zip(texts, values.tolist(), strict=True)):
        shown = printable(text, console)
        if told[position]:
            cells.append(observed_cell(shown, glyphs))
        elif not trained[position]:
            cells.append(Cell(shown, "", UNTRAINED))
        else:
            cells.append(_cell(shown, value, seen.clips[position], quantity, strongest, glyphs))
    return cells


def _cell(
    text: str,
    value: float,
    clip: ClipName,
    quantity: Quantity,
    strongest: tuple[float, float],
    glyphs: Glyphs,
) -> Cell:
    if quantity.name == "clip":
        return Cell(text, clip_sign(clip, glyphs), clip_style(clip))
    if math.isnan(value):
        return Cell(text, "", "")
    beneath = quantity.form.format(value)
    if quantity.is_ratio:
        return Cell(text, beneath + clip_sign(clip, glyphs), tint(math.log(max(value, 1e-30)), strongest))
    return Cell(text, beneath, tint(value, strongest))


def _strongest(
    quantity: Quantity, values: np.ndarray, mask: np.ndarray, step: StepReplies
) -> tuple[float, float]:
    """From which size on, below and above, the colour is strongest: at the clip, or the reply's largest."""
    if quantity.is_ratio:
        low, high = (step.batch.constants.get(name) for name in ("clip_low", "clip_high"))
        below = math.inf if low is None or low >= 1 else -math.log1p(-low)
        return below, math.inf if high is None else math.log1p(high)
    sizes = np.abs(values[mask & np.isfinite(values)])
    largest = float(sizes.max(initial=0.0))
    return largest, largest


def token_facts(position: int, text: str, seen: Seen, step: StepReplies, console: Console) -> str:
    """All that is known of one token, on one line."""
    record = seen.record
    words = [f"{position + 1}/{len(record.ids)} {printable(text, console)!r} id {record.ids[position]}"]
    if record.observed[position]:
        return f"{words[0]}  told by the environment"
    if not record.mask[position]:
        words.append("not trained on")
    words.append(HELD[seen.clips[position]])
    for quantity in offered(step):
        values = quantity.values(seen)
        if quantity.name == "clip" or values is None or math.isnan(values[position]):
            continue
        form = "{:.3f}" if quantity.form == "{:.2f}" else quantity.form.replace(".2f", ".3f")
        words.append(f"{quantity.name} {form.format(values[position])}")
    return "  ".join(filter(None, words))


HELD: dict[ClipName, str] = {
    "": "",
    "high": "held above",
    "low": "held below",
    "outside-high": "outside above, not held",
    "outside-low": "outside below, not held",
    "dual": "held by the dual clip",
}
