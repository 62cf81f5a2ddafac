"""What the trackers hear of a run, and that none of them can end it."""

import json
import subprocess
import sys
from typing import ClassVar

import pytest
import yaml

from taut.config import DPOConfig, SFTConfig, resolve
from taut.launch import local, trackers
from taut.launch.preferences import train_dpo
from taut.launch.resume import resume
from taut.launch.sft import fine_tune_model
from taut.store import Run


class Recorder:
    """Writes down what it hears, and fails where the test says."""

    heard: ClassVar = []
    fails_at: ClassVar = ()

    def __init__(self, run):
        self.hear("open", run)

    @staticmethod
    def need():
        pass

    def log(self, step, metrics):
        self.hear(step, metrics)

    def close(self, error):
        self.hear("close", error)

    def hear(self, what, of):
        self.heard.append((what, of))
        if what in self.fails_at:
            raise OSError(f"no space left\nfor {what}")


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(Recorder, "heard", [])
    monkeypatch.setattr(Recorder, "fails_at", ())
    monkeypatch.setitem(trackers.TRACKERS, "tensorboard", Recorder)
    return Recorder


def train(own, observers=()):
    return local.train(resolve({**own, "run.trackers": "tensorboard"})[0], observers)


def told(run):
    return [
        (event["step"], event["level"], event["name"]) for event in run.events() if event["kind"] == "tracker"
    ]


def test_a_tracker_hears_what_is_stored_from_the_evaluation_before_training_on(own, recorder):
    run = train(own)
    (opened, tracked), *steps, closed = recorder.heard
    assert (opened, tracked.name, tracked.directory, tracked.resumed) == ("open", "own", run.directory, False)
    assert tracked.config.model_dump() == run.config
    assert [{"step": step, **metrics} for step, metrics in steps] == run.scalars()
    assert [step for step, _ in steps] == [0, 1, 2]
    assert closed == ("close", None)
    assert told(run) == []


def test_it_changes_nothing_in_the_run(own, recorder):
    tracked = train(own)
    alone = local.train(resolve({**own, "run.name": "alone"})[0])
    timed = ("time/", "rate/", "system/")
    first, second = (
        [{k: v for k, v in row.items() if not k.startswith(timed)} for row in run.scalars()]
        for run in (tracked, alone)
    )
    assert first == second


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no more")])
def test_it_is_closed_with_what_ended_the_run(own, recorder, error):
    def end(step, metrics):
        if step == 1:
            raise error

    with pytest.raises(type(error)):
        train(own, [end])
    assert recorder.heard[-1] == ("close", error)
    assert [what for what, _ in recorder.heard] == ["open", 0, "close"]


@pytest.mark.parametrize(
    ("fails_at", "heard", "step"),
    [
        (("open",), ["open"], None),
        ((1,), ["open", 0, 1, 2, "close"], 1),
        ((0, 1, "close"), ["open", 0, 1, 2, "close"], 0),
        (("close",), ["open", 0, 1, 2, "close"], None),
    ],
)
def test_its_failures_are_told_once_and_the_run_goes_on(own, recorder, fails_at, heard, step):
    recorder.fails_at = fails_at
    run = train(own)
    assert run.status == "finished"
    assert run.step_count == 2
    assert [what for what, _ in recorder.heard] == heard
    assert told(run) == [(step, "warning", "tensorboard")]
    [message] = [event["message"] for event in run.events() if event["kind"] == "tracker"]
    assert message.endswith(f"which are all here: OSError: no space left for {fails_at[0]}")


def test_a_resumed_run_goes_on_in_the_same_place(own, recorder):
    first = train(own)
    resume(first.directory, steps=3)
    opened = [of for what, of in recorder.heard if what == "open"]
    assert [run.resumed for run in opened] == [False, True]
    assert len({run.id for run in opened}) == 1
    assert [what for what, _ in recorder.heard] == ["open", 0, 1, 2, "close", "open", 3, "close"]
    recorder.heard.clear()
    train({**own, "run.name": "other"})
    assert recorder.heard[0][1].id != opened[0].id


def test_a_run_is_finished_before_it_waits_for_a_tracker(own, recorder, monkeypatch):
    def close(self, error):
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "close", close)
    with pytest.raises(KeyboardInterrupt):
        train(own)
    directory = recorder.heard[0][1].directory
    assert Run.open(directory).status == "finished"
    assert (directory / "checkpoints" / "step_000002").is_dir()


@pytest.mark.parametrize("library", ["tensorboard", "wandb", "trackio"])
def test_a_missing_library_is_told_before_weights_load(own, tmp_path, monkeypatch, library):
    monkeypatch.setattr(local, "load_policy", lambda *_: pytest.fail("weights were loaded"))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"run.trackers = {library} .*pip install 'taut\[{library}\]'"):
        local.train(resolve({**own, "run.trackers": library})[0])
    assert not (tmp_path / "runs").exists()


def test_a_missing_key_is_told_before_weights_load(own, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    # A process of its own: wandb reads its settings once.
    code = (
        "from taut.config import resolve; from taut.launch import trackers\n"
        "trackers.need_trackers(resolve({'run.trackers': 'wandb'})[0].run)"
    )
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ValueError: run.trackers = wandb has no API key: run `wandb login` once, or set" in answer.stderr


def test_only_runs_of_train_have_trackers(tmp_path):
    settings = {"run.trackers": ["wandb"]}
    with pytest.raises(ValueError, match=r"taut sft takes no run\.trackers"):
        fine_tune_model(resolve(settings, kind=SFTConfig)[0])
    with pytest.raises(ValueError, match=r"takes no run\.trackers"):
        train_dpo(resolve(settings, {"dpo.output": str(tmp_path / "out")}, kind=DPOConfig)[0])


def test_all_three_from_the_command_line(own, tmp_path, monkeypatch):
    for library in ("tensorboard", "wandb", "trackio"):
        pytest.importorskip(library)
    config = tmp_path / "config.yaml"
    nested = {}
    for key, value in own.items():
        section, _, leaf = key.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[leaf] = value
    config.write_text(yaml.safe_dump(nested))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    command = [
        sys.executable,
        "-m",
        "taut.cli",
        "train",
        str(config),
        "--json",
        "--run.trackers",
        "tensorboard, wandb,trackio",
    ]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    printed = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [row.get("step") for row in printed] == [0, 1, 2, None], "nothing else is on standard output"
    run = Run.open(tmp_path / "runs" / "own")
    assert run.config["run"]["trackers"] == ["tensorboard", "wandb", "trackio"]
    assert told(run) == []
    assert len(list((run.directory / "tensorboard").iterdir())) == 1
    assert len(list((run.directory / "wandb").glob("offline-run-*/*.wandb"))) == 1
    assert (tmp_path / "trackio" / "taut.db").is_file()
