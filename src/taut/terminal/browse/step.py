"""One step that was kept whole: its replies in any order, and each token's numbers at any optimiser step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from taut.store import ReplyRecord, Run
from taut.store.clip import TokenClip, token_clips

Order = Literal["batch", "reward", "length", "clipped", "KL"]
ORDERS: tuple[Order, ...] = ("batch", "reward", "length", "clipped", "KL")


@dataclass(frozen=True)
class Row:
    """A reply in the list."""

    number: int
    reward: float
    length: int
    clipped: float
    """Share of its trained tokens that the clip bound, over the optimiser steps that saw it; NaN where none did."""
    kl: float
    """k3 from the old policy at the last sighting, a mean over its trained tokens, in nats; NaN where none was."""


class StepReplies:
    """The B replies of one step. Everything is read once, so that it stays when retention drops the step."""

    def __init__(self, run: Run, step: int, text_of: Callable[[int], str]) -> None:
        """Raises ValueError where the step's replies are not kept, or nothing was trained in it."""
        self.step = step
        self.batch, self.records = run.batch(step), run.replies(step)
        if not self.batch.updates:
            raise ValueError(f"step {step} of run {run.name!r} has no replies: nothing was trained in it")
        self.clips = token_clips(self.batch)
        self._text_of = text_of

    @property
    def optimizer_steps(self) -> int:
        return len(self.batch.updates)

    def place(self, optimizer_step: int) -> str:
        """Where an optimiser step stands in the batch, in words, counted from 1."""
        epoch = self.batch.updates[optimizer_step].epoch
        return f"optimiser step {optimizer_step + 1} of {self.optimizer_steps}, epoch {epoch + 1}"

    def sighting(self, reply: int, optimizer_step: int) -> tuple[int, int] | None:
        """The latest optimiser step at or before this one that saw the reply, and its row there."""
        for earlier in range(optimizer_step, -1, -1):
            found = np.flatnonzero(self.batch.updates[earlier].rows == reply)
            if len(found):
                return earlier, int(found[0])
        return None

    def clip_of(self, seen: tuple[int, int]) -> TokenClip:
        return self.clips[seen[0]]

    def texts(self, reply: int) -> list[str]:
        return [self._text_of(token) for token in self.records[reply].ids.tolist()]

    def sorted_rows(self, order: Order) -> list[Row]:
        """The largest first, but for the order of the batch; what has no number is last."""
        if order == "batch":
            return self.rows
        name = {"KL": "kl"}.get(order, order)

        def key(row: Row) -> tuple[bool, float]:
            value = float(getattr(row, name))
            return math.isnan(value), -value

        return sorted(self.rows, key=key)

    @cached_property
    def rows(self) -> list[Row]:
        bound, seen_tokens = np.zeros(len(self.records)), np.zeros(len(self.records))
        kl = np.full(len(self.records), np.nan)
        trained = self.batch.response_mask.sum(1)
        old = self.batch.old_logprobs
        assert old is not None, "clip states were made of it"
        for update, clip in zip(self.batch.updates, self.clips, strict=True):
            bound[update.rows] += clip.binding.sum(1)
            seen_tokens[update.rows] += trained[update.rows]
            mask = self.batch.response_mask[update.rows]
            moved = np.where(mask, update.logprobs - old[update.rows], 0)
            kl[update.rows] = (np.exp(moved) - 1 - moved).sum(1) / np.maximum(mask.sum(1), 1)
        with np.errstate(invalid="ignore"):
            shares = bound / seen_tokens
        kl[trained == 0] = np.nan
        return [
            Row(number, record.reward, len(record.ids), float(shares[number]), float(kl[number]))
            for number, record in enumerate(self.records)
        ]


def td_errors(record: ReplyRecord, gamma: float) -> np.ndarray | None:
    """δ = r + γ V' - V [L] at trained tokens, V' being the next trained token's; NaN elsewhere, None without values.

    Behind the last one stands the bootstrap value of a cut reply, else 0.
    """
    if record.values is None or record.token_rewards is None:
        return None
    trained = np.flatnonzero(record.mask)
    values = record.values[trained]
    after = np.append(values[1:], record.bootstrap_value or 0.0)[: len(values)]
    errors = np.full(len(record.ids), np.nan, dtype=np.float32)
    errors[trained] = record.token_rewards[trained] + gamma * after - values
    return errors
