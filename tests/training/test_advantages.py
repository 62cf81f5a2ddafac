"""How the config's words become advantages."""

import pytest
import torch

from taut.training.advantages import BASELINES, estimate_advantages


@pytest.fixture
def batch(make_batch):
    return make_batch()


def per_reply(batch):
    return batch.advantages[:, 0]


def test_the_fixture_has_rewards_that_differ_within_groups(batch):
    assert batch.rewards.tolist() == [0, 1, 1, 0, 0, 1, 1, 0]
    assert batch.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("name", "of_reward_1"),
    [
        ("batch-mean", 0.5),
        ("group-mean", 0.5),
        ("group-standardized", 0.5 / 0.5**0.5),
        ("leave-one-out", 1.0),
        ("global-normalized", 0.5 / (2 / 7) ** 0.5),
        ("reward", 1.0),
    ],
)
def test_each_baseline_by_its_name(make_config, batch, name, of_reward_1):
    config = make_config(algorithm__advantage=name)
    result = estimate_advantages(batch, config, kl_coefficient=0.0)
    of_reward_0 = 0.0 if name == "reward" else -of_reward_1
    expected = torch.where(batch.rewards == 1, of_reward_1, of_reward_0)
    torch.testing.assert_close(per_reply(result), expected)
    mask = result.response_mask
    assert (result.advantages[~mask] == 0).all()
    torch.testing.assert_close(result.advantages[mask], expected[:, None].expand(mask.shape)[mask])
    assert result.returns is None


def test_every_baseline_of_the_config_is_there(make_config):
    from taut.config.schema import AdvantageName

    assert set(AdvantageName.__args__) - {"gae"} == set(BASELINES)


def test_a_kl_in_the_reward_costs_at_each_token(make_config, batch):
    config = make_config(algorithm__advantage="reward", kl__placement="reward", kl__estimator="k1")
    batch.old_logprobs = torch.full(batch.reply_ids.shape, -1.0)
    batch.ref_logprobs = torch.full(batch.reply_ids.shape, -1.5)
    result = estimate_advantages(batch, config, kl_coefficient=0.1)
    lengths = batch.reply_lengths
    torch.testing.assert_close(result.token_rewards.sum(1), batch.rewards - 0.05 * lengths)
    torch.testing.assert_close(result.token_rewards[torch.arange(8), lengths - 1], batch.rewards - 0.05)
    torch.testing.assert_close(per_reply(result), batch.rewards - 0.05 * lengths)


def test_gae_with_lambda_one_is_the_discounted_return_less_the_value(make_config, batch):
    config = make_config(algorithm__advantage="gae", algorithm__lam=1.0, algorithm__gamma=0.9)
    batch.values = torch.full(batch.reply_ids.shape, 0.25)
    batch.bootstrap_values = torch.zeros(8)
    result = estimate_advantages(batch, config, 0.0)
    length = int(batch.reply_lengths[2])
    expected = [batch.rewards[2].item() * 0.9 ** (length - 1 - t) for t in range(length)]
    assert result.returns[2, :length].tolist() == pytest.approx(expected)
    assert result.advantages[2, :length].tolist() == pytest.approx([r - 0.25 for r in expected])


def test_the_critic_may_look_further_than_the_policy(make_config, batch):
    config = make_config(algorithm__advantage="gae", algorithm__lam=0.5, algorithm__lam_critic=1.0)
    generator = torch.Generator().manual_seed(0)
    batch.values = torch.rand(batch.reply_ids.shape, generator=generator)
    batch.bootstrap_values = torch.zeros(8)
    result = estimate_advantages(batch, config, 0.0)
    mask = result.response_mask
    torch.testing.assert_close(result.returns[mask], batch.rewards[:, None].expand(mask.shape)[mask])
    assert not torch.allclose((result.advantages + batch.values)[mask], result.returns[mask])


def test_length_adaptive_lambda_reaches_gae(make_config, batch):
    """α · length = 2 gives λ = ½ for every reply of one length."""
    batch.response_mask[:] = True
    values = torch.rand(batch.reply_ids.shape, generator=torch.Generator().manual_seed(1))
    batch.values, batch.bootstrap_values = values, torch.zeros(8)
    adaptive = make_config(algorithm__advantage="gae", algorithm__lam_length_alpha=2 / 5, algorithm__lam=0.9)
    fixed = make_config(algorithm__advantage="gae", algorithm__lam=0.5)
    torch.testing.assert_close(
        estimate_advantages(batch, adaptive, 0.0).advantages,
        estimate_advantages(batch, fixed, 0.0).advantages,
    )


def test_whitened_advantages_have_mean_zero_and_deviation_one_over_trained_tokens(make_config, batch):
    config = make_config(algorithm__whiten_advantages=True)
    result = estimate_advantages(batch, config, 0.0)
    trained = result.advantages[result.response_mask]
    assert trained.mean().item() == pytest.approx(0, abs=1e-6)
    assert trained.std().item() == pytest.approx(1, abs=1e-5)
