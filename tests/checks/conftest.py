"""A short run of the built-in world, and what its standing checks said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from taut.config import resolve
from taut.launch.local import train
from taut.store import Run


@pytest.fixture
def run_world(tmp_path: Path, world_cache: Path) -> Callable[..., Run]:
    """Two steps of 8 prompts x 4 replies, from dotted keys over a preset; returns the run, also where it failed."""

    def run(**settings: object) -> Run:
        base = {
            "run.root": str(tmp_path),
            "run.name": f"run-{len(list(tmp_path.iterdir()))}",
            "run.steps": 2,
            "algorithm.prompts_per_step": 8,
            "algorithm.replies_per_prompt": 4,
            "eval.limit": 2,
            "eval.every": 0,
        }
        given = {key.replace("__", "."): value for key, value in settings.items()}
        return train(resolve({**base, **given})[0])

    return run


@pytest.fixture
def verdicts() -> Callable[[Run], dict[str, str]]:
    """Each check's verdict at the end of a run; absent where it had nothing to judge."""

    def of(run: Run) -> dict[str, str]:
        return {e["name"]: e["data"]["verdict"] for e in run.events() if e["kind"] == "check"}

    return of
