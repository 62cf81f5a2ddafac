"""What a step takes of the machine."""

from __future__ import annotations

import mmap
import time

import pytest

from taut.training.timing import Stopwatch
from taut.training.usage import STATM, resident_bytes, system_metrics


def test_cores_are_computing_time_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, cpu = iter([10.0, 14.0]), iter([3.0, 9.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(time, "process_time", lambda: next(cpu))
    assert system_metrics(Stopwatch())["system/cores"] == 1.5  # 6 s of computing in 4 s


@pytest.mark.skipif(not STATM.exists(), reason="this system has no /proc")
def test_memory_is_what_the_process_holds_now() -> None:
    before = resident_bytes()
    held = mmap.mmap(-1, 50_000_000)  # of the system: an array may get what this process has let go of
    held[:: mmap.PAGESIZE] = bytes(-(-len(held) // mmap.PAGESIZE))  # touched, so held
    grown = resident_bytes()
    assert before is not None
    assert grown is not None
    assert 45e6 < grown - before < 80e6
    assert system_metrics(Stopwatch())["system/memory"] == pytest.approx(grown / 1e9, rel=0.1)
    held.close()


def test_a_system_that_does_not_tell_has_no_such_metric(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("taut.training.usage.STATM", tmp_path / "none")
    assert "system/memory" not in system_metrics(Stopwatch())
