"""Takes a stored step again, by the loop itself, and says what came out otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taut.config import Config
from taut.store import StepRecord
from taut.store.record import TOKEN_COLUMNS
from taut.training.non_finite import NonFiniteError
from taut.training.ppo import Parts, train_ppo

BATCH = "the batch"
NOT_REPEATED = ("time/", "rate/", "system/", "reply/resampled")
"""Metrics of the clock and of sampling."""


@dataclass(frozen=True)
class Difference:
    """A quantity that came out otherwise, at the element where it is off the most."""

    step: int
    place: str
    """Which reply, optimiser step, or the batch."""
    quantity: str
    stored: float
    replayed: float
    """NaN where it is not there."""

    def __str__(self) -> str:
        off = abs(self.replayed - self.stored)
        numbers = f"{self.stored!r} in the store and {self.replayed!r} replayed, {off:.3g} apart"
        return f"step {self.step}, {self.place}: {self.quantity} is {numbers}"


@dataclass(frozen=True)
class ReplayedStep:
    stored: StepRecord
    replayed: StepRecord
    stopped: str
    """Why the loop would not go on after this step; "" if it would."""
    differences: list[Difference]
    """In the order in which a step computes things; empty where every number is equal, bit for bit."""


def replay_step(config: Config, parts: Parts, stored: StepRecord) -> ReplayedStep:
    """Takes a step with `parts` that stand after the step before and repeat what was recorded."""
    only = config.run.model_copy(update={"steps": stored.step})
    records: list[StepRecord] = []
    stopped = ""
    try:
        train_ppo(config.model_copy(update={"run": only}), parts, records, first_step=stored.step)
    except NonFiniteError as error:
        stopped = str(error)
    [replayed] = records
    return ReplayedStep(stored, replayed, stopped, differences(stored, replayed))


def differences(stored: StepRecord, replayed: StepRecord) -> list[Difference]:
    """What is not equal, bit for bit. Metrics of the batch that a replay cannot repeat are not compared."""
    ours, theirs = _numbers(stored), _numbers(replayed)
    keys = [*theirs, *(key for key in ours if key not in theirs and key[0] != BATCH)]
    absent = np.array([np.nan])
    found = []
    for place, quantity in keys:
        a, b = (numbers.get((place, quantity), absent) for numbers in (ours, theirs))
        if a.tobytes() != b.tobytes():
            worst = _worst(a, b)
            found.append(Difference(stored.step, place, quantity, *worst))
    return found


def _numbers(record: StepRecord) -> dict[tuple[str, str], np.ndarray]:
    """Every number of a step in float64, by place and quantity, in the order in which they are computed."""
    found = {}
    for number, reply in enumerate(record.replies):
        for column in ("mask", *TOKEN_COLUMNS, "bootstrap_value"):
            if (value := getattr(reply, column)) is not None:
                found[f"reply {number}", column] = value
    for number, update in enumerate(record.optimizer_steps):
        place = f"optimiser step {number}"
        found |= {(place, "replies"): update.rows, (place, "applied"): update.applied}
        for row, logprobs in zip(update.rows, update.logprobs, strict=True):
            found[f"{place}, reply {row}", "logprobs"] = logprobs
        found |= {(place, name): value for name, value in update.scalars.items()}
    for name, value in record.scalars.items():
        if not name.startswith(NOT_REPEATED):
            found[BATCH, name] = value
    return {key: _plain(value) for key, value in found.items()}


def _plain(value: object) -> np.ndarray:
    """[N] float64, which holds every float32; all NaN alike, since the store keeps one kind of them."""
    numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return np.where(np.isnan(numbers), np.nan, numbers)


def _worst(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The pair that is furthest apart; of two arrays that differ in length, the lengths."""
    if a.shape != b.shape:
        return float(len(a)), float(len(b))
    apart = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
    at = int(np.argmax(np.nan_to_num(apart, nan=np.inf)))
    return float(a[at]), float(b[at])
