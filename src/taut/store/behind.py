"""Steps written while the loop goes on."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Self

from taut.background import Background
from taut.store.record import StepRecord
from taut.store.writer import RunWriter

DEPTH = 2
"""Steps that may wait beside the one being written; each holds its batch in memory."""


class WriteBehind:
    """Appends steps to a run in a thread of its own, in order, each whole or not at all.

    What a write raises is raised by the next `append` or `wait`, and nothing is written after it: a store never lacks
    a step before its newest. As a context manager it ends with everything written, also on an error or an interrupt.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._thread = Background("taut-store", DEPTH)
        self._last: Future[None] = Future()
        self._last.set_result(None)
        self._error: BaseException | None = None

    def append(self, record: StepRecord) -> None:
        """Returns at once, unless `DEPTH` steps wait already. Nothing in the record may change any more."""
        if self._last.done():
            self._last.result()
        self._last = self._thread.submit(lambda: self._write(record))

    def wait(self) -> None:
        """Until every step that was appended is in the store."""
        self._last.result()

    def _write(self, record: StepRecord) -> None:
        if self._error is not None:
            raise self._error
        try:
            self._writer.append(record)
        except BaseException as error:
            self._error = error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait()
        except OSError:
            if error is None:  # else the loop's own error is the one to tell
                raise
        finally:
            self._thread.close()
