"""What looks at every batch from outside the loop and changes nothing; `checks/standing.py` is the one there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from taut.types import Batch, Schedule, Trace


class CheckFailedError(ArithmeticError):
    """An inspector found what the run is not to go on with."""


class Inspector(Protocol):
    def before_update(self, batch: Batch, schedule: Schedule) -> None:
        """Sees the batch as the update will, while the policy is still the one that is to be updated."""
        ...

    def after_step(
        self, batch: Batch, schedule: Schedule, trace: Trace, metrics: Mapping[str, float]
    ) -> None:
        """Sees what the update did, once that is stored and the sampler up to date. May raise CheckFailedError."""
        ...


class NoInspector:
    def before_update(self, batch: Batch, schedule: Schedule) -> None: ...

    def after_step(
        self, batch: Batch, schedule: Schedule, trace: Trace, metrics: Mapping[str, float]
    ) -> None: ...
