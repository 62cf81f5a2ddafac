"""Metrics by hand, from a batch and a trace of literals."""

from dataclasses import replace

import pytest
import torch

from taut.objective.policy import clipped_surrogate
from taut.training.metrics import reference_kl_per_reply, step_metrics
from taut.types import OptimizerStep, Trace


@pytest.fixture
def batch(make_batch):
    """8 replies of 1, 2, 3, 4, 5, 1, 2, 3 tokens."""
    batch = make_batch()
    batch.advantages = torch.ones(batch.reply_ids.shape)
    batch.old_logprobs = torch.full(batch.reply_ids.shape, -1.0)
    return batch


def one_step(batch, rows, logprob, **scalars):
    """A step that saw every token of `rows` at one logprob."""
    logprobs = torch.full((len(rows), batch.reply_ids.shape[1]), logprob)
    clip = clipped_surrogate(logprobs + 1.0, batch.advantages[rows], batch.response_mask[rows], 0.2, 0.2).clip
    return OptimizerStep(rows, logprobs, clip, scalars)


def trace_of(batch, *steps):
    return Trace(list(steps), batch.old_logprobs, torch.zeros(batch.reply_ids.shape))


@pytest.mark.parametrize(
    ("estimator", "name", "a_token"),
    [
        ("k1", "k1", 0.5),
        ("k2", "k2", 0.125),
        ("k3", "k3", 0.10653066),  # e^-0.5 - 1 + 0.5
        ("k3-straight-through", "k3", 0.10653066),
        ("k3-weighted", "k3", 0.10653066),
    ],
)
def test_the_reference_kl_is_its_estimator_by_token_and_by_reply(
    make_config, batch, estimator, name, a_token
):
    batch.ref_logprobs = torch.full(batch.reply_ids.shape, -1.5)
    config = make_config(kl__placement="loss" if estimator != "k1" else "reward", kl__estimator=estimator)
    metrics = step_metrics(batch, trace_of(batch), config)
    assert metrics[f"kl/ref_{name}"] == pytest.approx(a_token, rel=1e-5)
    assert metrics[f"kl/ref_{name}_reply"] == pytest.approx(a_token * 21 / 8, rel=1e-5)
    assert reference_kl_per_reply(batch, trace_of(batch)) == pytest.approx(0.5 * 21 / 8), (
        "the controller's is k1"
    )


def test_a_batch_without_trained_tokens_has_no_reference_kl(make_config, batch):
    batch = replace(batch, response_mask=torch.zeros_like(batch.response_mask))
    batch.ref_logprobs = torch.zeros(batch.reply_ids.shape)
    metrics = step_metrics(batch, trace_of(batch), make_config(kl__placement="reward"))
    assert not any(name.startswith("kl/ref") for name in metrics)
    assert reference_kl_per_reply(batch, trace_of(batch)) is None


def test_token_means_weigh_tokens_and_not_minibatches(make_config, batch):
    """Rows 0 and 4 have 1 and 5 tokens."""
    steps = (
        one_step(batch, [0], -1.0, **{"kl/old_k3": 0.6, "value/loss": 6.0, "loss/policy": 1.0}),
        one_step(batch, [4], -1.0, **{"kl/old_k3": 0.0, "value/loss": 0.0, "loss/policy": 3.0}),
    )
    metrics = step_metrics(batch, trace_of(batch, *steps), make_config())
    assert metrics["kl/old_k3"] == pytest.approx(0.1)
    assert metrics["value/loss"] == pytest.approx(1.0)
    assert metrics["loss/policy"] == 2.0, "a loss is one number an optimiser step"


def test_the_kl_of_a_batch_takes_each_token_as_last_seen(make_config, batch):
    """Row 4 (5 tokens) is seen at -1 and then at -1.5; row 0 (1 token) only at -1.3; the rest never moved."""
    steps = one_step(batch, [4], -1.0), one_step(batch, [0], -1.3), one_step(batch, [4], -1.5)
    metrics = step_metrics(batch, trace_of(batch, *steps), make_config())
    assert metrics["kl/old_k1"] == pytest.approx((5 * 0.5 + 1 * 0.3) / 21)


def test_clipped_shares_count_sightings_of_steps_that_were_taken(make_config, batch):
    """ρ = e^0.5 with A = 1 is binding. The step that met the target KL was not taken."""
    steps = [one_step(batch, [4], -1.0), one_step(batch, [0], -0.5), one_step(batch, [4], -0.5)]
    steps[1].epoch, steps[2].epoch = 0, 1
    steps[2].applied = False
    metrics = step_metrics(batch, trace_of(batch, *steps), make_config())
    assert metrics["clip/binding"] == pytest.approx(1 / 6)
    assert metrics["clip/epoch_1"] == pytest.approx(1 / 6)
    assert "clip/epoch_2" not in metrics
    assert "clip/outside_epoch_2" not in metrics
    assert (metrics["update/steps"], metrics["update/skipped"]) == (2, 0)


def test_each_epoch_has_both_shares(make_config, batch):
    """Epoch 1 sees row 4 (5 tokens) at ρ = 1; epoch 2 sees rows 0 (1 token, ρ = e^0.5) and 1 (2 tokens, ρ = e^-0.5)."""
    steps = one_step(batch, [4], -1.0), one_step(batch, [0], -0.5), one_step(batch, [1], -1.5)
    steps[1].epoch = steps[2].epoch = 1
    metrics = step_metrics(batch, trace_of(batch, *steps), make_config())
    assert (metrics["clip/epoch_1"], metrics["clip/outside_epoch_1"]) == (0, 0)
    assert metrics["clip/epoch_2"] == pytest.approx(1 / 3), (
        "the one below is on the other side of its advantage"
    )
    assert metrics["clip/outside_epoch_2"] == 1
