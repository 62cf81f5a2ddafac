"""A folder of made-up runs, and an application over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from taut.store import ReplyRecord, RunWriter, StepRecord
from taut.web.app import create_app

CONFIG = "algorithm:\n  epochs: 2\nrun:\n  seed: 0\n"


def made_up_step(step: int, **scalars: float) -> StepRecord:
    reply = ReplyRecord(
        *(0, 0, 0, 0, "1+1=", np.array([1], np.int32), "2", np.array([7, 8], np.int32), np.ones(2, bool)),
        reward=1.0,
        finish_reason="stop",
    )
    replies = [reply] if step else []
    return StepRecord(step, {}, {"reward/mean": step / 10, **scalars}, replies)


def made_up_run(directory: Path, steps: int = 3, facts: dict[str, object] | None = None) -> Path:
    with RunWriter.create(directory, CONFIG, facts={"threads": 1, **(facts or {})}) as writer:
        for step in range(steps + 1):
            writer.append(made_up_step(step))
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    made_up_run(folder / "first")
    return folder


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(create_app(root), base_url="http://127.0.0.1:8265") as client:
        yield client
