"""The trackers that a run reports to beside its store, and how they are kept from harming it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from taut.config import Config, RunConfig
from taut.config.values import TrackerName
from taut.store import Run, RunWriter
from taut.trackers.tensorboard import TensorBoardTracker
from taut.trackers.tracker import TrackedRun, Tracker
from taut.trackers.trackio import TrackioTracker
from taut.trackers.wandb import WandbTracker
from taut.training.metrics import Metrics
from taut.training.ppo import Observer

TRACKERS: dict[TrackerName, type[Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "trackio": TrackioTracker,
}


def need_trackers(config: RunConfig) -> None:
    """Raises ImportError or ValueError, before any weights load, where a tracker cannot be used here."""
    for name in config.trackers:
        TRACKERS[name].need()


def refuse_trackers(config: RunConfig, command: str) -> None:
    """Raises ValueError where a command that keeps no run is given trackers."""
    if config.trackers:
        raise ValueError(f"{command} takes no run.trackers: only runs of taut train are reported to them")


@contextmanager
def tracking(config: Config, store: RunWriter) -> Iterator[list[Observer]]:
    """Opens `run.trackers` and gives an observer for each; closes them however the block ends.

    What a tracker raises is told by one event in the store: the run goes on without it.
    """
    run, trackers, error = _tracked_run(config, store), list[_Guarded](), None
    try:
        for name in config.run.trackers:
            trackers.append(_Guarded(name, run, store))
        yield [tracker.observe for tracker in trackers]
    except BaseException as caught:
        error = caught
        raise
    finally:
        for tracker in trackers:
            tracker.close(error)


def _tracked_run(config: Config, store: RunWriter) -> TrackedRun:
    run = Run.open(store.directory)
    own = hashlib.sha256(f"{run.name} {run.created}".encode()).hexdigest()[:16]
    return TrackedRun(store.directory, config, id=own, resumed=bool(run.scalars()))


class _Guarded:
    """A tracker whose failures are told once, and end nothing."""

    def __init__(self, name: TrackerName, run: TrackedRun, store: RunWriter) -> None:
        self._name, self._store, self._told = name, store, False
        self._tracker: Tracker | None = None
        with self._telling():
            self._tracker = TRACKERS[name](run)

    def observe(self, step: int, metrics: Metrics) -> None:
        if self._tracker is not None:
            with self._telling(step):
                self._tracker.log(step, metrics)

    def close(self, error: BaseException | None) -> None:
        if self._tracker is not None:
            with self._telling():
                self._tracker.close(error)

    @contextmanager
    def _telling(self, step: int | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a library of any kind, with a network and a disk beneath it
            if not self._told:
                self._told = True
                why = " ".join(f"{type(error).__name__}: {error}".split())
                message = f"{self._name} may lack metrics, which are all here: {why}"
                self._store.event("tracker", self._name, message, "warning", step)
