"""A stored batch gives back, exactly, what the update saw."""

import pytest
import torch

from taut.config import to_yaml
from taut.store import Run, RunWriter
from taut.training.advantages import estimate_advantages
from taut.training.derive import clip_states, gae_advantages, recompute
from taut.training.metrics import step_metrics
from taut.training.record import step_record
from taut.training.shaping import RewardShaper


@pytest.fixture
def stored(make_config, make_learner, make_batch, run_batch, tmp_path):
    def store(**settings):
        config = make_config(algorithm__minibatches=2, **settings)
        learner = make_learner(config)
        batch, schedule, trace = run_batch(learner, make_batch())
        with RunWriter.create(tmp_path / "run", to_yaml(config), {}) as writer:
            writer.append(step_record(config, batch, schedule, trace, {"reward/mean": 0.5}))
        return batch, trace, Run.open(tmp_path / "run").batch(1)

    return store


@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean", "gspo", "cispo", "dppo"])
def test_ratio_and_clip_state_are_those_of_the_update(stored, preset):
    _, trace, kept = stored(algorithm__preset=preset, algorithm__importance="truncate")
    derived = clip_states(kept)
    assert len(derived) == len(trace.steps) == 8
    assert any(step.clip.binding.any() for step in trace.steps)
    for step, update, state in zip(trace.steps, kept.updates, derived, strict=True):
        assert update.rows.tolist() == step.rows
        for name in ("mask", "ratio", "sign", "high", "low", "binding", "dual"):
            assert torch.equal(getattr(state, name), getattr(step.clip, name)), name


def test_the_clip_may_be_asked_what_if(stored):
    _, trace, kept = stored()
    none = clip_states(kept, {"clip_low": None, "clip_high": None})
    assert not any(state.outside.any() for state in none)
    narrow = clip_states(kept, {"clip_low": 0.0, "clip_high": 0.0})
    assert sum(int(s.binding.sum()) for s in narrow) > sum(int(s.clip.binding.sum()) for s in trace.steps)


def test_gae_is_recomputed_exactly_and_under_another_lambda(stored):
    batch, _, kept = stored(algorithm__preset="ppo", algorithm__whiten_advantages=False)
    advantages, returns = gae_advantages(kept)
    assert torch.equal(advantages, batch.advantages)
    assert torch.equal(returns, batch.returns)
    other, _ = gae_advantages(kept, {"lam": 0.1})
    assert not torch.equal(other, advantages)


def test_a_run_without_a_critic_has_no_gae(stored):
    _, _, kept = stored()
    with pytest.raises(ValueError, match="without values"):
        gae_advantages(kept)


def test_a_final_pass_is_stored_as_the_epoch_after_the_last(stored):
    _, trace, kept = stored(store__final_pass=True)
    assert [update.epoch for update in kept.updates] == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert not kept.updates[-1].applied
    mask = torch.from_numpy(kept.response_mask)
    assert torch.equal(torch.from_numpy(kept.updates[-1].logprobs)[mask], trace.final_logprobs[mask])


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm__preset": "ppo", "algorithm__whiten_advantages": True},
        {"algorithm__preset": "ppo", "algorithm__whiten_rewards": True},
        {"algorithm__preset": "grpo"},
        {"algorithm__preset": "gspo"},
        {"algorithm__preset": "cispo", "algorithm__importance": "truncate"},
        {"algorithm__preset": "dr-grpo", "algorithm__dual_clip": 1.5, "learner__micro_batch_tokens": 12},
        {"algorithm__preset": "reinforce++", "algorithm__entropy_coefficient": 0.1},
    ],
    ids=lambda settings: ",".join(map(str, settings.values())),
)
def test_without_a_change_every_number_is_the_one_that_was_trained_on(stored, make_config, settings):
    batch, trace, kept = stored(**settings)
    config = make_config(algorithm__minibatches=2, **settings)
    found = recompute(kept, config)
    assert torch.equal(found.batch.advantages, batch.advantages)
    assert batch.returns is None or torch.equal(found.batch.returns, batch.returns)
    measured = step_metrics(batch, trace, config)
    for step, again in zip(trace.steps, found.trace.steps, strict=True):
        assert again.rows == step.rows
        assert set(again.scalars) >= {"loss/policy"}
        assert again.scalars == {name: step.scalars[name] for name in again.scalars}
        assert torch.equal(again.clip.binding, step.clip.binding)
    assert {"clip/binding", "ratio/p99", "clip/epoch_4", "loss/policy", "advantage/std"} <= set(found.metrics)
    assert found.metrics == {name: measured[name] for name in found.metrics}


