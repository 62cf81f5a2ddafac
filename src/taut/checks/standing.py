"""The standing checks of a run: which there are, when they are asked, and what becomes of their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch

from taut.checks import arithmetic, objective, trends
from taut.checks.finding import Check, CostlyEvidence, Evidence, Finding, Verdict
from taut.config import Config
from taut.models.checksum import weights_checksum
from taut.rollout.sampler import Sampler
from taut.store.writer import Level
from taut.training.batch import sequence_lengths
from taut.training.inspector import CheckFailedError
from taut.training.learner import Learner
from taut.types import Batch, MicroBatch, OptimizerStep, Schedule, Trace

CHECKS: dict[str, Check] = {
    "finite": arithmetic.finite,
    "rescoring": arithmetic.rescoring,
    "mismatch": arithmetic.mismatch,
    "micro-batches": arithmetic.micro_batches,
    "mask": arithmetic.mask,
    "pads": objective.pads,
    "clip": objective.clip,
    "kl-connected": objective.kl_connected,
    "weights": arithmetic.weights,
    "rewards-differ": trends.rewards_differ,
    "truncation": trends.truncation,
    "entropy": trends.entropy,
    "critic": trends.critic,
    "clipped-share": trends.clipped_share,
    "repeats": trends.repeats,
    "reward-failures": trends.reward_failures,
}
"""By name, as events and docs/checks.md have them."""

COSTLY_EVERY = 50
"""Steps between the checks that take passes of their own: two, where such a batch takes hundreds."""

LEVELS: dict[Verdict, Level] = {"pass": "info", "warn": "warning", "fail": "error"}


class EventStore(Protocol):
    def event(
        self, kind: str, name: str, message: str, level: Level, step: int, data: Mapping[str, object]
    ) -> None: ...


class StandingChecks:
    """Asks every check after each step. A check's first answer is stored as an event, and then each that differs."""

    def __init__(self, config: Config, learner: Learner, sampler: Sampler, store: EventStore) -> None:
        self.config = config
        self.learner = learner
        self.sampler = sampler
        self.store = store
        self.verdicts: dict[str, Verdict] = {}
        self._history: deque[Mapping[str, float]] = deque(maxlen=trends.MANY)
        self._probes: tuple[OptimizerStep, OptimizerStep] | None = None

    def before_update(self, batch: Batch, schedule: Schedule) -> None:
        """Takes two passes over the whole batch where the costly checks are due."""
        self._probes = self._probe(batch, schedule) if self._due(schedule.step) else None

    def after_step(
        self, batch: Batch, schedule: Schedule, trace: Trace, metrics: Mapping[str, float]
    ) -> None:
        """Raises CheckFailedError under `checks.strict`."""
        due = self._due(schedule.step)
        self._history.append(dict(metrics))
        costly = self._costly() if due and not any(step.not_finite for step in trace.steps) else None
        evidence = Evidence(self.config, batch, schedule, trace, self._history, costly)
        failed = []
        for name, check in CHECKS.items():
            finding = check(evidence)
            if finding is None:
                continue
            if finding.verdict != self.verdicts.get(name):
                self._tell(name, finding, schedule.step)
            if finding.verdict == "fail":
                failed.append(f"step {schedule.step}, check {name}: {finding.message}")
        if failed and self.config.checks.strict:
            raise CheckFailedError("\n".join(failed))

    def _due(self, step: int) -> bool:
        """At the first step that this process takes, and then every so many."""
        return not self._history or step % COSTLY_EVERY == 0

    def _tell(self, name: str, finding: Finding, step: int) -> None:
        before = self.verdicts.get(name)
        self.verdicts[name] = finding.verdict
        data = {"verdict": finding.verdict, "before": before}
        self.store.event("check", name, finding.message, level=LEVELS[finding.verdict], step=step, data=data)

    def _probe(self, batch: Batch, schedule: Schedule) -> tuple[OptimizerStep, OptimizerStep] | None:
        """In other micro-batches than the update's, and in those."""
        # With the advantages as they are, the loss would be about 0 in any cut.
        batch = replace(batch, advantages=torch.ones_like(batch.behavior_logprobs))
        same = self.learner.probe(batch, schedule, self.config.learner.micro_batch_tokens)
        if same is None:
            return None
        other = self.learner.probe(batch, schedule, another_cut(batch, same.micro_batches))
        return None if other is None else (other, same)

    def _costly(self) -> CostlyEvidence:
        return CostlyEvidence(
            self._probes, weights_checksum(self.learner.weights()), self.sampler.weights_checksum()
        )


def another_cut(batch: Batch, cut: Sequence[MicroBatch]) -> int:
    """Tokens of a micro-batch that cut the batch otherwise: into smaller parts, or else into one."""
    several = [micro.places for micro in cut if len(micro.rows) > 1]
    return max(several) // 2 if several else batch.size * max(sequence_lengths(batch))
