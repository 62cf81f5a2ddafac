"""The learner with adapters: one backbone in memory, a base that never moves, a KL that starts at 0."""

from __future__ import annotations

import pytest
import torch

from taut.models.adapter import add_adapter
from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences
from taut.objective.reduce import masked
from taut.rollout.local import LocalSampler
from taut.rollout.sampling import Sampling
from taut.training.learner import LocalLearner
from taut.training.metrics import step_metrics
from taut.types import Prompt


@pytest.fixture
def lora_config(make_config):
    def make(**settings):
        base = {
            "algorithm__preset": "ppo",
            "lora__rank": 4,
            "critic__shared": True,
            "critic__learning_rate": 1e-2,
        }
        return make_config(**{**base, **settings})

    return make


@pytest.fixture
def lora_learner(make_model):
    def make(config, recompute=False, family="Llama"):
        torch.manual_seed(0)
        model = make_model(family)
        if recompute:
            enable_recomputation(model)
        policy = Policy(model, add_adapter(model, config.lora))
        return LocalLearner(policy, Critic.on_base_of(policy), tokenizer=None, config=config)

    return make


def base_weights(learner):
    return {n: p.clone() for n, p in learner.policy.model.state_dict().items() if ".lora_" not in n}


def modules_of(learner):
    return learner.policy, learner.reference, learner.critic


def test_policy_reference_and_critic_hold_one_backbone(make_model, lora_config, lora_learner):
    learner = lora_learner(lora_config())
    bytes_held = {
        p.data_ptr(): p.numel() * p.element_size()
        for module in modules_of(learner)
        for p in [*module.parameters(), *module.buffers()]
    }
    model = make_model("Llama")
    backbone = sum(p.numel() * p.element_size() for p in [*model.parameters(), *model.buffers()])
    trained = sum(
        p.numel() * p.element_size() for module in modules_of(learner) for p in module.trained_parameters()
    )
    assert trained > 0
    assert sum(bytes_held.values()) == backbone + trained


@pytest.mark.parametrize("family", ["GPT2", "Llama"])
def test_a_batch_moves_both_adapters_and_no_base(lora_config, lora_learner, make_batch, run_batch, family):
    learner = lora_learner(lora_config(algorithm__minibatches=2), family=family)
    base = base_weights(learner)
    before = [[p.clone() for p in m.trained_parameters()] for m in (learner.policy, learner.critic)]
    _, _, trace = run_batch(learner, make_batch())
    assert all(torch.equal(base[name], weight) for name, weight in base_weights(learner).items())
    for module, weights in zip((learner.policy, learner.critic), before, strict=True):
        moved = [not torch.equal(p, old) for p, old in zip(module.trained_parameters(), weights, strict=True)]
        assert all(moved)
    first, last = trace.steps[0].clip, trace.steps[-1].clip
    assert (first.ratio[first.mask] == 1).all()
    assert (last.ratio[last.mask] != 1).any()


def test_the_kl_to_the_base_is_0_at_first_and_then_is_not(lora_config, lora_learner, make_batch, run_batch):
    learner = lora_learner(lora_config())
    for step, is_zero in ((1, True), (2, False)):
        batch, _, trace = run_batch(learner, make_batch(), step)
        assert (step_metrics(batch, trace, learner.config)["kl/ref_k1"] == 0) == is_zero
        difference = masked(batch.old_logprobs - batch.ref_logprobs, batch.response_mask)
        assert (difference.abs().max() == 0) == is_zero


def test_recomputing_layers_changes_no_update(lora_config, lora_learner, make_batch, run_batch):
    """Backward ends before the adapter switches: what is recomputed is what was computed."""
    config = lora_config(
        algorithm__minibatches=2, learner__micro_batch_tokens=12, optimizer__max_grad_norm=None
    )
    after = []
    for recompute in (False, True):
        learner = lora_learner(config, recompute)
        for step in (1, 2):
            _, _, trace = run_batch(learner, make_batch(), step)
        after.append(
            (
                torch.cat(
                    [p.detach().flatten() for m in modules_of(learner) for p in m.trained_parameters()]
                ),
                [{k: v for k, v in s.scalars.items() if "norm" in k or "loss" in k} for s in trace.steps],
            )
        )
    torch.testing.assert_close(after[0][0], after[1][0], rtol=0, atol=1e-5)
    for plain, recomputed in zip(after[0][1], after[1][1], strict=True):
        assert recomputed == pytest.approx(plain, rel=1e-4, abs=1e-6)


def test_the_sampler_draws_from_the_adapter(lora_config, lora_learner, make_batch, run_batch):
    """Also right after a pass of the critic, whose adapter is then the active one."""
    learner = lora_learner(lora_config())
    sampler = LocalSampler(learner.policy, _Tokenizer(), end_ids=[12], max_sequences=8)
    prompts, sampling = (
        [Prompt(0, "", (1, 2, 3))],
        Sampling(max_new_tokens=4, replies_per_prompt=4, seed=0, step=1),
    )
    fresh = sampler.generate(prompts, sampling)
    run_batch(learner, make_batch())
    learner.critic.adapter.activate()
    rollouts = sampler.generate(prompts, sampling)
    assert [r.behavior_logprobs[0] for r in rollouts] != [r.behavior_logprobs[0] for r in fresh]
    with torch.no_grad():
        logprobs, _ = learner.policy(pad_sequences([(1, 2, 3)] * 4, [r.ids for r in rollouts], "cpu"), 1.0)
    for row, rollout in enumerate(rollouts):
        assert logprobs[row, : len(rollout.ids)].tolist() == pytest.approx(
            rollout.behavior_logprobs.tolist(), abs=1e-4
        )


class _Tokenizer:
    def batch_decode(self, replies, skip_special_tokens):
        return [""] * len(replies)
