"""Ctrl-C and SIGTERM: the first asks a run to end after its step, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Heard while the context is open, in the main thread: elsewhere none ever comes."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def stop_asked(self) -> bool:
        """Whether one has come."""
        return self._asked

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other set a handler
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
