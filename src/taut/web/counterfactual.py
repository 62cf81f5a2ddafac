"""What if, and once more: questions about a recorded step, answered by one warm child process (`web/child.py`)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.tasks.process.worker import FailedError, LostError, Worker
from taut.web.binary import pack
from taut.web.requests import body_of, run_of
from taut.web.strict_json import StrictJSON, error_answer

SECONDS_TO_ANSWER = 120.0
"""Importing torch and reading a batch of gigabytes included."""
SECONDS_TO_REPLAY = 3600.0
MOST_PANELS, LONGEST_PANEL = 1_000, 100
"""That are remembered, and the characters of a name."""
OVERTAKEN, BROKEN = 204, 503
"""The first is no error, which a browser would write into its console: a newer question came, and nothing is told."""


class OvertakenError(Exception):
    """A newer question of the same panel came while this one waited."""


class Child:
    """One process, started by the first question. Of one panel's questions that wait only the newest is asked."""

    def __init__(self, leaving: Callable[[], bool] = lambda: False) -> None:
        """`leaving` says that the server is about to end: what is asked then is given up, and the process ends."""
        self._leaving = leaving
        self._worker = Worker("taut.web.child", "what if", "taut.web.child:answer")
        self._one_at_a_time = threading.Lock()
        self._counting = threading.Lock()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self.count = 0
        """Questions so far."""

    def ask(
        self, kind: str, content: dict[str, Any], seconds: float, panel: str = "", turn: int = 0
    ) -> dict[str, Any]:
        """`turn` numbers a panel's questions, which may come here in another order than they were sent.

        Without a `panel` a question is never overtaken.
        Raises OvertakenError; ValueError where the question is at fault; FailedError where the child is, which the
        next question starts again.
        """
        with self._counting:
            self.count += 1
            self._newest[panel] = max(turn, self._newest.pop(panel, 0))  # to the end: the oldest go first
            while len(self._newest) > MOST_PANELS:
                self._newest.popitem(last=False)
        with self._one_at_a_time:
            if panel and self._newest.get(panel, 0) > turn:
                raise OvertakenError
            self._give_up_when_leaving(0.0)
            found: dict[str, Any] = self._worker.ask((kind, content), seconds, self._give_up_when_leaving)
        if "error" in found:
            raise ValueError(found["error"])
        return found

    def _give_up_when_leaving(self, waited: float) -> None:
        if self._leaving():
            raise LostError("ends with the server")


def describe(request: Request) -> Response:
    """The settings in force in a step, which are fixed and why, its numbers, and whether it can be replayed."""
    found = _ask(request, "describe", {}, SECONDS_TO_ANSWER)
    return found if isinstance(found, Response) else StrictJSON(found)


async def recompute(request: Request) -> Response:
    """{"changes", "replies", "panel", "turn"} -> `child.recompute` of the step, packed by `binary.pack`."""
    body = await body_of(request)
    changes, replies, panel = body.get("changes", {}), body.get("replies", []), body.get("panel", "")
    if not isinstance(changes, dict):
        raise ValueError(
            '"changes" is an object of settings by dotted key, such as {"algorithm.clip_low": 0.1}'
        )
    if not isinstance(replies, list) or not all(type(reply) is int for reply in replies):
        raise ValueError('"replies" is a list of the numbers of replies, from 0')
    if not isinstance(panel, str) or len(panel) > LONGEST_PANEL:
        raise ValueError(f'"panel" is a text of at most {LONGEST_PANEL} characters')
    if type(turn := body.get("turn", 0)) is not int:
        raise ValueError('"turn" numbers the questions of a panel')
    question = {"changes": changes, "replies": replies}
    found = await run_in_threadpool(_ask, request, "recompute", question, SECONDS_TO_ANSWER, panel, turn)
    if isinstance(found, Response):
        return found
    packed = await run_in_threadpool(pack, found["header"], found["columns"])
    return Response(packed, media_type="application/octet-stream")


def replay(request: Request) -> Response:
    """Takes the step once more, and says whether it came out bit for bit: `launch/replay.py`."""
    found = _ask(request, "replay", {}, SECONDS_TO_REPLAY)
    return found if isinstance(found, Response) else StrictJSON(found)


def _ask(
    request: Request, kind: str, content: dict[str, Any], seconds: float, panel: str = "", turn: int = 0
) -> dict[str, Any] | Response:
    run, step = run_of(request), request.path_params["step"]
    child: Child = request.app.state.child
    question = {"directory": str(run.directory.resolve()), "step": step, **content}
    try:
        return child.ask(kind, question, seconds, panel, turn)
    except OvertakenError:
        return Response(status_code=OVERTAKEN)
    except LostError as error:
        return error_answer(BROKEN, f"the process that computes this {error}; ask again, and it starts anew")
    except FailedError as error:
        return error_answer(BROKEN, f"computing this {error}")


_STEP = "/api/runs/{name}/steps/{step:int}"
ROUTES = [
    Route(f"{_STEP}/counterfactual", describe),
    Route(f"{_STEP}/counterfactual", recompute, methods=["POST"]),
    Route(f"{_STEP}/replay", replay, methods=["POST"]),
]
