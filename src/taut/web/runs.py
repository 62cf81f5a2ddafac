"""Runs as JSON: the list, one run, its scalars and its events."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.store import Run
from taut.store.compare import summary_rows
from taut.store.runs import list_runs
from taut.web.requests import root_of, run_of, whole_number
from taut.web.strict_json import StrictJSON


def runs(request: Request) -> Response:
    """{"root", "runs": rows as of `taut runs --json`}."""
    root = root_of(request)
    return StrictJSON({"root": str(root), "runs": list_runs(root)})


def run(request: Request) -> Response:
    """One run: its row of the list, config, facts, kept steps, and the newest answer of each check."""
    return StrictJSON(describe(run_of(request)))


def describe(run: Run) -> dict[str, Any]:
    return {
        **summary_rows([run])[0],
        "config": run.config,
        "facts": run.facts,
        "kept_steps": run.kept_steps(),
        "checks": run.checks(),
    }


def scalars(request: Request) -> Response:
    """{"rows"}: one a step, with `step` and each scalar by its name."""
    return StrictJSON({"rows": run_of(request).scalars()})


def events(request: Request) -> Response:
    """{"events"}: those with an id above `after`."""
    return StrictJSON({"events": run_of(request).events(whole_number(request, "after", 0))})


ROUTES = [
    Route("/api/runs", runs),
    Route("/api/runs/{name}", run),
    Route("/api/runs/{name}/scalars", scalars),
    Route("/api/runs/{name}/events", events),
]
