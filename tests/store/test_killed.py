"""A writer in another process: read while it writes, and after it was killed at any moment."""

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from taut.store import Run, RunWriter

CHILD = Path(__file__).with_name("made_up.py")


@contextmanager
def writing(directory):
    """A child process that appends steps 0, 1, 2, ... as fast as it can, killed at the end of the block."""
    child = subprocess.Popen([sys.executable, str(CHILD), str(directory)])
    try:
        deadline = time.monotonic() + 60
        while not (is_run(directory) and Run.open(directory).step_count):
            assert time.monotonic() < deadline, "the child wrote nothing"
            assert child.poll() is None, "the child ended"
            time.sleep(0.01)
        yield
    finally:
        child.kill()
        child.wait()


def is_run(directory):
    try:
        return bool(Run.open(directory))
    except ValueError:
        return False


def assert_whole(run):
    """Steps 0 to N without a gap, each with its scalars, and whole where retention keeps it."""
    rows = run.scalars()
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert all(row.keys() == {"step", "reward/mean", "clip/binding"} for row in rows)
    for step in run.kept_steps()[-3:]:
        batch = run.batch(step)
        assert batch.lengths.tolist() == [200, 300, 100, 250]
        assert [update.rows.tolist() for update in batch.updates] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    return len(rows)


@pytest.mark.parametrize("trial", range(5))
def test_kill_leaves_whole_steps_only(tmp_path, trial):
    directory = tmp_path / "run"
    with writing(directory):
        time.sleep(random.Random(trial).uniform(0, 0.3))
    db = sqlite3.connect(directory / "run.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    run = Run.open(directory)
    steps = assert_whole(run)
    with RunWriter.resume(directory) as writer:
        writer.supersede_after(1)
    assert steps >= 1
    assert Run.open(directory).step_count == 1


def test_killed_store_is_first_opened_by_a_reader(tmp_path):
    with writing(tmp_path / "run"):
        time.sleep(0.1)
    assert assert_whole(Run.open(tmp_path / "run")) >= 1


def test_read_while_it_is_written(tmp_path):
    with writing(tmp_path / "run"):
        run = Run.open(tmp_path / "run")
        counts = [run.step_count]
        for _ in range(10):
            newest = run.kept_steps()[-1]
            assert len(run.replies(newest)) == 4
            counts.append(len(run.scalars()))
            time.sleep(0.02)
        assert run.status == "running"
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
