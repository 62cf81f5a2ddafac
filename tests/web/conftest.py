"""A folder of made-up runs, and an application over it. Lets the tests of this folder import made_up_runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.append(str(Path(__file__).parent))

from made_up_runs import made_up_run

from taut.web.app import create_app


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    made_up_run(folder / "first")
    return folder


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with TestClient(create_app(root), base_url="http://127.0.0.1:8265") as client:
        yield client
