"""trackio in a folder of the tests', read again through its own storage."""

import math
from dataclasses import replace

import pytest

from taut.trackers.trackio import TrackioTracker


@pytest.fixture
def storage(monkeypatch):
    monkeypatch.delenv("TRACKIO_PROJECT", raising=False)
    return pytest.importorskip("trackio.sqlite_storage").SQLiteStorage


@pytest.fixture
def named(run, request):
    """A run of the test's own name: all tests of this module share the folder."""
    directory = run.directory.rename(run.directory.with_name(request.node.name))
    return replace(run, directory=directory)


def logs(storage, run):
    rows = storage.get_logs("taut", run.name)
    return {row["step"]: {k: v for k, v in row.items() if k not in ("step", "timestamp")} for row in rows}


def test_name_config_and_metrics_arrive_under_their_own_names_and_steps(storage, named):
    tracker = TrackioTracker(named)
    tracker.log(0, {"eval/accuracy": 0.25})
    tracker.log(1, {"reward/mean": 0.5, "reward/a.b": 1.0})
    tracker.close(None)
    assert logs(storage, named) == {0: {"eval/accuracy": 0.25}, 1: {"reward/mean": 0.5, "reward/a.b": 1.0}}
    config = storage.get_run_config("taut", named.name)
    assert {name: config[name] for name in named.config.model_dump()} == named.config.model_dump()


def test_numbers_that_are_none_stay_what_they_are(storage, named):
    tracker = TrackioTracker(named)
    tracker.log(1, {"a": math.nan, "b": math.inf, "c": -math.inf})
    tracker.close(KeyboardInterrupt())
    values = logs(storage, named)[1]
    assert math.isnan(values["a"])
    assert (values["b"], values["c"]) == (math.inf, -math.inf)


def test_a_resumed_run_goes_on_and_a_new_one_of_the_same_name_does_not(storage, named):
    for resumed, step in ((False, 1), (True, 2), (False, 1)):
        tracker = TrackioTracker(replace(named, resumed=resumed))
        tracker.log(step, {"reward/mean": 0.5})
        tracker.close(None)
    ids = [record["id"] for record in storage.get_run_records("taut") if record["name"] == named.name]
    steps = [[row["step"] for row in storage.get_logs("taut", named.name, run_id=own)] for own in ids]
    assert sorted(steps) == [[1], [1, 2]]


def test_nothing_goes_to_standard_output(storage, named, capsys):
    tracker = TrackioTracker(named)
    tracker.log(1, {"reward/mean": 0.5})
    tracker.close(None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"Created new run: {named.name}" in captured.err
