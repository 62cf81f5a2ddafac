"""Where a step's seconds go."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnPhase = Callable[[str], None]
"""Hears of each phase as it begins."""


class Stopwatch:
    """`with watch("sample"): ...` adds up the seconds of each phase."""

    def __init__(self, on_phase: OnPhase = lambda phase: None) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._on_phase = on_phase
        self._started = time.perf_counter()
        self._cpu_before = time.process_time()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        self._on_phase(phase)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start

    @property
    def total(self) -> float:
        """Seconds since the stopwatch was made."""
        return time.perf_counter() - self._started

    @property
    def cpu_seconds(self) -> float:
        """What all threads of this process computed since then."""
        return time.process_time() - self._cpu_before
