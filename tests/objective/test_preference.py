"""Bradley-Terry, DPO and calibration, against numbers worked out by hand and against plain Python."""

from __future__ import annotations

import math

import pytest
import torch

from taut.objective.preference import (
    bradley_terry_loss,
    calibration_error,
    dpo_loss,
    implicit_rewards,
    preference_statistics,
)

LOG_3 = math.log(3)  # σ(log 3) = 3/4


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def test_bradley_terry_by_hand():
    loss = bradley_terry_loss(vector(1.0, LOG_3, 0.0), vector(1.0, 0.0, LOG_3), torch.zeros(3))
    assert loss.tolist() == pytest.approx([math.log(2), math.log(4 / 3), math.log(4)])


def test_a_margin_is_what_the_chosen_reply_must_be_better_by():
    loss = bradley_terry_loss(vector(2.0), vector(1.0), torch.tensor([1.0]))
    assert loss.item() == pytest.approx(math.log(2))


def test_its_gradient_is_the_probability_of_the_wrong_order():
    chosen, rejected = vector(LOG_3), vector(0.0)
    bradley_terry_loss(chosen, rejected, torch.zeros(1)).sum().backward()
    assert chosen.grad.item() == pytest.approx(-0.25)
    assert rejected.grad.item() == pytest.approx(0.25)


def test_differences_beyond_the_exponential_stay_finite():
    loss = bradley_terry_loss(vector(1e4, -1e4), vector(0.0, 0.0), torch.zeros(2))
    assert loss.tolist() == [0.0, 1e4]


def test_dpo_starts_at_log_2_wherever_the_policy_is_the_reference():
    logprobs = vector(-3.0, -40.0)
    rewards = implicit_rewards(logprobs, logprobs, beta=0.1)
    assert rewards.tolist() == [0.0, 0.0]
    assert dpo_loss(rewards[:1], rewards[1:]).item() == pytest.approx(math.log(2))


def test_dpo_is_the_papers_formula():
    beta, policy, reference = 0.3, [(-2.0, -5.0), (-7.0, -1.0)], [(-2.5, -4.0), (-3.0, -3.5)]
    expected = []
    for (win, lose), (ref_win, ref_lose) in zip(policy, reference, strict=True):
        ratio = beta * math.log((math.exp(win) / math.exp(ref_win)) / (math.exp(lose) / math.exp(ref_lose)))
        expected.append(-math.log(1 / (1 + math.exp(-ratio))))
    chosen, rejected = implicit_rewards(torch.tensor(policy), torch.tensor(reference), beta).unbind(1)
    assert dpo_loss(chosen, rejected).tolist() == pytest.approx(expected, rel=1e-6)


def test_dpo_leaves_the_reference_alone_and_scales_its_gradient_by_beta():
    policy, reference = vector(-1.0, -1.0), vector(-1.0, -1.0)
    chosen, rejected = implicit_rewards(policy, reference, beta=0.2)
    dpo_loss(chosen, rejected).backward()
    assert reference.grad is None
    assert policy.grad.tolist() == pytest.approx([-0.1, 0.1])  # β · σ(0)


def test_a_tie_is_not_right():
    statistics = preference_statistics(torch.tensor([0.0, 2.0, -1.0, 3.0]))
    assert statistics["accuracy"] == 0.5
    assert statistics["margin"] == 1.0


def test_calibration_by_hand():
    # Four pairs with confidence 3/4: calibrated if three are right, off by a quarter if all are.
    assert calibration_error(vector(LOG_3, LOG_3, -LOG_3, LOG_3)) == pytest.approx(0)
    assert calibration_error(vector(LOG_3, LOG_3, LOG_3, LOG_3)) == pytest.approx(0.25)
    # Certain and half of them wrong, beside unsure and half right: (2 · 0.5 + 2 · 0) / 4.
    almost_0 = 1e-9
    assert calibration_error(vector(50.0, -50.0, almost_0, -almost_0)) == pytest.approx(0.25)


def test_differences_drawn_from_the_model_are_calibrated():
    random = torch.Generator().manual_seed(0)
    rewards = torch.randn(200_000, generator=random, dtype=torch.float64) * 2
    flipped = torch.rand(200_000, generator=random) > rewards.sigmoid()
    signed = torch.where(flipped, -rewards, rewards)
    assert calibration_error(signed) < 0.01
    assert calibration_error(4 * signed) > 0.05  # overconfident
