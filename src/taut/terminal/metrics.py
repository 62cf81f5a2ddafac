"""Which of a run's many metrics the terminal shows, under what name and in what unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    label: str
    metric: str
    format: Callable[[float], str]
    change: bool = False
    """Whether its change since the start is worth a column."""
    floor: float | None = None
    """Where the sparkline stands on."""
    only_above_zero: bool = False


def number(value: float) -> str:
    return f"{value:.3f}"


def fine(value: float) -> str:
    return f"{value:.4f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def count(value: float) -> str:
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """3 -> "0:03", 3723 -> "1:02:03"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def clip_label(surrogate: str) -> str:
    """CISPO caps the weight and keeps the gradient; DPPO holds without a clip; SAPO holds no token."""
    return {"clipped": "clipped", "cispo": "weight-capped"}.get(surrogate, "held")


def shown_metrics(surrogate: str) -> list[Shown]:
    """In the order shown; a run that lacks one does not show it."""
    return [
        Shown("reward", "reward/mean", number, change=True),
        Shown("failed", "reply/excluded", count, floor=0, only_above_zero=True),
        Shown("held-out", "eval/accuracy", number, change=True),
        Shown("greedy", "eval/greedy", number, change=True),
        Shown("held-out failed", "eval/failed", percent, floor=0, only_above_zero=True),
        Shown(clip_label(surrogate), "clip/binding", percent, floor=0),
        Shown("KL from old", "kl/old_k1", fine),
        Shown("KL from ref", "kl/ref_k1", fine),
        Shown("KL from ref", "kl/ref_k2", fine),
        Shown("KL from ref", "kl/ref_k3", fine),
        Shown("value fit", "value/explained_variance", number),
        Shown("entropy", "entropy", number),
        Shown("reply tokens", "reply/length", lambda value: f"{value:.1f}"),
        Shown("tokens/s", "rate/tokens", count, floor=0),
    ]
