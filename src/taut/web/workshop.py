"""What the workshop shows besides curves: its choices, its faults, the published figures, and the runs there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.checks.gauge import describe_outcome
from taut.config import WORLD, resolve
from taut.config.resolve import flatten
from taut.store import Run
from taut.store.compare import PLACE, summary_rows
from taut.store.glance import LAST_STEPS, Signature, signature
from taut.web.breakages import BREAKAGES
from taut.web.requests import root_of
from taut.web.runs import algorithm_of
from taut.web.strict_json import StrictJSON
from taut.web.training import jobs_of

SETTINGS = (
    "algorithm.epochs",
    "algorithm.minibatches",
    "algorithm.clip_low",
    "algorithm.clip_high",
    "algorithm.advantage",
    "optimizer.learning_rate",
    "optimizer.max_grad_norm",
    "kl.placement",
    "kl.coefficient",
    "kl.estimator",
    "learner.micro_batch_tokens",
    "run.steps",
    "run.seed",
)
"""What the page lets choose, or a fault's settings change."""

APART = (*PLACE, "run.seed", "run.trackers")
"""These and the store's say nothing of what is learned: runs that agree in all others are one curve."""

PUBLISHED = [
    {"epochs": 1, "clip": 0.2, "share": 0.0, "reward": None, "accuracy": None},
    {"epochs": 4, "clip": 0.2, "share": 0.071, "reward": 0.89, "accuracy": 0.70},
    {"epochs": 8, "clip": 0.2, "share": 0.149, "reward": None, "accuracy": None},
    {"epochs": 4, "clip": 0.5, "share": 0.049, "reward": None, "accuracy": None},
]
"""Figures of the article "PPO in Detail", whose experiment the world repeats: docs/world.md."""

ENDED = ("finished", "failed", "interrupted")


def workshop(request: Request) -> Response:
    """{"defaults", "settings", "faults", "published", "limit", "jobs", "runs"}: all but curves."""
    jobs = jobs_of(request)
    under_way = jobs.list()  # before the runs: what ends meanwhile is then known as ended
    runs = world_runs(root_of(request), request.app.state.workshop_rows)
    over = {run["run"] for run in runs if run["status"] in ENDED}
    return StrictJSON(
        {
            "defaults": settings_of(flatten(resolve({})[0].model_dump())),
            "faults": [{"name": name, **asdict(breakage)} for name, breakage in BREAKAGES.items()],
            "published": PUBLISHED,
            "limit": jobs.limit,
            # A process takes a moment to leave after its run has ended.
            "jobs": [job for job in under_way if job["name"] not in over],
            "runs": runs,
        }
    )


Known = dict[str, tuple[Signature | None, dict[str, Any] | None]]


def world_runs(root: Path, known: Known) -> list[dict[str, Any]]:
    """A row for each run of the built-in world, oldest first; one that has ended is read again only once it changed."""
    rows = []
    for path in root.glob("*/run.db"):
        name, now = path.parent.name, signature(path.parent)
        stored, row = known.get(name, (None, None))
        if stored is None or stored != now:
            row = _row(path.parent)
            ended = row is None or row["status"] in ENDED
            known[name] = (now if ended and now is not None and now.is_settled else None, row)
        rows += [] if row is None else [row]
    return sorted(rows, key=lambda row: (row["created"], row["run"]))


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The workshop's settings out of a whole config by dotted keys; None where it lacks one."""
    return {key: config.get(key) for key in SETTINGS}


def others_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a stored run sets otherwise than the page would: {"section.key": value}, without what is `APART`."""
    own = flatten(config)
    try:
        page, _ = resolve({key: own[key] for key in SETTINGS if key in own})
    except ValueError:  # the settings go with others only, such as the minibatches with a larger batch
        page, _ = resolve({})
    usual = flatten(page.model_dump())
    compared = [key for key in own if key not in (*SETTINGS, *APART) and not key.startswith("store.")]
    return {key: own[key] for key in compared if key not in usual or own[key] != usual[key]}


def is_of_the_world(config: Mapping[str, Any]) -> bool:
    """Whether a stored run trained the world's own model on the world's sums."""
    return all(config.get(f"{section}.path") == WORLD for section in ("model", "data"))


def _row(directory: Path) -> dict[str, Any] | None:
    """None where the run is of another model or cannot be read; the list of runs says so."""
    try:
        run = Run.open(directory)
        config = flatten(run.config)
        if not is_of_the_world(config):
            return None
        [summary] = summary_rows([run])
    except (ValueError, OSError):
        return None
    entropies = run.series("entropy")[1][-LAST_STEPS:]
    entropy = float(entropies.mean()) if len(entropies) else None
    checks = {name: event for name, event in run.checks().items() if event["level"] != "info"}
    return {
        **summary,
        "eval/greedy": run.last("eval/greedy"),
        "settings": {**settings_of(config), **others_of(config)},
        "fault": run.facts.get("fault"),
        "gauge": describe_outcome(algorithm_of(run), summary["clip/binding"], entropy),
        "fired": [
            {"name": name, "level": e["level"], "step": e["step"], "message": e["message"]}
            for name, e in checks.items()
        ],
    }


ROUTES = [Route("/api/workshop", workshop)]
