"""trackio, in its folder on this machine, or wherever its own environment variables say."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec

from taut.trackers.tracker import TrackedRun


class TrackioTracker:
    """Logs to the project `$TRACKIO_PROJECT`, else `taut`.

    trackio prints to standard output, which is ours: what it says goes to standard error.
    """

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        with redirect_stdout(sys.stderr):
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "taut"),
                name=run.name,
                resume="allow" if run.resumed else "never",
                config=run.config.model_dump(),
                embed=False,
            )

    @staticmethod
    def need() -> None:
        if find_spec("trackio") is None:
            raise ImportError("run.trackers = trackio needs it: pip install 'taut[trackio]'")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self, error: BaseException | None) -> None:
        import trackio

        with redirect_stdout(sys.stderr):
            trackio.finish()  # as `Run.finish`, and forgets the run, which else is finished again at exit
