"""The critic learns returns by its own optimiser, and steers the policy only through advantages."""

import pytest
import torch

from taut.objective.reduce import masked_mean
from taut.training.metrics import step_metrics


def flat(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()]).clone()


def test_a_critic_free_run_holds_no_critic_and_no_reference(make_config, make_learner):
    learner = make_learner(make_config())
    assert (learner.critic, learner.critic_optimizer, learner.reference) == (None, None, None)


def test_before_it_has_learned_anything_the_critic_says_zero(
    make_config, make_learner, make_batch, run_batch
):
    config = make_config(algorithm__preset="ppo", algorithm__whiten_advantages=False, kl__placement="none")
    batch, _, _ = run_batch(make_learner(config), make_batch())
    assert (batch.values[batch.response_mask] == 0).all()
    last = batch.reply_lengths - 1
    torch.testing.assert_close(batch.advantages[torch.arange(8), last], batch.rewards)


def test_the_critic_comes_to_predict_the_returns(make_config, make_learner, make_batch, run_batch):
    config = make_config(
        algorithm__preset="ppo",
        algorithm__lam=1.0,
        kl__placement="none",
        critic__learning_rate=3e-3,
        optimizer__learning_rate=1e-30,
        algorithm__epochs=10,
    )
    learner = make_learner(config)
    losses = []
    for step in range(1, 9):
        batch = make_batch()
        batch.truncated[:] = False
        batch, _, trace = run_batch(learner, batch, step)
        losses.append(trace.steps[0].scalars["value/loss"])
    # Two replies to one prompt differ in reward, and at their first token the critic cannot tell them apart.
    assert losses[-1] < 0.3 * losses[0]
    assert step_metrics(batch, trace, config)["value/explained_variance"] > 0.5


def test_warm_up_moves_the_critic_and_not_the_policy(make_config, make_learner, make_batch, run_batch):
    config = make_config(algorithm__preset="ppo", critic__warmup_steps=2, critic__learning_rate=1e-3)
    learner = make_learner(config)
    with_gradient, forward = [], learner.policy.forward

    def watched(*args):
        with_gradient.append(torch.is_grad_enabled())
        return forward(*args)

    learner.policy.forward = watched
    for step in (1, 2):
        policy, critic = flat(learner.policy), flat(learner.critic)
        batch, _, trace = run_batch(learner, make_batch(), step)
        assert torch.equal(flat(learner.policy), policy)
        assert not torch.equal(flat(learner.critic), critic)
        assert len(trace.steps) == 4
        assert not any(s.applied for s in trace.steps)
        assert trace.skipped == 0, "a warm-up is planned, nothing was skipped"
        metrics = step_metrics(batch, trace, config)
        assert "clip/binding" not in metrics, "where the policy takes no step nothing can be clipped"
        assert not any(name.startswith(("clip/", "ratio/", "kl/old_k1")) for name in metrics)
    assert not any(with_gradient), "the policy is looked at, and takes no backward pass"
    policy = flat(learner.policy)
    run_batch(learner, make_batch(), 3)
    assert not torch.equal(flat(learner.policy), policy)
    assert any(with_gradient)


def test_only_truncated_replies_bootstrap(make_config, make_learner, make_batch, run_batch):
    learner = make_learner(make_config(algorithm__preset="ppo"))
    with torch.no_grad():
        learner.critic.head.bias.fill_(0.7)
    batch, _, _ = run_batch(learner, make_batch())
    assert 0 < batch.truncated.sum() < 8
    expected = torch.where(batch.truncated, 0.7, 0.0)
    torch.testing.assert_close(batch.bootstrap_values, expected)


def test_values_and_returns_stay_in_units_of_reward_when_normalised(
    make_config, make_learner, make_batch, run_batch
):
    config = make_config(
        algorithm__preset="ppo",
        algorithm__lam=1.0,
        kl__placement="none",
        critic__normalize_values=True,
        critic__learning_rate=3e-3,
        optimizer__learning_rate=1e-30,
        algorithm__epochs=10,
    )
    learner = make_learner(config)
    for step in range(1, 9):
        batch = make_batch()
        batch.truncated[:] = False
        batch.rewards = 100 + 10 * batch.rewards
        batch, _, _ = run_batch(learner, batch, step)
    mask = batch.response_mask
    assert masked_mean(batch.returns, mask) == pytest.approx(105, abs=3)
    assert masked_mean(batch.values, mask) == pytest.approx(105, abs=3)


def test_a_value_clip_of_zero_width_holds_the_critic(make_config, make_learner, make_batch, run_batch):
    """A bound that every prediction has passed leaves no gradient: the clipped share says so."""
    config = make_config(algorithm__preset="ppo", critic__value_clip=1e-6, critic__learning_rate=1e-3)
    _, _, trace = run_batch(make_learner(config), make_batch())
    assert trace.steps[0].scalars["value/clipped"] == 0
    assert trace.steps[-1].scalars["value/clipped"] > 0.2


def test_the_first_value_scale_is_no_move_to_clip(make_config, make_learner, make_batch, run_batch):
    config = make_config(
        algorithm__preset="ppo",
        critic__normalize_values=True,
        critic__value_clip=0.2,
        critic__learning_rate=1e-3,
    )
    batch = make_batch()
    batch.rewards = 3 + 0.3 * batch.rewards
    _, _, trace = run_batch(make_learner(config), batch)
    assert trace.steps[0].scalars["value/clipped"] == 0
    assert trace.steps[0].scalars["grad/critic_norm"] > 0


def test_a_critic_gone_bad_stops_the_policy_too(make_config, make_learner, make_batch, run_batch):
    learner = make_learner(make_config(algorithm__preset="ppo"))
    learner.critic.head.weight.register_hook(lambda g: g * float("nan"))
    policy, critic = flat(learner.policy), flat(learner.critic)
    _, _, trace = run_batch(learner, make_batch())
    assert "the gradient of head.weight is not finite, by token" in trace.halted
    assert torch.equal(flat(learner.policy), policy)
    assert torch.equal(flat(learner.critic), critic)
