import math
import warnings

import numpy as np
import pytest
import torch

from taut.objective import advantage
from taut.objective.advantage import (
    broadcast,
    gae,
    leave_one_out,
    length_adaptive_lambda,
    place_rewards,
)

BASELINES = ["batch_mean", "group_mean", "group_standardized", "leave_one_out", "global_normalized"]


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("seed", range(4))
def test_baselines_equal_the_oracle(name, seed, oracle):
    random = np.random.default_rng(seed)
    groups = random.integers(0, 4, 12) * 10
    rewards, valid = random.normal(size=12), random.random(12) < 0.8
    rewards[groups == 10] = 0.7
    actual = getattr(advantage, name)(*map(torch.from_numpy, (rewards, groups, valid)))
    assert actual.dtype == torch.float64
    np.testing.assert_allclose(actual, oracle.baseline(name, rewards, groups, valid), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(
    "rewards",
    [
        torch.tensor([0.1] * 3, dtype=torch.float64),
        torch.full((1000,), 0.1),
        torch.tensor([0.1 + 0.2, 0.3, 0.3], dtype=torch.float64),
        torch.tensor([0.3, 0.1]).cumsum(0)[-1:].repeat(7),
        torch.zeros(4),
        torch.full((5,), -1e6),
    ],
)
def test_equal_rewards_give_exactly_zero(name, rewards):
    groups, valid = torch.zeros(len(rewards), dtype=torch.long), torch.ones(len(rewards), dtype=torch.bool)
    assert torch.equal(getattr(advantage, name)(rewards, groups, valid), torch.zeros_like(rewards))


@pytest.mark.parametrize("name", BASELINES)
def test_small_but_real_differences_count(name):
    rewards, valid = torch.tensor([1.0, 1.0001]), torch.tensor([True, True])
    result = getattr(advantage, name)(rewards, torch.zeros(2, dtype=torch.long), valid)
    assert result[1] > 0 > result[0]


@pytest.mark.parametrize("name", BASELINES)
def test_an_invalid_reply_counts_for_nothing(name):
    rewards = torch.tensor([1.0, math.nan, 0.0, 5.0, math.nan])
    groups = torch.tensor([0, 0, 0, 1, 1])
    valid = torch.tensor([True, False, True, True, False])
    result = getattr(advantage, name)(rewards, groups, valid)
    kept = getattr(advantage, name)(rewards[valid], groups[valid], valid[valid])
    assert torch.equal(result[valid], kept)
    assert torch.equal(result[~valid], torch.zeros(2))
    if name in ("group_mean", "group_standardized", "leave_one_out"):
        assert result[3] == 0, "alone in its group"


def test_leave_one_out_is_the_group_mean_scaled():
    rewards = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    groups, valid = torch.arange(8) // 4, torch.ones(8, dtype=torch.bool)
    expected = 4 / 3 * advantage.group_mean(rewards, groups, valid)
    torch.testing.assert_close(leave_one_out(rewards, groups, valid), expected)


def test_group_of_two_standardized_is_half_the_root_of_two():
    rewards, valid = torch.tensor([0.0, 1.0]), torch.tensor([True, True])
    result = advantage.group_standardized(rewards, torch.tensor([3, 3]), valid)
    torch.testing.assert_close(result, torch.tensor([-1.0, 1.0]) / math.sqrt(2))


def test_broadcast_and_placement():
    mask = torch.tensor([[True, False, True, False], [False, False, False, False], [True, True, True, True]])
    x = torch.tensor([2.0, math.nan, 3.0])
    assert broadcast(x, mask).tolist() == [[2, 0, 2, 0], [0, 0, 0, 0], [3, 3, 3, 3]]
    assert place_rewards(x, mask).tolist() == [[0, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 3]]


def test_gae_of_a_last_reward():
    rewards, mask = torch.tensor([[0.0, 0.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool)
    advantages, returns = gae(rewards, torch.zeros(1, 3), mask, 0.9, 1.0)
    torch.testing.assert_close(advantages, torch.tensor([[0.81, 0.90, 1.00]]))
    assert torch.equal(returns, advantages)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bootstrapped", [False, True])
def test_gae_equals_the_oracle(seed, bootstrapped, make_batch, oracle):
    batch = make_batch(seed)
    lam = torch.linspace(0, 1, 6, dtype=torch.float64)
    bootstrap = batch.bootstrap_values if bootstrapped else torch.zeros_like(batch.bootstrap_values)
    advantages, returns = gae(
        batch.token_rewards, batch.values, batch.mask, 0.9, lam, bootstrap if bootstrapped else None
    )
    arrays = [x.numpy() for x in (batch.token_rewards, batch.values, batch.mask)]
    expected = oracle.gae(*arrays, 0.9, lam.numpy(), bootstrap.numpy())
    np.testing.assert_allclose(advantages, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(returns, expected + np.where(arrays[2], arrays[1], 0), rtol=1e-12, atol=1e-15)


def test_gae_of_lambda_one_is_return_to_go_minus_value(make_batch):
    batch = make_batch(0)
    advantages, returns = gae(batch.token_rewards, batch.values, batch.mask, 1.0, 1.0)
    rewards = torch.where(batch.mask, batch.token_rewards, 0)
    to_go = torch.where(batch.mask, rewards.flip(1).cumsum(1).flip(1), 0)
    torch.testing.assert_close(returns, to_go)
    torch.testing.assert_close(advantages, to_go - torch.where(batch.mask, batch.values, 0))


def test_gae_of_lambda_zero_is_the_td_error():
    rewards, values = torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([[0.1, 0.2, 0.4]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    advantages, _ = gae(rewards, values, mask, 0.9, 0.0, torch.tensor([2.0]))
    expected = [0.5 + 0.9 * 0.2 - 0.1, 0.9 * 0.4 - 0.2, 1.0 + 0.9 * 2.0 - 0.4]
    torch.testing.assert_close(advantages, torch.tensor([expected]))


def test_gae_carries_across_an_observation_as_if_it_were_not_there():
    gap = torch.tensor([[True, True, False, False, True]])
    rewards, values = torch.tensor([[0.3, 0.1, 7.0, 7.0, 1.0]]), torch.tensor([[0.2, 0.5, 9.0, 9.0, 0.7]])
    solid = gap.expand_as(rewards)
    with_gap = gae(rewards, values, gap, 0.9, 0.8)
    without = gae(rewards[solid][None], values[solid][None], torch.ones(1, 3, dtype=torch.bool), 0.9, 0.8)
    for x, y in zip(with_gap, without, strict=True):
        assert torch.equal(x[gap], y[0])
        assert torch.equal(x[~gap], torch.zeros(2))


def test_the_critic_can_have_its_own_lambda(make_batch):
    batch = make_batch(0)
    inputs = batch.token_rewards, batch.values, batch.mask, 0.99
    advantages, returns = gae(*inputs, 0.5, batch.bootstrap_values, critic_lam=1.0)
    assert torch.equal(advantages, gae(*inputs, 0.5, batch.bootstrap_values)[0])
    assert torch.equal(returns, gae(*inputs, 1.0, batch.bootstrap_values)[1])
    assert not torch.equal(returns, gae(*inputs, 0.5, batch.bootstrap_values)[1])


def test_gae_results_are_constants(make_batch):
    batch = make_batch(0)
    results = gae(batch.token_rewards, batch.values.requires_grad_(), batch.mask, 1.0, 0.95)
    assert not any(x.requires_grad for x in results)


def test_length_adaptive_lambda():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lam = length_adaptive_lambda(torch.tensor([0, 10, 20, 40, 400]), 0.05)
    torch.testing.assert_close(lam, torch.tensor([0, 0, 0, 0.5, 0.95]))


def test_length_adaptive_lambda_warns_where_most_replies_are_short():
    with pytest.warns(UserWarning, match=r"2 of 3 replies have at most 1/alpha = 20 tokens"):
        lam = length_adaptive_lambda(torch.tensor([0, 10, 20, 40]), 0.05)
    assert lam.tolist() == [0, 0, 0, 0.5]


def test_length_adaptive_lambda_needs_a_positive_alpha():
    with pytest.raises(ValueError, match="alpha"):
        length_adaptive_lambda(torch.tensor([3]), 0.0)
