"""The application: routes, the one page, static files, and what errors become."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from taut.web import (
    counterfactual,
    export,
    plan,
    replies,
    runs,
    stream,
    training,
    workshop,
)
from taut.web.glances import Glances
from taut.web.jobs import Jobs
from taut.web.security import Guard, content_security_policy
from taut.web.strict_json import error_answer

STATIC = Path(__file__).with_name("static")
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

API: list[BaseRoute] = [
    *runs.ROUTES,
    *replies.ROUTES,
    *stream.ROUTES,
    *counterfactual.ROUTES,
    *export.ROUTES,
    *training.ROUTES,
    *workshop.ROUTES,
    *plan.ROUTES,
]
"""Plain functions, not coroutines: Starlette runs them in threads, so that reading a run never holds the others up."""


def create_app(root: Path | str, token: str | None = None, cookie: str = "taut_token") -> Starlette:
    """Serves the runs in `root`, which need not exist yet. With a `token`, to who has it alone."""
    for suffix, kind in TYPES.items():
        mimetypes.add_type(kind, suffix)  # a registry may say otherwise, and a module must be JavaScript
    app = Starlette(
        routes=[
            *API,
            Route("/api/{rest:path}", no_such_route),
            Mount("/static", GZipMiddleware(StaticFiles(directory=STATIC, check_dir=False))),
            Route("/{rest:path}", page),
        ],
        middleware=[Middleware(Guard, token=token, cookie=cookie)],
        exception_handlers={HTTPException: refuse, ValueError: refuse_mistake},  # type: ignore[dict-item]
    )
    app.state.root = Path(root)
    app.state.glances = Glances(app.state.root)
    app.state.leaving = lambda: False  # whether the server is about to end
    app.state.child = counterfactual.Child(lambda: app.state.leaving())
    app.state.jobs = Jobs(Path(root))
    app.state.workshop_rows = {}
    return app


def page(request: Request) -> Response:
    """The one page, whatever the path: which of its views is meant, its own router knows."""
    if ".." in request.path_params["rest"].replace("\\", "/").split("/"):
        raise HTTPException(404, "no such page")
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    policy = {"Content-Security-Policy": content_security_policy(html)}
    return Response(html, media_type="text/html", headers=policy)


def no_such_route(request: Request) -> Response:
    raise HTTPException(404, f"there is no {request.url.path!r} in this server")


def refuse(request: Request, error: HTTPException) -> Response:
    return error_answer(error.status_code, error.detail)


def refuse_mistake(request: Request, error: ValueError) -> Response:
    """Everywhere in Taut a ValueError is what the user can mend, and says how."""
    return error_answer(400, str(error))
