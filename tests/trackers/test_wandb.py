"""Weights & Biases offline: its file of a run is read again, record by record, without its own reader."""

import json
import math
import struct
import time
from dataclasses import replace

import pytest

from taut.trackers.wandb import WandbTracker

pytest.importorskip("wandb")

BLOCK = 32768
FIRST_OF_SEVERAL, MIDDLE = 2, 3


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


def records(path):
    """The messages of a .wandb file: a header of 7 bytes, then LevelDB's log format in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while place < len(data):
        if BLOCK - place % BLOCK < 7:  # no chunk starts where its own header would not fit
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind not in (FIRST_OF_SEVERAL, MIDDLE):
            yield Record.FromString(whole)
            whole = b""


def read(run):
    """Of every session of the run, in order: what was said at its start, its history by step, its exit code.

    The library's own process writes the files, and may still do so once the tracker is closed.
    """
    for _ in range(600):
        sessions = [parse(path) for path in sorted((run.directory / "wandb").glob("offline-run-*/*.wandb"))]
        if all(code is not None for *_, code in sessions):
            return sessions
        time.sleep(0.1)
    raise AssertionError(f"a session has no exit code: {sessions}")


def parse(path):
    start, history, code = None, {}, None
    for record in records(path):
        if record.HasField("run"):
            start = record.run
        elif record.HasField("history"):
            row = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
            row = {name: json.loads(value) for name, value in row.items()}
            history[record.history.step.num] = {k: v for k, v in row.items() if not k.startswith("_")}
        elif record.HasField("exit"):
            code = record.exit.exit_code
    return start, history, code


def test_a_run_and_the_one_that_resumes_it_arrive_whole(run):
    tracker = WandbTracker(run)
    tracker.log(0, {"eval/accuracy": 0.25})
    tracker.log(1, {"reward/mean": 0.5, "reward/a.b": 1.0})
    tracker.log(2, {"reward/mean": math.inf, "reward/a.b": -math.inf})
    tracker.close(KeyboardInterrupt())
    time.sleep(1.1)  # the sessions' folders are named by the second
    tracker = WandbTracker(replace(run, resumed=True))
    tracker.log(3, {"reward/mean": math.nan})
    tracker.close(None)
    (start, history, killed), (again, more, done) = read(run)
    assert (start.project, start.display_name, start.run_id) == ("taut", "own", "0123456789abcdef")
    config = {update.key: json.loads(update.value_json) for update in start.config.update}
    assert {name: config[name] for name in run.config.model_dump()} == run.config.model_dump()
    assert history == {
        0: {"eval/accuracy": 0.25},
        1: {"reward/mean": 0.5, "reward/a.b": 1.0},
        2: {"reward/mean": math.inf, "reward/a.b": -math.inf},
    }
    assert again.run_id == start.run_id
    assert list(more) == [3]
    assert math.isnan(more[3]["reward/mean"])
    assert (killed, done) == (255, 0)


def test_a_run_that_is_open_already_is_left_alone(run, tmp_path):
    import wandb

    silent = wandb.Settings(silent=True)
    theirs = wandb.init(project="theirs", dir=str(tmp_path), mode="offline", settings=silent)
    tracker = WandbTracker(run)
    tracker.log(1, {"reward/mean": 0.5})
    tracker.close(ValueError("the run failed"))
    assert wandb.run is theirs
    theirs.finish()
    assert [(list(history), code) for _, history, code in read(run)] == [([1], 1)]


def test_offline_needs_no_key():
    WandbTracker.need()
