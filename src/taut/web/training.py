"""Starts and stops runs of the built-in world from the page, and says what the workshop shows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taut.config import Config, check, resolve
from taut.config.resolve import flatten
from taut.store.runs import new_run_directory
from taut.web.breakages import BREAKAGES
from taut.web.jobs import Job, Jobs
from taut.web.requests import body_of, root_of
from taut.web.strict_json import StrictJSON

SECTIONS = ("algorithm", "kl", "critic", "optimizer", "eval", "learner", "checks")
OTHERS = ("run.steps", "run.seed", "sampling.temperature", "data.limit")
"""What a page may set: numbers and choices, nothing that names a file, a model or code."""

MOST_RUNS = 100


def jobs_of(request: Request) -> Jobs:
    """The application's, made with it."""
    jobs: Jobs = request.app.state.jobs
    return jobs


async def start(request: Request) -> Response:
    """Body {"runs": [{"settings": {"algorithm.epochs": 4, ...}, "fault": "no clip" or null}, ...]}.

    All are checked before the first is queued: 400 with the config's own words where one cannot be. Answers with their
    {"runs": names}, in order.
    """
    asked = runs_of(await body_of(request))
    jobs, root = jobs_of(request), root_of(request)
    return StrictJSON({"runs": await run_in_threadpool(queue_runs, jobs, root, asked)})


def stop(request: Request) -> Response:
    """{"done": in words}."""
    return StrictJSON({"done": jobs_of(request).stop(request.path_params["name"])})


def runs_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Raises ValueError where it is not what `start` takes."""
    runs = body.get("runs")
    if not isinstance(runs, list) or not 0 < len(runs) <= MOST_RUNS:
        raise ValueError(
            f'name the runs to train, 1 to {MOST_RUNS} of them, as in {{"runs": [{{"settings": {{}}}}]}}'
        )
    for run in runs:
        if not isinstance(run, dict) or not isinstance(run.get("settings", {}), dict):
            raise ValueError(
                'each of "runs" is {"settings": {"section.key": value}, "fault": a name or null}'
            )
    return runs


def queue_runs(jobs: Jobs, root: Path, runs: list[Mapping[str, Any]]) -> list[str]:
    """Raises ValueError before anything starts where one of them is impossible."""
    made: list[Job] = []
    with jobs.lock:
        taken = jobs.names()
        for run in runs:
            made.append(make_job(root, run.get("settings", {}), run.get("fault"), taken))
            taken.add(made[-1].name)
        jobs.add(made)
    return [job.name for job in made]


def make_job(root: Path, settings: Mapping[str, Any], fault: Any, taken: set[str]) -> Job:
    """A run of the world with a name of its own. Raises ValueError where its settings are no such run's."""
    refused = [key for key in settings if key not in OTHERS and key.partition(".")[0] not in SECTIONS]
    if refused:
        raise ValueError(
            f"{', '.join(map(str, refused))} cannot be set here, where the built-in world is trained: taut train can"
        )
    if fault is not None and not (isinstance(fault, str) and fault in BREAKAGES):
        raise ValueError(f"there is no fault {fault!r}: choose one of {', '.join(BREAKAGES)}")
    if sections := [key for key, value in settings.items() if isinstance(value, Mapping)]:
        raise ValueError(
            f"{', '.join(sections)}: name each setting by itself, as section.key, with a plain value"
        )
    config, _ = resolve(settings)
    check(config)
    if config.critic.path is not None:
        raise ValueError("critic.path cannot be set here: the critic starts from the policy")
    name = new_name(root, name_of(config, fault), taken)
    place = {"run.root": str(root.absolute()), "run.name": name}
    checked = flatten(config.model_dump())
    flags = [
        f"--{key}={as_flag(value)}"
        for key, value in {**{key: checked[key] for key in settings}, **place}.items()
    ]
    # Python's -u: what it prints is read while it runs.
    program = ["taut.cli", "train"] if fault is None else ["taut.web.broken", fault]
    facts = {"fault": fault, "seed": config.run.seed, "steps": config.run.steps, "settings": dict(settings)}
    # Two runs of one seed would each fine-tune its model.
    return Job(name, [sys.executable, "-u", "-m", *program, *flags], facts, alone=config.run.seed)


def as_flag(value: Any) -> str:
    """As YAML reads it back."""
    return json.dumps(value)


def name_of(config: Config, fault: str | None) -> str:
    """What differs from the world's own run, as `taut sweep` names it."""
    ours, plain = config.model_dump(), resolve({"run.seed": config.run.seed})[0].model_dump()
    parts = [f"broken-{fault.replace(' ', '-')}"] if fault else []
    low, high = ours["algorithm"]["clip_low"], ours["algorithm"]["clip_high"]
    for section in (*SECTIONS, "sampling", "data", "run"):
        for key, value in ours[section].items():
            if value == plain[section][key] or key == "preset":
                continue
            if low == high and key in ("clip_low", "clip_high"):
                parts += [f"clip={low}"] if key == "clip_low" else []
            else:
                parts.append(f"{key}={value}".replace("/", "-"))
    return "_".join([*(parts or ["world"]), f"seed={config.run.seed}"])[-120:]


def new_name(root: Path, name: str, taken: set[str]) -> str:
    """`name`, or with the first number behind it that no run or job has."""
    for number in range(1, 10_000):
        own = name if number == 1 else f"{name}_{number}"
        if own not in taken and not (root / own).exists():
            return new_run_directory(root, own).name
    raise ValueError(f"there are too many runs named {name!r}: remove some")


ROUTES = [
    Route("/api/training", start, methods=["POST"]),
    Route("/api/training/{name}/stop", stop, methods=["POST"]),
]
