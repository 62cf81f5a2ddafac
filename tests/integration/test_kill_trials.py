"""Five of the kill trials of `make faults`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.learning
def test_killed_runs_are_resumed_and_equal_one_that_was_not():
    # In a process of its own: it forks, which this one with its threads must not.
    ended = subprocess.run(
        [sys.executable, "benchmarks/kill_trials.py", "--trials", "5", "--seed", "1", "--no-record"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
