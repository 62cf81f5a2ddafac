"""Runs that are stopped and taken up again equal runs that were not; forks go on from a checkpoint."""

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from taut.config import resolve
from taut.launch.continued import config_to_resume
from taut.launch.local import train
from taut.launch.resume import fork, goes_on, resume
from taut.store import Run, RunWriter
from taut.training import checkpoint, keeper, snapshot

HARDEST = {
    "algorithm.preset": "ppo",
    "algorithm.epochs": 3,
    "algorithm.minibatches": 2,
    "algorithm.prompts_per_step": 2,
    "critic.normalize_values": True,
    "critic.learning_rate": 1e-2,
    "kl.target": 0.05,
    "kl.horizon": 8,
    "scoring.normalize": True,
    "optimizer.schedule": "cosine",
    "optimizer.warmup_steps": 3,
}  # fmt: skip
"""All there is to restore: a critic and its scale, a KL coefficient that moves, moments of rewards, a schedule."""


@pytest.fixture
def settings(own, tmp_path):
    """10 prompts, 2 a step, 15 steps: three passes over the data."""
    rows = [{"prompt": f"{a}+1=", "digit": str(a), "answer": str(a + 1)} for a in range(10)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {**own, **HARDEST, "run.steps": 15, "checkpoint.every": 4}


@pytest.mark.parametrize(
    ("step", "last", "said"),
    [
        (11, 11, "goes on after step 11, from its newest checkpoint"),
        (11, 12, "goes on after step 11, from its newest checkpoint; step 12 is taken again"),
        (11, 18, "goes on after step 11, from its newest checkpoint; steps 12 to 18 are taken again"),
    ],
)
def test_what_is_taken_again_is_said(step, last, said):
    assert goes_on(step, last) == said


def stop_after(step):
    """An observer that interrupts the run in the step."""

    def observe(seen, metrics):
        if seen == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return observe


def interrupted(settings, step):
    config = resolve(settings)[0]
    with pytest.raises(KeyboardInterrupt):
        train(config, [stop_after(step)])
    return Run.open(f"{config.run.root}/{config.run.name}")


def untimed(rows):
    return [
        {name: value for name, value in row.items() if not name.startswith(("time/", "rate/", "system/"))}
        for row in rows
    ]


def assert_same(run, other, steps):
    """Every number of every step and token, and every byte of the last checkpoint."""
    mine, theirs = (untimed(r.scalars())[-len(steps) :] for r in (run, other))
    assert [row["step"] for row in mine] == list(steps)
    assert mine == theirs
    for step in steps:
        ours, others = run.replies(step), other.replies(step)
        assert [vars(reply).keys() for reply in ours] == [vars(reply).keys() for reply in others]
        for a, b in zip(ours, others, strict=True):
            for name, value in vars(a).items():
                assert_equal(value, vars(b)[name])
    last = [r.directory / "checkpoints" / f"step_{steps[-1]:06d}" for r in (run, other)]
    names = [
        sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()) for folder in last
    ]
    assert names[0] == names[1]
    for name in names[0]:
        assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes(), name


def assert_equal(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list):
        for one, other in zip(a, b, strict=True):
            assert_equal(one, other)
    elif isinstance(a, np.ndarray | torch.Tensor):
        assert (a == b).all()
    else:
        assert a == b


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lora.rank": 2, "critic.shared": True},
        {"algorithm.preset": "grpo", "optimizer.reset": "batch", "algorithm.dynamic_sampling": 2},
        {"algorithm.max_staleness": 2},
        {
            "algorithm.max_staleness": 1,
            "lora.rank": 2,
            "critic.shared": True,
            "algorithm.dynamic_sampling": 2,
        },
    ],
    ids=["critic", "lora", "dynamic sampling", "two steps ahead", "one step ahead with lora"],
)
def test_a_run_stopped_after_step_7_goes_on_to_the_last_bit(settings, changes):
    settings = {**settings, **changes}
    whole = train(resolve({**settings, "run.name": "whole"})[0])
    stopped = interrupted(settings, 7)
    assert stopped.status == "interrupted"
    assert checkpoint.checkpoint_steps(stopped.directory / "checkpoints")[-1] == 7
    resumed = resume(stopped.directory)
    assert resumed.status == "finished"
    assert_same(resumed, whole, range(8, 16))
    assert untimed(resumed.scalars()) == untimed(whole.scalars())


