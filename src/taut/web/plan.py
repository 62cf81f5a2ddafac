"""The memory of a run of a well-known shape, for the bench: computed by the child, since it needs torch."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.tasks.process.worker import FailedError
from taut.web.counterfactual import BROKEN, SECONDS_TO_ANSWER
from taut.web.requests import whole_number
from taut.web.strict_json import StrictJSON, error_answer

SWITCHES = ("lora", "checkpointing", "bfloat16")


def plan(request: Request) -> Response:
    """?size=NAME&reply=TOKENS, and switches of 0 or 1 -> what is held, and what each phase adds, in bytes.

    With critic, reference and reward model: the page leaves out the terms of what it is told to do without.
    """
    settings: dict[str, Any] = {
        "size": request.query_params.get("size", ""),
        "reply": whole_number(request, "reply", 512),
        **{name: bool(whole_number(request, name, 0, most=1)) for name in SWITCHES},
    }
    try:
        return StrictJSON(request.app.state.child.ask("plan", settings, SECONDS_TO_ANSWER))
    except FailedError as error:
        return error_answer(BROKEN, f"the process that plans {error}; ask again, and it starts anew")


ROUTES = [Route("/api/plan", plan)]
