"""Rewards of the replies that are there, computed while others are still being sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from taut.background import Background
from taut.tasks.rewards.function import FunctionScorer
from taut.tasks.rewards.model import ModelScorer
from taut.tasks.scorer import Scorer, WeightedSum, refuse_failure_of_all
from taut.types import Rollout, Score

PARTS = 4
"""Calls a batch is scored in: more would begin sooner and pay a call's own cost, and a judge's latency, more often."""


class WhileSampling:
    """Scores the replies to a quarter of the prompts as soon as they have ended, in a thread of its own.

    It is what a sampler calls `on_done`. Which prompts end together depends on how many tokens their replies have and
    on nothing that races, so that a run calls its reward functions with the same replies each time.
    """

    def __init__(self, scorer: WeightedSum, prompts: int, step: int) -> None:
        self._scorer, self._step = scorer, step
        self._size = math.ceil(prompts / PARTS)
        self._ended: dict[int, Sequence[Rollout]] = {}
        self._parts: list[tuple[list[int], Future[list[Score]]]] = []
        self._thread = Background("taut-reward")

    def __call__(self, number: int, replies: Sequence[Rollout]) -> None:
        self._ended[number] = replies
        if len(self._ended) == self._size:
            self._begin()

    def scores(self) -> list[Score]:
        """Of all replies there were, in the order of their prompts. Raises what scoring raised."""
        if self._ended:
            self._begin()
        by_prompt: dict[int, list[Score]] = {}
        for numbers, part in self._parts:
            scores = part.result()
            size = len(scores) // len(numbers)
            by_prompt |= {number: scores[i * size : (i + 1) * size] for i, number in enumerate(numbers)}
        every = [score for number in sorted(by_prompt) for score in by_prompt[number]]
        refuse_failure_of_all(every)
        return every

    def _begin(self) -> None:
        numbers = sorted(self._ended)
        rollouts = [rollout for number in numbers for rollout in self._ended[number]]
        self._ended = {}
        piece = lambda: self._scorer.score_part(rollouts, self._step)  # noqa: E731
        self._parts.append((numbers, self._thread.submit(piece)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.close()


def while_sampling(scorer: Scorer, prompts: int, step: int) -> WhileSampling | None:
    """None where it would gain nothing, or change what comes out.

    It gains where a function runs in its own process. One that must see the whole batch (`scoring.isolate` off) is
    shown all of it, and a reward model would only take the sampler's cores from it.
    """
    if not isinstance(scorer, WeightedSum):
        return None
    scorers = [term.scorer for term in scorer.terms]
    functions = [own for own in scorers if isinstance(own, FunctionScorer)]
    whole = any(isinstance(own, ModelScorer) for own in scorers) or any(own.needs_batch for own in functions)
    return None if whole or not functions else WhileSampling(scorer, prompts, step)
