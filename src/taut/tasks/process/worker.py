"""The run's end of such a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

OnWait = Callable[[float], None]
"""Hears every second how long an answer has been waited for."""
PATIENCE = 2.0
"""Seconds after which a wait is worth telling."""


class RefusedError(ValueError):
    """The code cannot be called, or what it returned cannot be used: a mistake in it, not in a reply."""


class FailedError(Exception):
    """The code raised, hung or died: the fault may lie in one reply."""


class LostError(FailedError):
    """It hung or died, and its process, with what was kept there, is gone."""


class Worker:
    """Starts when it is first asked and again after it was lost; ends with the object, or the run."""

    def __init__(self, server: str, name: str, source: str | bytes) -> None:
        """`server` is the module that runs there.

        `source` is a reference such as `file.py:name`, or what it would name, pickled by cloudpickle.
        """
        self.name = name
        self._server = server
        self._source = source
        self._connection: Connection | None = None
        self._end: Callable[[], None] = lambda: None

    def ask(self, request: tuple[str, Any], timeout: float, on_wait: OnWait) -> Any:
        """The answer, where it comes within `timeout` seconds; loading the code is not part of them.

        `on_wait` hears of every second of a long wait, and of `timeout` once it is over.
        Raises RefusedError where the code itself is at fault, else FailedError or LostError.
        """
        told = False

        def tell(waited: float) -> None:
            nonlocal told
            if waited >= PATIENCE:
                told = True
                on_wait(min(waited, timeout))

        try:
            return self._ask(request, timeout, tell)
        finally:
            if told:
                on_wait(timeout)

    def _ask(self, request: tuple[str, Any], timeout: float, on_wait: OnWait) -> Any:
        try:
            if self._connection is None:
                self._connection = self._start()
                self._connection.send((self.name, self._source))
                self._receive(float("inf"), on_wait)
            self._connection.send(request)
            return self._receive(timeout, on_wait)
        except (EOFError, OSError):
            self._forget()
            raise LostError("ended its process") from None
        except BaseException as error:
            if not isinstance(error, FailedError) or isinstance(error, LostError):
                self._forget()
            raise

    def _receive(self, timeout: float, on_wait: OnWait) -> Any:
        assert self._connection is not None
        started = time.monotonic()
        while True:
            left = started + timeout - time.monotonic()
            if self._connection.poll(max(0.0, min(1.0, left))):
                break
            if left <= 0:
                raise LostError(f"gave no answer within {timeout:g} s")
            on_wait(time.monotonic() - started)
        outcome, content = self._answer(self._connection)
        if outcome == "done":
            return content
        raise (RefusedError if outcome == "refused" else FailedError)(content)

    @staticmethod
    def _answer(connection: Connection) -> tuple[str, Any]:
        try:
            outcome, content = connection.recv()
        except (EOFError, OSError):
            raise
        except Exception as error:  # code that writes to every file it finds writes here, too
            raise LostError("wrote what is no answer to its connection") from error
        return outcome, content

    def _start(self) -> Connection:
        # Not by multiprocessing: its spawned children import the user's main script again, and forked ones
        # inherit torch's threads in whatever state they are.
        ours, theirs = socket.socketpair()
        life, held = os.pipe()
        with theirs, os.fdopen(life):
            process = subprocess.Popen(
                [sys.executable, "-m", self._server, str(theirs.fileno()), str(life)],
                pass_fds=[theirs.fileno(), life],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what it prints must not mix with the run's own output
                start_new_session=True,  # an interrupt is for the run to handle
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        connection = Connection(ours.detach())
        self._end = weakref.finalize(self, _end, process, connection, held)
        return connection

    def _forget(self) -> None:
        self._connection = None
        self._end()


def _end(process: subprocess.Popen[bytes], connection: Connection, held: int) -> None:
    """With all that the code started."""
    connection.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(held)
