"""Runs as JSON: the list, one run, its scalars and its events, several side by side."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.checks.gauge import describe_collapse, describe_gauge, is_judged
from taut.config import Config
from taut.config.resolve import flatten
from taut.store import Run
from taut.store.compare import PLACE, config_differences
from taut.store.glance import LAST_STEPS
from taut.store.increment import Cursor, read_increment
from taut.web.requests import named_run, root_of, run_of, settings_of, whole_number
from taut.web.strict_json import StrictJSON

MOST_COMPARED = 64


def runs(request: Request) -> Response:
    """{"root", "runs": a row each as of `Glances.rows`, oldest first}."""
    return StrictJSON(
        {"root": str(root_of(request)), "runs": list(request.app.state.glances.rows().values())}
    )


def run(request: Request) -> Response:
    """One run: its row without the course, `config`, `facts`, `kept_steps`, and the newest answer of each check."""
    return StrictJSON(describe(run_of(request)))


def describe(run: Run) -> dict[str, Any]:
    """`config` is {"section.key": value}; `defaults` holds those of these keys that now have another default,
    its place apart.

    `gauge` is the clipped share in words, as `taut show` has it, "" where it says nothing; `judged` whether its
    useful range applies to this run.
    """
    config = settings_of(run)
    usual = flatten(Config().model_dump())
    row = run.glance()
    del row["course"]
    return {
        "run": run.name,
        **row,
        "config": config,
        "defaults": {
            key: usual[key]
            for key, value in config.items()
            if key in usual and usual[key] != value and key not in PLACE
        },
        "facts": run.facts,
        "gauge": gauge_of(run, row["clip/binding"]),
        "judged": is_judged(algorithm_of(run)),
        "kept_steps": run.kept_steps(),
        "checks": run.checks(),
    }


def gauge_of(run: Run, share: float | None) -> str:
    entropies = run.series("entropy")[1][-LAST_STEPS:]
    collapse = describe_collapse(float(entropies.mean())) if len(entropies) else ""
    return collapse or describe_gauge(algorithm_of(run), share)


def algorithm_of(run: Run) -> dict[str, Any]:
    prefix = "algorithm."
    return {key[len(prefix) :]: value for key, value in settings_of(run).items() if key.startswith(prefix)}


def scalars(request: Request) -> Response:
    """All that `read_increment` has beyond the cursor `after`, in one answer; with the `cursor` it leads to."""
    run = run_of(request)
    return StrictJSON({"run": run.name, **increment_of(run, request.query_params.get("after"))})


def increment_of(run: Run, after: str | None) -> dict[str, Any]:
    told = Cursor.parse(after or "")
    whole, told = read_increment(run.directory / "run.db", told)
    more = whole.pop("more")
    while more:
        part, told = read_increment(run.directory / "run.db", told)
        more = part.pop("more")
        _extend(whole, part)
    return {"cursor": str(told), **whole}


def _extend(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Puts the batches and events of `part` behind those of `whole`."""
    before, new = len(whole["ids"]), len(part["ids"])
    for name in whole["scalars"].keys() | part["scalars"].keys():
        head = whole["scalars"].setdefault(name, [None] * before)
        head += part["scalars"].get(name, [None] * new)
    for key in ("ids", "steps", "events"):
        whole[key] += part[key]
    whole["superseded"] = part["superseded"] or whole["superseded"]


def events(request: Request) -> Response:
    """{"events"}: those with an id above `after`."""
    return StrictJSON({"events": run_of(request).events(whole_number(request, "after", 0))})


def compare(request: Request) -> Response:
    """`?runs=NAME` each: {"runs": names, "differences": {"section.key": a value a run, null where it has none}}."""
    names = request.query_params.getlist("runs")
    if len(names) > MOST_COMPARED:
        raise ValueError(f"at most {MOST_COMPARED} runs are compared, not {len(names)}")
    found = [named_run(root_of(request), name) for name in names]
    differences = config_differences(found) if found else {}
    return StrictJSON({"runs": names, "differences": differences})


ROUTES = [
    Route("/api/runs", runs),
    Route("/api/runs/{name}", run),
    Route("/api/runs/{name}/scalars", scalars),
    Route("/api/runs/{name}/events", events),
    Route("/api/compare", compare),
]
