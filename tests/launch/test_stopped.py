"""A run that must not go on: what it stores, what it saves, and how it goes on past the batch."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from taut.config import resolve
from taut.launch.local import train
from taut.launch.resume import resume
from taut.store import Run
from taut.training.checkpoint import checkpoint_steps, damage
from taut.training.learner import LocalLearner
from taut.training.non_finite import NonFiniteError


@pytest.fixture
def spoiled(monkeypatch):
    """The policy's gradient is NaN in the second optimiser step of step 2; gives the weights before it."""
    kept = {}
    step_of = LocalLearner._optimizer_step

    def spoil(learner, batch, rows, schedule, trace):
        bad = schedule.step == 2 and len(trace.steps) == 1
        if bad:
            kept.update({name: w.clone() for name, w in learner.policy.model.state_dict().items()})
            weight = learner.policy.model.get_output_embeddings().weight
            hook = weight.register_hook(lambda gradient: gradient * float("nan"))
        taken = step_of(learner, batch, rows, schedule, trace)
        if bad:
            hook.remove()
        return taken

    monkeypatch.setattr(LocalLearner, "_optimizer_step", spoil)
    return kept


def test_a_number_that_is_not_finite_ends_the_run_with_batch_and_checkpoint(
    own, tmp_path, spoiled, monkeypatch
):
    config = resolve({**own, "run.steps": 4})[0]
    with pytest.raises(
        NonFiniteError,
        match=r"step 2, epoch 2, minibatch 1: the gradient of .* is not finite, by token \d of reply \d "
        r"\(prompt \d: '.*'\); no optimiser step was taken",
    ) as caught:
        train(config)
    run = Run.open(tmp_path / "runs" / "own")
    assert run.status == "failed"
    assert [step["applied"] for step in run.optimizer_steps(2)] == [True, False]
    assert run.last("update/not_finite") == 1
    assert len(run.replies(2)) == 8
    [event] = [e for e in run.events() if e["name"] == "finite" and e["level"] == "error"]
    assert event["step"] == 2
    assert "1 of 2 optimiser steps met the gradient of" in event["message"]
    assert event["message"].partition(" met ")[2].partition(":")[0] in str(caught.value)

    folder = run.directory / "checkpoints" / "step_000002"
    assert checkpoint_steps(folder.parent) == [2]
    assert damage(folder) is None
    saved = load_file(folder / "model.safetensors")
    assert all(torch.equal(tensor, spoiled[name]) for name, tensor in saved.items())

    assert resume(run.directory).step_count == 4
    assert all(np.isfinite(list(row.values())).all() for row in Run.open(run.directory).scalars())


def test_such_a_step_is_skipped_and_counted_where_the_config_says_so(own, spoiled):
    run = train(resolve({**own, "run.steps": 2, "checks.skip_non_finite": 1})[0])
    assert run.status == "finished"
    assert run.series("update/not_finite")[1].tolist() == [0, 1]
    assert run.series("update/steps")[1].tolist() == [4, 3]
    assert run.checks()["finite"]["level"] == "error"
