"""Batches sampled while the learner is at earlier ones, from weights that lag behind it by a fixed number of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from taut.background import Background
from taut.config import Config
from taut.rollout.sampler import Sampler
from taut.rollout.source import Source
from taut.tasks.scorer import Scorer
from taut.training.collect import Collected, collect
from taut.training.timing import Stopwatch

PATIENCE = 5.0
"""Seconds that an interrupted run waits for the batch that is being sampled."""
Weights = Mapping[str, Tensor]


@dataclass
class _Job:
    """A batch to sample, or one that is being sampled."""

    step: int
    """Of the loop: which batch it is."""
    version: int
    weights: Weights
    sampled: Future[tuple[Collected, dict[str, float], dict[str, Any]]] | None = None


class Ahead:
    """Takes the place of `collect` in the loop where `algorithm.max_staleness` is k > 0.

    The batch of step s is sampled from the weights after step s - 1 - k (the first k + 1 batches from the first
    weights), in a thread of its own, one batch after the other. The lag is fixed, not a race: a run is the same run
    each time. Source, sampler and scorer are the thread's while a batch is being sampled; `wait` before they are used.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        sampler: Sampler,
        scorer: Scorer,
        copied_weights: Callable[[], Weights],
    ) -> None:
        """`sampler` holds a copy of the policy; `copied_weights` gives the learner's as they are, to keep."""
        self.config, self.source, self.sampler, self.scorer = config, source, sampler, scorer
        self.copied_weights = copied_weights
        self._jobs: deque[_Job] = deque()
        self._prompts: dict[str, Any] | None = None
        self._thread = Background("taut-sample")

    def collect(self, step: int, watch: Stopwatch) -> Collected:
        """The batch of this step; the learner is after the one before. Raises what sampling or scoring it raised.

        `watch` is told how long it was waited for, and how long the thread took to sample and to score it.
        """
        lag, now = self.config.algorithm.max_staleness, step - 1
        if not self._jobs:
            self._prompts = self.source.state()
            weights = self.copied_weights()
            self._jobs += [_Job(step + i, now, weights) for i in range(lag)]
        self._begin()
        job = self._jobs.popleft()
        assert job.step == step, f"batch {job.step} is next, and {step} was asked for"
        assert job.sampled is not None
        with watch("wait"):
            collected, seconds, self._prompts = job.sampled.result()
        watch.seconds |= seconds
        known = [other.weights for other in self._jobs if other.version == now]
        self._jobs.append(_Job(step + lag, now, known[0] if known else self.copied_weights()))
        self._begin()
        return collected

    def wait(self) -> None:
        """Until no batch is being sampled."""
        for job in self._jobs:
            if job.sampled is not None:
                job.sampled.exception()  # raised where its batch is asked for

    def prompts(self) -> dict[str, Any]:
        """The source's state after the last batch that was handed out."""
        return self.source.state() if self._prompts is None else self._prompts

    def lagging(self) -> list[tuple[int, Weights]]:
        """Version and weights of each batch that is sampled next, in order; nothing changes them any more."""
        return [(job.version, job.weights) for job in self._jobs]

    def restore(self, step: int, lagging: Sequence[tuple[int, Weights]]) -> None:
        """Goes on after `step`, as it was there with these `lagging`; where by another number of steps, anew."""
        if len(lagging) != self.config.algorithm.max_staleness:
            return
        self._prompts = self.source.state()
        self._jobs = deque(_Job(step + 1 + i, *own) for i, own in enumerate(lagging))

    def _begin(self) -> None:
        for job in self._jobs:
            if job.sampled is None and job.step <= self.config.run.steps:
                job.sampled = self._thread.submit(lambda job=job: self._sample(job))  # type: ignore[misc]

    def _sample(self, job: _Job) -> tuple[Collected, dict[str, float], dict[str, Any]]:
        self.sampler.load_weights(job.weights, job.version)
        watch = Stopwatch()
        collected = collect(self.source, self.sampler, self.scorer, self.config, job.step, watch)
        return collected, dict(watch.seconds), self.source.state()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.close()
        self._thread.join(PATIENCE if isinstance(error, KeyboardInterrupt) else None)