def test_another_beta_in_the_reward_is_what_the_loop_would_have_made_of_it(stored, make_config):
    settings = {"algorithm__preset": "rloo", "scoring__clip": 0.5}
    batch, _, kept = stored(**settings)
    config = make_config(**settings)
    wanted = estimate_advantages(RewardShaper(config)(batch), config, kl_coefficient=0.7)
    found = recompute(kept, config, {"kl.coefficient": 0.7}).batch
    assert torch.equal(found.token_rewards, wanted.token_rewards)
    assert torch.equal(found.advantages, wanted.advantages)
    assert not torch.equal(found.advantages, batch.advantages)


def test_another_clip_changes_loss_and_states_as_by_hand(stored, make_config):
    batch, trace, kept = stored()
    found = recompute(kept, make_config(algorithm__minibatches=2), {"algorithm.clip_high": 0.01})
    last, step = trace.steps[-1], found.trace.steps[-1]
    mask, advantages = batch.response_mask[last.rows], batch.advantages[last.rows]
    ratio = last.clip.ratio
    assert torch.equal(step.clip.high, mask & (ratio > 1.01))
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.01) * advantages)[mask].mean()
    assert step.scalars["loss/policy"] == pytest.approx(loss.item(), rel=1e-5)
    assert step.scalars["loss/policy"] > last.scalars["loss/policy"]


@pytest.mark.parametrize(
    ("settings", "changes", "reason"),
    [
        (
            {},
            {"algorithm.lam": 0.5},
            "algorithm.lam is GAE's, and this run has no critic: its advantages come from batch-mean",
        ),
        ({}, {"algorithm.gamma": 0.5}, "algorithm.gamma is GAE's"),
        ({}, {"algorithm.advantage": "gae"}, "no critic"),
        ({}, {"kl.coefficient": 0.5}, "held no reference"),
        ({}, {"algorithm.epochs": 7}, "algorithm.epochs decides which updates there were"),
        ({}, {"algorithm.clip_low": 1.5}, "algorithm.clip_low"),
        ({}, {"algorithm.clip_lo": 0.5}, "clip_low"),
        ({"algorithm__preset": "cispo"}, {"algorithm.dual_clip": 3.0}, "with cispo set it to null"),
        ({"algorithm__preset": "rloo", "scoring__normalize": True}, {"kl.coefficient": 0.5}, "not stored"),
        (
            {"algorithm__preset": "ppo", "algorithm__lam_length_alpha": 0.5},
            {"algorithm.lam": 0.5},
            "lam_length_alpha to null",
        ),
    ],
)
def test_what_a_stored_batch_cannot_tell_is_refused(stored, make_config, settings, changes, reason):
    kept = stored(**settings)[2]
    with pytest.raises(ValueError, match=reason):
        recompute(kept, make_config(algorithm__minibatches=2, **settings), changes)


def test_a_setting_that_stays_as_it_was_is_no_change(stored, make_config):
    batch, _, kept = stored()
    found = recompute(
        kept, make_config(algorithm__minibatches=2), {"algorithm.lam": 0.95, "algorithm.epochs": 4}
    )
    assert torch.equal(found.batch.advantages, batch.advantages)
