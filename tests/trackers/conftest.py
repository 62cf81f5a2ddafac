"""A run as a tracker is told of it."""

import pytest

from taut.config import Config
from taut.trackers.tracker import TrackedRun


@pytest.fixture
def run(tmp_path):
    (tmp_path / "own").mkdir()
    return TrackedRun(tmp_path / "own", Config(algorithm={"epochs": 3}), id="0123456789abcdef")
