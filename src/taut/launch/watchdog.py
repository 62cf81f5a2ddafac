"""Says what a run is waiting for when nothing has been heard of it for a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from taut.launch.rewards import OnWait
from taut.training.metrics import Metrics

QUIET_SECONDS = 60.0
WAITING_FOR = {
    "sample": "the sampler",
    "wait": "a batch that is sampled ahead, and its reward",
    "reward": "the reward",
    "score": "the learner's logprobs and values",
    "check": "the standing checks",
    "update": "the learner's update",
    "sync": "the sampler to take the new weights",
    "evaluate": "the held-out evaluation",
    "store": "the disk, for run.db",
    "checkpoint": "the disk, for a checkpoint",
}
"""The loop's phases, by what is waited for in them."""


class Watchdog:
    """Hears of phases and steps from the loop, and tells `on_wait` from a thread of its own."""

    def __init__(
        self, on_wait: OnWait, stop_asked: Callable[[], bool], first_step: int, quiet: float = QUIET_SECONDS
    ) -> None:
        self.on_wait, self.stop_asked, self.quiet = on_wait, stop_asked, quiet
        self.step = first_step
        self._phase = ""
        self._since = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="taut-watchdog", daemon=True)

    def phase(self, name: str) -> None:
        """The loop begins a phase."""
        self._phase, self._since = name, time.monotonic()

    def observe(self, step: int, metrics: Metrics) -> None:
        """The loop has finished a step."""
        self.step = step + 1

    def _watch(self) -> None:
        told, minutes = False, 0
        while not self._closed.wait(min(1.0, self.quiet)):
            if self.stop_asked() and not told:
                told = True
                self.on_wait(
                    f"finishing step {self.step} and saving it; interrupt again to stop at once", 0, 0
                )
            waited = time.monotonic() - self._since
            if int(waited // self.quiet) != minutes:
                minutes = int(waited // self.quiet)
                self.on_wait(self._message(waited) if minutes else "", 0, 0)

    def _message(self, waited: float) -> str:
        what = WAITING_FOR.get(self._phase, self._phase)
        return f"step {self.step} has waited {waited:.0f} s for {what}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
