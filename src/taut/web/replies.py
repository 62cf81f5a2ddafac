"""Routes to a step's replies: lists of them, one of them, its text as a file, its tokens, a prompt through training."""

from __future__ import annotations

from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.store import Run
from taut.store.part import reply_text
from taut.store.run import as_ranges
from taut.web.reply_lists import LIMIT, follow_prompt, list_replies, one_reply, step_states
from taut.web.requests import run_of, whole_number
from taut.web.strict_json import StrictJSON
from taut.web.tokens import tokens_answer


def steps(request: Request) -> Response:
    """{"kept", "dropped", "superseded"}: steps by what became of their replies."""
    return StrictJSON(step_states(run_of(request)))


def replies(request: Request) -> Response:
    """A page of the replies of a step: `sort`, `order`, `filter`, `search`, `offset`, `limit`."""
    run, step = _kept(request)
    asked = {
        key: request.query_params[key]
        for key in ("sort", "order", "filter", "search")
        if key in request.query_params
    }
    offset, limit = whole_number(request, "offset", 0), whole_number(request, "limit", 50, most=LIMIT)
    return StrictJSON(list_replies(run, step, **asked, offset=offset, limit=limit))


def reply(request: Request) -> Response:
    run, step = _kept(request)
    return StrictJSON(one_reply(run, step, request.path_params["reply"]))


def text(request: Request) -> Response:
    """The whole text of a reply, as a file to save."""
    run, step = _kept(request)
    number = request.path_params["reply"]
    name = quote(f"{run.name}-step-{step}-reply-{number}.txt")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(
        reply_text(run, step, number).text, media_type="text/plain; charset=utf-8", headers=headers
    )


def tokens(request: Request) -> Response:
    """Binary, as `taut.web.tokens` lays it out; `replies=0,1,2`, without which it is as many as fit."""
    run, step = _kept(request)
    listed = request.query_params.get("replies")
    if listed is not None and not all(
        part.isascii() and part.isdigit() and len(part) < 10 for part in listed.split(",")
    ):
        raise ValueError(f"replies are numbers with commas between them, such as 0,1,2, not {listed[:40]!r}")
    chosen = None if listed is None else [int(part) for part in listed.split(",")]
    return Response(tokens_answer(run, step, chosen), media_type="application/octet-stream")


def prompt(request: Request) -> Response:
    return StrictJSON(follow_prompt(run_of(request), request.path_params["prompt"]))


def _kept(request: Request) -> tuple[Run, int]:
    """The run and step that the path names. 404 where the step's replies are not there, saying which are."""
    run, step = run_of(request), request.path_params["step"]
    states = step_states(run)
    if step not in states["kept"]:
        why = (
            f"the replies of step {step} were dropped to save space"
            if step in states["dropped"]
            else f"step {step} was taken back by a resume, and not taken again yet"
            if step in states["superseded"]
            else f"run {run.name!r} has no step {step} with replies"
        )
        raise HTTPException(404, f"{why}; steps kept: {as_ranges(states['kept']) or 'none'}")
    return run, step


_STEP = "/api/runs/{name}/steps/{step:int}"
ROUTES = [
    Route("/api/runs/{name}/steps", steps),
    Route(f"{_STEP}/replies", replies),
    Route(f"{_STEP}/replies/{{reply:int}}", reply),
    Route(f"{_STEP}/replies/{{reply:int}}/text", text),
    Route(f"{_STEP}/tokens", tokens),
    Route("/api/runs/{name}/prompts/{prompt:int}", prompt),
]
