"""What a tracker is told of its run, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from taut.config import Config


@dataclass(frozen=True)
class TrackedRun:
    directory: Path
    config: Config
    id: str
    """This run's alone, and the same when it is resumed."""
    resumed: bool = False

    @property
    def name(self) -> str:
        return self.directory.name


class Tracker(Protocol):
    """A further place for a run's metrics, as they come and under their own names.

    Whoever calls it expects any exception: the library behind it is not ours.
    """

    def __init__(self, run: TrackedRun) -> None: ...

    @staticmethod
    def need() -> None:
        """Raises ImportError naming the extra where the library is missing, ValueError where it cannot log in."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Takes the metrics of one step; step 0 is the evaluation before training."""

    def close(self, error: BaseException | None) -> None:
        """Ends it; `error` is what ended the run, None where it finished."""
