"""What a run stored, as the loop takes it: prompts, replies and scores that repeat the recorded ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from taut.rollout.sampler import OnDone
from taut.rollout.sampling import Sampling
from taut.store import ReplyRecord, Run
from taut.types import Prompt, Rollout, Score


class Recording:
    """The loop's source, sampler and scorer in one: from the step `first` on, one stored batch after the other.

    Whatever the loop asks for, it gets the batch as it was, replies in their order. What a reward function logged and
    how many turns an environment took is not stored, and missing.
    """

    def __init__(self, run: Run, first: int) -> None:
        self.run = run
        self.step = first - 1
        self._replies: list[ReplyRecord] = []

    def take(self, count: int, without: Collection[int] = ()) -> list[Prompt]:
        if without:
            return []  # dynamic sampling asks for more: the batch already is what it had kept
        self.step += 1
        self._replies = self.run.replies(self.step)
        return list({reply.prompt_index: prompt_of(reply) for reply in self._replies}.values())

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_done: OnDone | None = None
    ) -> list[Rollout]:
        assert on_done is None, "it scores for itself, and at once"
        assert sampling.step == self.step
        return [rollout_of(reply) for reply in self._replies]

    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        return [
            Score(reply.reward, reply.terms, reply.failures, extra=reply.extra) for reply in self._replies
        ]

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None: ...

    def weights_checksum(self) -> str:
        raise NotImplementedError("a recording holds no weights")

    def check(self, prompts: Sequence[Prompt]) -> None: ...

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


def prompt_of(reply: ReplyRecord) -> Prompt:
    return Prompt(reply.prompt_index, reply.prompt_text, tuple(reply.prompt_ids.tolist()))


def rollout_of(reply: ReplyRecord) -> Rollout:
    behavior = reply.behavior_logprobs
    assert behavior is not None, "every run stores what its sampler recorded"
    return Rollout(
        prompt=prompt_of(reply),
        sample=reply.sample,
        ids=tuple(reply.ids.tolist()),
        text=reply.text,
        behavior_logprobs=behavior.copy(),  # what the store gave is read-only
        finish_reason=reply.finish_reason,
        version=reply.version,
        # The mask alone would not tell in a reply without a reward, of which no token trains.
        sampled=reply.mask | ~np.isnan(behavior),
    )