@pytest.fixture
def small(own):
    """A run without a critic that takes no time: 6 steps, checkpoints of 2, 4 and 6."""
    small = {"algorithm.preset": "ppo-batch-mean", "algorithm.epochs": 1, "algorithm.prompts_per_step": 2}
    return {**own, **small, "run.steps": 6, "checkpoint.every": 2, "data.eval_path": None}


def test_an_interrupt_names_the_step_that_is_being_saved(small, monkeypatch):
    """And not the one after it, though all that is left of the step is to save it."""
    write, said = checkpoint.write_checkpoint, []

    def slowly(*arguments):
        time.sleep(2.5)  # the watchdog looks once a second
        write(*arguments)

    monkeypatch.setattr(keeper, "write_checkpoint", slowly)
    with pytest.raises(KeyboardInterrupt):
        train(resolve(small)[0], [stop_after(3)], lambda *words: said.append(words[0]))
    assert "finishing step 3 and saving it; interrupt again to stop at once" in said


def test_a_damaged_checkpoint_is_never_resumed_from(small):
    whole = train(resolve({**small, "run.name": "whole"})[0])
    run = interrupted(small, 3)
    checkpoints = run.directory / "checkpoints"
    with (checkpoints / "step_000003/model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    (checkpoints / ".step_000004.writing").mkdir()
    resumed = resume(run.directory)
    assert_same(resumed, whole, range(3, 7))
    [event] = [event for event in resumed.events() if event["name"] == "damaged"]
    assert "step 3 is passed over (model.safetensors is not as it was written)" in event["message"]
    names = {path.name for path in checkpoints.iterdir()}
    assert names == {"damaged_step_000003", "step_000004", "step_000006"}
    rows = resumed.scalars(include_superseded=True)
    assert [row["step"] for row in rows if row["superseded"]] == [3]
    [said] = [event["message"] for event in resumed.events() if event["name"] == "from"]
    assert said == "goes on after step 2, from its newest checkpoint; step 3 is taken again"


def test_a_run_without_a_checkpoint_begins_again(small):
    whole = train(resolve({**small, "run.name": "whole"})[0])
    run = interrupted(small, 1)
    shutil.rmtree(run.directory / "checkpoints/step_000001")
    resumed = resume(run.directory)
    assert_same(resumed, whole, range(1, 7))
    assert [row["step"] for row in resumed.scalars()] == list(range(7))


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_resumed_run_keeps_its_settings_and_may_take_more_steps(small, ahead):
    small = {**small, "algorithm.max_staleness": ahead}
    longer = train(resolve({**small, "run.name": "longer", "run.steps": 8})[0])
    run = train(resolve(small)[0])
    with pytest.raises(ValueError, match=r"has taken all its 6 steps: --run\.steps 12, for one"):
        resume(run.directory)
    with pytest.raises(
        ValueError, match=r"but run\.steps, and algorithm\.epochs would change: taut fork own"
    ):
        config_to_resume(run, {"algorithm.epochs": 2, "run.steps": 8})
    assert_same(resume(run.directory, steps=8), longer, range(7, 9))
    assert Run.open(run.directory).config["run"]["steps"] == 8


def test_a_run_that_was_stopped_after_its_last_step_only_ends(small):
    run = interrupted(small, 6)
    rows = run.scalars()
    assert resume(run.directory).status == "finished"
    assert run.scalars(include_superseded=True) == [{**row, "superseded": False} for row in rows]


def test_one_process_trains_a_run_at_a_time_and_anyone_reads(small):
    run = interrupted(small, 3)
    with RunWriter.resume(run.directory):
        with pytest.raises(ValueError, match="'own' is being trained by another process"):
            resume(run.directory)
        assert Run.open(run.directory).step_count == 3
    with RunWriter.resume(run.directory):
        pass  # the lock went with the first


def test_a_fork_repeats_its_parent_until_a_setting_says_otherwise_and_outlives_it(small):
    parent = train(resolve(small)[0])
    same = fork(parent.directory, 4, {"run.name": "same"})
    assert_same(same, parent, range(5, 7))
    assert (same.facts["parent"], same.facts["parent_step"]) == ("own", 4)
    shutil.rmtree(parent.directory)
    again = fork(same.directory, 4, {"run.name": "again", "algorithm.epochs": 2})
    assert [(row["step"], row["update/steps"]) for row in again.scalars()] == [(5, 2), (6, 2)]
    assert again.scalars()[0]["reward/mean"] == same.scalars()[0]["reward/mean"], (
        "the same weights sampled it"
    )


def test_what_a_fork_cannot_do_is_told(small):
    parent = train(resolve(small)[0])
    for step, settings, message in [
        (3, {}, r"'own' has no checkpoint of step 3; it has those of steps: 4, 6"),
        (
            4,
            {"lora.rank": 2},
            r"lora\.rank decides what the weights of a checkpoint are.*--model\.path .*step_000004",
        ),
        (6, {}, r"run\.steps = 6 leaves nothing to do after step 6: set it to 7 or more"),
        (4, {"algorithm.minibatches": 3}, "does not divide"),
    ]:
        with pytest.raises(ValueError, match=message):
            fork(parent.directory, step, settings)


def test_the_loop_leaves_every_global_random_state_as_it_was(small):
    states = []

    def observe(step, metrics):
        states.append((torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()))

    train(resolve({**small, "run.steps": 2})[0], [observe])
    assert len(states) == 3
    assert states[0] == states[1] == states[2]


def test_a_second_interrupt_stops_at_once(small):
    saved = Path(small["run.root"]) / "own/checkpoints/step_000002"

    def interrupt_twice(step, metrics):
        if step == 3:
            while not saved.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it went on")

    with pytest.raises(KeyboardInterrupt):
        train(resolve(small)[0], [interrupt_twice])
    run = Run.open(Path(small["run.root"]) / "own")
    assert run.status == "interrupted"
    assert checkpoint.checkpoint_steps(run.directory / "checkpoints") == [2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_disk_that_takes_no_checkpoint_ends_the_run_and_spares_the_last(small, monkeypatch):
    written = torch.save

    def save(kept, path):
        if "step_000004" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        written(kept, path)

    monkeypatch.setattr(snapshot.torch, "save", save)
    with pytest.raises(
        OSError,
        match=r"checkpoint .*step_000004 could not be written, .* MB free.*: .*No space left on device",
    ):
        train(resolve(small)[0])
    run = Run.open(Path(small["run.root"]) / "own")
    assert run.status == "failed"
    assert [path.name for path in (run.directory / "checkpoints").iterdir()] == ["step_000002"]
    monkeypatch.undo()
    assert resume(run.directory).status == "finished"


def stopped_fork(parent, settings):
    """A fork after step 4 that ends before it makes a checkpoint of its own."""

    def fail(step, metrics):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fork(parent.directory, 4, {**settings, "run.name": "stopped"}, [fail])
    run = Run.open(parent.directory.parent / "stopped")
    assert checkpoint.checkpoint_steps(run.directory / "checkpoints") == [4]
    return run


@pytest.mark.parametrize("changes", ["kl", "scoring", "order", "smaller"])
def test_a_fork_stopped_before_its_first_checkpoint_is_no_resumed_parent(settings, tmp_path, changes):
    rows = (tmp_path / "prompts.jsonl").read_text().splitlines()
    (tmp_path / "order.jsonl").write_text("\n".join(reversed(rows)))
    (tmp_path / "smaller.jsonl").write_text("\n".join(rows[:3]))
    changed = {
        "kl": {"kl.coefficient": 0.5},
        "scoring": {"scoring.normalize": False},
        "order": {"data.path": str(tmp_path / "order.jsonl")},
        "smaller": {"data.path": str(tmp_path / "smaller.jsonl")},
    }[changes]
    parent = train(resolve({**settings, "run.steps": 5})[0])
    changed |= {"run.steps": 7}
    alone = fork(parent.directory, 4, {**changed, "run.name": "alone"})
    run = stopped_fork(parent, changed)
    assert_same(resume(run.directory), alone, range(5, 8))


def test_a_fork_of_a_fork_begins_anew_what_the_first_did(settings):
    parent = train(resolve({**settings, "run.steps": 5})[0])
    first = fork(parent.directory, 4, {"run.name": "first", "kl.coefficient": 0.5})
    second = fork(first.directory, 4, {"run.name": "second"})
    assert second.facts["begun_anew"] == ["kl"]
    assert_same(second, first, range(5, 6))


def test_a_fork_that_lost_its_checkpoint_does_not_begin_from_nothing(small):
    run = stopped_fork(train(resolve(small)[0]), {})
    shutil.rmtree(run.directory / "checkpoints/step_000004")
    with pytest.raises(ValueError, match="forked after step 4 of own and holds no whole checkpoint"):
        resume(run.directory)


def test_a_fork_with_another_seed_begins_its_passes_anew(small):
    held_out = {**small, "data.held_out": 0.3}
    parent = train(resolve(held_out)[0])
    run = fork(parent.directory, 4, {"run.name": "seed", "run.seed": 1})
    assert run.facts["begun_anew"] == ["data", "run"]


def test_data_that_has_shrunk_since_is_told(small, tmp_path):
    run = interrupted(small, 3)
    rows = (tmp_path / "prompts.jsonl").read_text().splitlines()
    (tmp_path / "prompts.jsonl").write_text("\n".join(rows[:2]))
    with pytest.raises(ValueError, match=r"row \d of the data .* no longer there: the data has 2 prompts"):
        resume(run.directory)


def lose_steps(run, after):
    """What a power cut may take from a store: its newest commits."""
    with sqlite3.connect(run.directory / "run.db") as db:
        for table in ("scalars", "replies", "optimizer_steps", "updates"):
            db.execute(
                f"DELETE FROM {table} WHERE batch_id IN (SELECT id FROM batches WHERE step > ?)", (after,)
            )
        db.execute("DELETE FROM batches WHERE step > ?", (after,))
    db.close()


def test_a_checkpoint_of_a_step_that_the_store_lacks_is_passed_over(small):
    whole = train(resolve({**small, "run.name": "whole"})[0])
    run = interrupted(small, 5)
    lose_steps(run, after=4)
    resumed = resume(run.directory)
    assert_same(resumed, whole, range(1, 7))
    [event] = [event for event in resumed.events() if event["name"] == "damaged"]
    assert "step 5 is passed over (run.db lacks the step)" in event["message"]


def test_a_store_that_holds_no_step_of_a_checkpoint_is_refused(small):
    run = interrupted(small, 3)
    lose_steps(run, after=1)
    with pytest.raises(ValueError, match=r"checkpoints of steps 2.3, and its run\.db holds none of them"):
        resume(run.directory)
    assert checkpoint.checkpoint_steps(run.directory / "checkpoints") == [2, 3]


@pytest.mark.parametrize("damaged", ["weights", "empty", "manifest"])
def test_a_finished_run_whose_last_checkpoint_is_damaged_goes_on(small, damaged):
    whole = train(resolve({**small, "run.name": "whole"})[0])
    run = train(resolve(small)[0])
    last = run.directory / "checkpoints/step_000006"
    if damaged == "weights":
        (last / "model.safetensors").write_bytes(b"")
    elif damaged == "manifest":
        (last / "manifest.json").write_text("[]")
    else:
        shutil.rmtree(last)
        last.mkdir()
    assert_same(resume(run.directory), whole, range(5, 7))
