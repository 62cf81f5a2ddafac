"""A learner's state: copied so that nothing changes it, written, and taken over to the last bit."""

import copy

import pytest
import torch

from taut.config import LoraConfig, ModelConfig
from taut.models.adapter import add_adapter
from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.models.tiny import character_tokenizer
from taut.objective.value import ValueNormalizer
from taut.training.snapshot import Learned

TOKENIZER = character_tokenizer("0123456789+=;", ";")


def learned(policy, critic=None):
    """With moments of the optimisers, as after one step on arbitrary gradients."""
    models = {"policy": policy, "critic": critic} if critic else {"policy": policy}
    optimizers = {
        name: torch.optim.AdamW(model.trained_parameters(), lr=1e-2) for name, model in models.items()
    }
    generator = torch.Generator().manual_seed(0)
    for name, model in models.items():
        for parameter in model.trained_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        optimizers[name].step()
    normalizer = ValueNormalizer() if critic else None
    if normalizer:
        normalizer.update(torch.tensor([[1.0, 5.0]]), torch.tensor([[True, True]]), critic.head)
    return Learned(policy, critic, normalizer, optimizers, TOKENIZER)


def state(learned):
    """Every trained number, by name; copied."""
    models = [learned.policy] + ([learned.critic] if learned.critic else [])
    weights = {f"{type(m).__name__}.{name}": p for m in models for name, p in m.named_parameters()}
    moments = {name: optimizer.state_dict()["state"] for name, optimizer in learned.optimizers.items()}
    scale = learned.normalizer.state_dict() if learned.normalizer else {}
    return copy.deepcopy((weights, moments, scale))


def assert_equal(one, other):
    weights, moments, scale = one
    assert weights.keys() == other[0].keys()
    assert [name for name in weights if not torch.equal(weights[name], other[0][name])] == []
    assert moments.keys() == other[1].keys()
    for name, states in moments.items():
        for number, values in states.items():
            assert all(torch.equal(value, other[1][name][number][key]) for key, value in values.items())
    assert scale == other[2]


def spoil(learned):
    """Another step, as the loop would take while the copy is written."""
    for optimizer in learned.optimizers.values():
        optimizer.step()
    with torch.no_grad():
        for optimizer in learned.optimizers.values():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.add_(1.0)


def assert_round_trip(before, after, folder):
    expected = state(before)
    copied = before.copied()
    spoil(before)
    copied.write(folder)
    after.restore(folder, ModelConfig())
    assert_equal(state(after), expected)


@pytest.mark.parametrize("tied", [False, True])
def test_every_family_comes_back_to_the_last_bit(make_model, family, tied, tmp_path):
    def make(seed):
        policy = Policy(make_model(family, seed, tie_word_embeddings=tied))
        return learned(policy, Critic.from_policy(policy))

    assert_round_trip(make(0), make(1), tmp_path / "checkpoint")


def test_weights_of_bfloat16_come_back(make_model, tmp_path):
    assert_round_trip(
        learned(Policy(make_model("Llama", 0).bfloat16())),
        learned(Policy(make_model("Llama", 1).bfloat16())),
        tmp_path / "checkpoint",
    )


def test_adapters_come_back_and_their_base_is_not_copied(make_model, tmp_path):
    def make(adapter_seed):
        model = make_model("Llama", 0)
        torch.manual_seed(adapter_seed)
        policy = Policy(model, add_adapter(model, LoraConfig(rank=2)))
        critic = Critic.on_base_of(policy)
        return learned(policy, critic)

    before = make(1)
    frozen = {id(p) for p in before.policy.parameters()} - {
        id(p) for m in (before.policy, before.critic) for p in m.trained_parameters()
    }
    copied = before.copied()
    assert frozen <= {id(p) for p in copied.policy.parameters()}
    assert not {id(p) for p in copied.policy.trained_parameters()} & {
        id(p) for p in before.policy.parameters()
    }
    assert_round_trip(before, make(2), tmp_path / "checkpoint")
