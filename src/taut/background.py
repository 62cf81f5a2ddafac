"""One thread that does a run's side work, piece after piece, in order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class Background:
    """Does what it is given, in order. What a piece raises comes out where its result is asked for."""

    def __init__(self, name: str, depth: int = 0) -> None:
        """`depth` pieces may wait, and to `submit` one more is to wait for room; 0: any number may."""
        self._waiting: Queue[tuple[Future[Any], Callable[[], Any]] | None] = Queue(depth)
        # A daemon: a process that is told to end at once does not wait for it, as it would for an executor's.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, piece: Callable[[], Result]) -> Future[Result]:
        future: Future[Result] = Future()
        self._waiting.put((future, piece))
        return future

    def close(self) -> None:
        """Drops what has not begun; the thread ends after what has."""
        try:
            while waiting := self._waiting.get_nowait():
                waiting[0].cancel()
        except Empty:
            pass
        self._waiting.put(None)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the thread has ended, or for so many seconds."""
        self._thread.join(timeout)

    def _work(self) -> None:
        while waiting := self._waiting.get():
            future, piece = waiting
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = piece()
            except BaseException as error:  # whatever it is, it is raised where somebody hears of it
                future.set_exception(error)
            else:
                future.set_result(result)
            del waiting, future, piece  # else what they hold lives until the next one comes
