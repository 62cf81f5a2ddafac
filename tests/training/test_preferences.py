"""Training on pairs: the losses as transformers' own logits give them, however a batch is cut."""

from __future__ import annotations

import math

import pytest
import torch

from taut.config import DPOConfig, RewardModelConfig
from taut.models.policy import Policy
from taut.models.reward_model import RewardModel
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.preferences import PreferencePair
from taut.training import dpo, reward_model
from taut.training.non_finite import NonFiniteError

PAIRS = [
    PreferencePair([1, 2, 3], [4, 5, 12], [6, 12], margin=0.5),
    PreferencePair([6], [7, 12], [1, 2, 3, 4, 12]),
    PreferencePair([8, 9], [12], [1, 12], margin=-1.0),
]
STEPS = {"steps": 40}
FAST = {"learning_rate": 1e-2}


def language_model(seed=0):
    return tiny_gpt2(13, end_id=12, seed=seed, width=16, heads=2)


@pytest.fixture
def rewards():
    torch.manual_seed(0)
    return RewardModel.from_causal(language_model(), character_tokenizer("0123456789+=;", ";"))


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def logprob_by_hand(model, prompt, reply):
    logprobs = model(torch.tensor([[*prompt, *reply]])).logits[0].double().log_softmax(-1)
    return sum(logprobs[len(prompt) - 1 + t, token].item() for t, token in enumerate(reply))


def test_the_reward_models_loss_by_hand(rewards):
    expected = 0.0
    for pair in PAIRS:
        chosen, rejected = (rewards([text]).item() for text in pair.texts)
        expected += math.log(1 + math.exp(-(chosen - rejected - pair.margin))) / len(PAIRS)
    metrics = reward_model.accumulate_bradley_terry(rewards, PAIRS, 8192)
    assert metrics["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("tokens", [1, 24])
def test_cutting_changes_neither_loss_nor_gradient(rewards, tokens):
    whole = reward_model.accumulate_bradley_terry(rewards, PAIRS, 8192)
    expected = gradients(rewards)
    rewards.zero_grad()
    assert reward_model.accumulate_bradley_terry(rewards, PAIRS, tokens) == pytest.approx(whole, rel=1e-5)
    torch.testing.assert_close(gradients(rewards), expected, rtol=1e-4, atol=1e-6)


def test_a_reward_model_learns_its_pairs_and_is_centred(rewards):
    steps = []
    config = RewardModelConfig.model_validate(
        {"run": STEPS, "optimizer": FAST, "reward_model": {"batch_size": 2}}
    )
    reward_model.train_reward_model(
        rewards, PAIRS, config, lambda step, metrics: steps.append(metrics["loss"])
    )
    assert len(steps) == 40
    assert steps[-1] < 0.2 * steps[0]
    judged = reward_model.judge(rewards, PAIRS, 8192)
    assert judged["accuracy"] == 1.0
    chosen, _ = reward_model.pair_rewards(rewards, PAIRS)
    assert chosen.mean().item() == pytest.approx(0, abs=1e-5)


def test_a_loss_that_is_not_finite_stops_before_the_step(rewards):
    with torch.no_grad():
        rewards.model.score.weight[0, 0] = float("nan")
    before = rewards.model.transformer.wte.weight.clone()
    config = RewardModelConfig.model_validate({"run": {"steps": 1}, "optimizer": FAST})
    with pytest.raises(NonFiniteError, match="reward model's loss"):
        reward_model.train_reward_model(rewards, PAIRS, config, lambda step, metrics: None)
    assert torch.equal(rewards.model.transformer.wte.weight, before)


@pytest.mark.parametrize("tokens", [1, 24, 8192])
def test_the_dpo_loss_by_hand(tokens):
    policy, reference = Policy(language_model()), Policy(language_model(seed=1))
    config = DPOConfig.model_validate({"dpo": {"beta": 0.3}, "learner": {"micro_batch_tokens": tokens}})
    expected = 0.0
    for pair in PAIRS:
        chosen, rejected = (
            logprob_by_hand(policy.model, pair.prompt_ids, reply)
            - logprob_by_hand(reference.model, pair.prompt_ids, reply)
            for reply in (pair.chosen_ids, pair.rejected_ids)
        )
        right = 1 / (1 + math.exp(-0.3 * (chosen - rejected)))
        expected -= math.log(right) / len(PAIRS)
    before = dpo.reply_logprobs(reference, PAIRS, tokens)
    assert dpo.accumulate_dpo(policy, PAIRS, before, config)["loss"] == pytest.approx(expected, rel=1e-5)


def test_dpo_starts_at_log_2_and_learns_its_pairs():
    policy = Policy(language_model())
    config = DPOConfig.model_validate({"run": STEPS, "optimizer": FAST, "dpo": {"batch_size": 3}})
    reference = dpo.reply_logprobs(policy, PAIRS, 8192)
    steps = []
    dpo.train_dpo(policy, PAIRS, reference, config, lambda step, metrics: steps.append(metrics))
    assert steps[0]["loss"] == pytest.approx(math.log(2), rel=1e-5)
    assert steps[0]["margin"] == pytest.approx(0, abs=1e-5)
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.3
    judged = dpo.judge(policy, PAIRS, reference, config)
    assert judged["accuracy"] == 1.0
    assert judged["margin"] > 0.5
