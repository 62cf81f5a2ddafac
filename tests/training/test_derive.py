"""A stored batch gives back, exactly, what the update saw."""

import pytest
import torch

from taut.config import to_yaml
from taut.store import Run, RunWriter
from taut.training.derive import clip_states, gae_advantages
from taut.training.record import step_record


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


@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean", "gspo", "cispo"])
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
