"""The other end: loads the code, then answers requests, one after the other.

Over the connection come first a name and the code, by reference or pickled by value, then requests. Each is answered
by ("done", value), ("refused", text) where the code itself is at fault, or ("raised", text).
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from taut.tasks.process.load import line_in, load_reference
from taut.tasks.process.worker import RefusedError

Outcome = tuple[str, Any]
Handle = Callable[[Any, str, tuple[str, Any], asyncio.Runner], Any]
"""(what was loaded, its name, (kind of request, its content), event loop) -> answer"""


def run(handle: Handle, kind: str) -> None:
    """Serves the connection that the command line names, until it or the parent process ends."""
    _end_with_pipe(int(sys.argv[2]))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _serve(Connection(int(sys.argv[1])), handle, kind)


def _serve(connection: Connection, handle: Handle, kind: str) -> None:
    name, source = connection.recv()
    loaded = outcome_of(partial(_load, source, name, kind))
    connection.send((loaded[0], loaded[1] if loaded[0] != "done" else None))
    if loaded[0] != "done":
        return
    code = loaded[1]
    # One event loop for all calls: an async function's clients and locks belong to the loop they were made in.
    with asyncio.Runner() as runner:
        while True:
            try:
                request = connection.recv()
            except (EOFError, OSError):
                return
            outcome = outcome_of(partial(handle, code, name, request, runner), file_of(code))
            try:
                connection.send(outcome)
            except OSError:  # the code closed it, and perhaps what asyncio would end with
                os._exit(1)


def outcome_of(work: Callable[[], Any], file: str = "") -> Outcome:
    """What the work gave, or how it failed; `file` is the user's, whose line is then named."""
    try:
        return "done", work()
    except RefusedError as error:
        return "refused", str(error)
    except BaseException as error:  # a user's code runs: whatever it does, an exit too, is reported
        return "raised", what_it_raised(error, file)


def what_it_raised(error: BaseException, file: str) -> str:
    try:
        text = str(error)
    except Exception:  # an exception's own text is a user's code, too
        text = "(it has no text)"
    return f"raised {type(error).__name__}: {text}{line_in(file, error)}"


def file_of(code: Any) -> str:
    """Where a function stands, or a class's `step`."""
    found = getattr(inspect.unwrap(getattr(code, "step", code)), "__code__", None)
    return found.co_filename if found else ""


def _load(source: str | bytes, name: str, kind: str) -> Any:
    if isinstance(source, str):
        return load_reference(source, kind)
    try:
        return pickle.loads(source)
    except Exception as error:  # whatever its module does when it is imported
        raise RefusedError(
            f"{kind} {name} does not load in a process of its own: {type(error).__name__}: {error}"
        ) from error


def _end_with_pipe(life: int) -> None:
    """Has the kernel end this process, and what it started, once nobody holds the other end of the pipe.

    Code that hangs would outlive a run that was killed; and while it holds Python's lock no thread could end it.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def _end_with(parent: int) -> None:
    """The same by asking, where the kernel's signal does not end a process, as on macOS."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgrp(), signal.SIGKILL)
