"""The process of a reward function: `python -m taut.tasks.rewards.serve FD`.

Over the connection come first the function, by reference or pickled by value, then requests; each is answered by
("done", value), ("refused", text) where the function itself is at fault, or ("raised", text).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from taut.tasks.rewards.contract import RefusedError, RewardFunction, call_function, check_signature
from taut.tasks.rewards.load import line_in, load_reward_function


def serve(connection: Connection) -> None:
    name, source = connection.recv()
    function: RewardFunction | None = None

    def load() -> None:
        nonlocal function
        function = load_reward_function(source) if isinstance(source, str) else _unpickled(source, name)

    connection.send(_outcome(load))
    if function is None:
        return
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = code.co_filename if code else ""
    # One event loop for all calls: an async function's clients and locks belong to the loop they were made in.
    with asyncio.Runner() as runner:
        while True:
            try:
                request = connection.recv()
            except (EOFError, OSError):
                return
            connection.send(_outcome(partial(_handle, function, name, request, runner), file))


def _outcome(work: Callable[[], Any], file: str = "") -> tuple[str, Any]:
    try:
        return "done", work()
    except RefusedError as error:
        return "refused", str(error)
    except BaseException as error:  # a user's code runs: whatever it does, an exit too, is reported
        return "raised", f"raised {type(error).__name__}: {error}{line_in(file, error)}"


def _handle(function: RewardFunction, name: str, request: tuple[str, Any], runner: asyncio.Runner) -> Any:
    kind, content = request
    if kind == "check":
        return check_signature(function, name, content)
    return call_function(function, name, content, runner)


def _unpickled(source: bytes, name: str) -> RewardFunction:
    try:
        return pickle.loads(source)
    except Exception as error:  # whatever the function's module does when it is imported
        raise RefusedError(
            f"reward function {name} does not load in a process of its own: {type(error).__name__}: {error}"
        ) from error


def _end_with(parent: int) -> None:
    """A function that hangs would outlive a run that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    serve(Connection(int(sys.argv[1])))
