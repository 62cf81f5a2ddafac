"""Runs that are stopped and taken up again equal runs that were not; forks go on from a checkpoint."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
import torch

from taut.config import resolve
from taut.launch.local import train
from taut.launch.resume import fork, resume
from taut.store import Run, RunWriter
from taut.training import checkpoint

HARDEST = {
    "algorithm.preset": "ppo",
    "algorithm.epochs": 3,
    "algorithm.minibatches": 2,
    "algorithm.prompts_per_step": 2,
    "critic.normalize_values": True,
    "critic.learning_rate": 1e-2,
    "kl.controller": "adaptive",
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


def stop_after(step):
    """An observer that interrupts the run in the step."""

    def observe(seen, metrics):
        if seen == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return observe


def interrupted(settings, step, **changes):
    config = resolve({**settings, **{key.replace("__", "."): value for key, value in changes.items()}})[0]
    with pytest.raises(KeyboardInterrupt):
        train(config, [stop_after(step)])
    return Run.open(f"{config.run.root}/{config.run.name}")


def untimed(rows):
    return [
        {name: value for name, value in row.items() if not name.startswith(("time/", "rate/"))}
        for row in rows
    ]


def assert_same(run, other, steps):
    """Every number of every step and token, and the last checkpoint's weights and state, to the last bit."""
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
    names = [sorted(path.relative_to(folder) for path in folder.rglob("*.safetensors")) for folder in last]
    assert names[0] == names[1]
    assert (last[0] / "training/loop.json").read_text() == (last[1] / "training/loop.json").read_text()
    for name in names[0]:
        assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes(), name
    assert_equal(*(torch.load(folder / "training/learner.pt", weights_only=True) for folder in last))


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
        {"lora__rank": 2, "critic__shared": True, "scoring__normalize": False},
        {"algorithm__preset": "grpo", "optimizer__reset": "batch", "algorithm__dynamic_sampling": 2},
    ],
    ids=["critic", "lora", "dynamic sampling"],
)
def test_a_run_stopped_after_step_7_goes_on_to_the_last_bit(settings, changes):
    whole = train(resolve({**settings, "run.name": "whole", **{k.replace("__", "."): v for k, v in changes.items()}})[0])
    stopped = interrupted(settings, 7, **changes)
    assert stopped.status == "interrupted"
    assert checkpoint.checkpoint_steps(stopped.directory / "checkpoints")[-1] == 7
    resumed = resume(stopped.directory)
    assert resumed.status == "finished"
    assert_same(resumed, whole, range(8, 16))
    assert untimed(resumed.scalars()) == untimed(whole.scalars())
