"""What a standing check reads, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from taut.config import Config
from taut.types import Batch, OptimizerStep, Schedule, Trace

Verdict = Literal["pass", "warn", "fail"]
"""`fail`: the numbers are wrong, or nothing is learned. `warn`: they are right, and the run deserves a look."""


@dataclass(frozen=True)
class Finding:
    verdict: Verdict
    message: str
    """What was measured and, unless it passes, what to do, in one line."""


def judge(holds: bool, measured: str, advice: str, otherwise: Verdict = "fail") -> Finding:
    """`measured` alone where the check holds, and the advice behind it where it does not."""
    return Finding("pass", measured) if holds else Finding(otherwise, f"{measured}: {advice}")


@dataclass(frozen=True)
class CostlyEvidence:
    """What takes forward passes or reads all weights: taken at the first step, then every so many."""

    probes: tuple[OptimizerStep, OptimizerStep] | None
    """The loss of the whole batch before the update, in two cuts; None where no token trains."""
    learner_weights: str
    sampler_weights: str
    """Checksums after the sync."""


@dataclass(frozen=True)
class Evidence:
    """A step of the loop, after it."""

    config: Config
    batch: Batch
    schedule: Schedule
    trace: Trace
    history: Sequence[Mapping[str, float]]
    """Metrics of the newest steps, this one's last."""
    costly: CostlyEvidence | None = field(default=None)

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.history[-1]

    def recent(self, metric: str, steps: int) -> list[float]:
        """Its values in the newest `steps` steps that have it; [] where there are fewer."""
        values = [metrics[metric] for metrics in self.history if metric in metrics]
        return values[-steps:] if len(values) >= steps else []


Check = Callable[[Evidence], Finding | None]
"""None where the check does not apply to the run, or has nothing to judge at this step."""
