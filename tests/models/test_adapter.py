"""LoRA: what is trained, what is shared, what is saved."""

from __future__ import annotations

import copy
import json

import peft
import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from taut.config import LoraConfig, ModelConfig
from taut.models import adapter as adapters
from taut.models.adapter import add_adapter, check_adapter
from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation
from taut.models.policy import Policy
from taut.models.save import save_policy
from taut.models.sequences import pad_sequences
from taut.models.tiny import character_tokenizer

SEQUENCES = pad_sequences([(1, 2, 3), (4,)], [(3, 12), (7, 7, 1, 2)], "cpu")
LORA = LoraConfig(rank=2, alpha=8)


def adapted(model, recompute=False, **settings):
    if recompute:
        enable_recomputation(model)
    return Policy(model, add_adapter(model, LoraConfig(**{"rank": 2, "alpha": 8, **settings})))


@torch.no_grad()
def randomize(module, seed=1):
    """A fresh adapter changes nothing; this one does."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.trained_parameters():
        parameter.normal_(0, 0.3, generator=generator)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "GPTNeoX", "Cohere"])
def test_a_fresh_adapter_changes_nothing_and_a_trained_one_not_the_reference(make_model, family):
    model = make_model(family)
    before = Policy(model)(SEQUENCES, 1.0)[0].detach()
    policy = adapted(model)
    reference = policy.reference()
    assert torch.equal(policy(SEQUENCES, 1.0)[0], before)
    randomize(policy)
    assert not torch.equal(policy(SEQUENCES, 1.0)[0], before)
    assert torch.equal(reference(SEQUENCES, 1.0)[0], before)
    assert reference.trained_parameters() == []
    assert {p.data_ptr() for p in reference.parameters()} == {p.data_ptr() for p in policy.parameters()}


def test_a_pass_equals_one_through_w_plus_alpha_over_rank_b_a(make_model):
    """The formula of 2106.09685, by hand, on every matrix of a plain copy."""
    plain = make_model("Llama")
    policy = adapted(copy.deepcopy(plain))
    randomize(policy)
    expected = Policy(plain)
    weights = dict(policy.model.named_parameters())
    with torch.no_grad():
        for name, layer in plain.named_modules():
            if isinstance(layer, nn.Linear) and name != "lm_head":
                a, b = (weights[f"{name}.lora_{x}.policy.weight"] for x in "AB")
                layer.weight += 8 / 2 * b @ a
    torch.testing.assert_close(policy(SEQUENCES, 1.0)[0], expected(SEQUENCES, 1.0)[0], rtol=0, atol=1e-5)


def test_only_the_adapter_is_trained(make_model):
    policy = adapted(make_model("GPT2"))
    policy(SEQUENCES, 1.0)[0].sum().backward()
    with_gradient = {p.data_ptr() for p in policy.parameters() if p.grad is not None}
    trained = policy.trained_parameters()
    assert len(trained) == 2 * 4 * 2, "A and B of four matrices in each of two layers"
    assert with_gradient == {p.data_ptr() for p in trained}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("family", ["GPT2", "Llama"])
def test_policy_and_critic_on_one_base_have_the_gradients_of_bases_of_their_own(
    make_model, family, recompute
):
    """Switching flips `requires_grad`, and what is recomputed runs through the active adapter."""
    policy = adapted(make_model(family), recompute)
    critic, reference = Critic.on_base_of(policy), policy.reference()
    policy_alone = adapted(make_model(family))
    critic_alone = Critic.on_base_of(adapted(make_model(family)))
    randomize(policy, 1), randomize(policy_alone, 1)
    randomize(critic, 2), randomize(critic_alone, 2)
    for ours, theirs, arguments in (
        (critic, critic_alone, ()),
        (policy, policy_alone, (1.0,)),
        (critic, critic_alone, ()),
    ):
        reference(SEQUENCES, 1.0)
        for module in (ours, theirs):
            module.zero_grad()
            module(SEQUENCES, *arguments)[0].square().sum().backward()
        for mine, other in zip(ours.trained_parameters(), theirs.trained_parameters(), strict=True):
            assert other.grad.abs().sum() > 0
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-6, atol=1e-7)


def test_only_the_active_adapter_requires_a_gradient(make_model):
    policy = adapted(make_model("Llama"))
    critic = Critic.on_base_of(policy)
    for adapter in (policy.adapter, critic.adapter, policy.adapter.off(), policy.adapter):
        adapter.activate()
        trained = {p.data_ptr() for p in policy.parameters() if p.requires_grad}
        assert trained == {p.data_ptr() for p in adapter.parameters()}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # asked for by peft
@pytest.mark.parametrize("family", ["GPT2", "Llama", "Cohere"])  # transposed matrices, plain, a tied head
def test_a_saved_policy_is_merged_and_its_adapter_loads_onto_the_base(make_model, family, tmp_path):
    base = make_model(family)
    policy = adapted(copy.deepcopy(base))
    randomize(policy)
    before = copy.deepcopy(policy.model.state_dict())
    save_policy(policy, character_tokenizer("0123456789+=;", ";"), tmp_path)
    assert all(torch.equal(before[name], value) for name, value in policy.model.state_dict().items())

    ids = torch.tensor([[1, 2, 3, 4, 5]])
    policy.adapter.activate()
    expected = policy.model(input_ids=ids).logits
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.state_dict().keys() == base.state_dict().keys()
    torch.testing.assert_close(loaded(input_ids=ids).logits, expected, rtol=0, atol=2e-5)
    on_base = peft.PeftModel.from_pretrained(base, str(tmp_path / "adapters" / "policy"))
    torch.testing.assert_close(on_base(input_ids=ids).logits, expected, rtol=0, atol=1e-5)


def test_target_modules_choose_matrices_by_a_regular_expression(make_model):
    policy = adapted(make_model("Llama"), target_modules=r".*\.(q|v)_proj")
    owners = {
        name.split(".lora_")[0].rpartition(".")[2]
        for name, _ in policy.model.named_parameters()
        if "lora_" in name
    }
    assert owners == {"q_proj", "v_proj"}


@pytest.mark.parametrize("target", ["nothing_of_the_kind", ".*lm_head", ".*embed_tokens"])
def test_what_cannot_be_adapted_is_refused_by_name(make_model, target):
    with pytest.raises(ValueError, match=r"lora\.target_modules = "):
        adapted(make_model("Llama"), target_modules=target)


def test_lora_without_its_library_names_the_extra(monkeypatch):
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[lora\]'"):
        check_adapter(ModelConfig(), LORA)
    check_adapter(ModelConfig(), LoraConfig(rank=0))


def test_the_adapted_matrices_are_listed_in_order(make_model, tmp_path):
    """They are a set, whose order differs from process to process, and a checkpoint's bytes would too."""
    policy = adapted(make_model("Llama"))
    policy.adapter.save(tmp_path)
    listed = json.loads((tmp_path / "policy/adapter_config.json").read_text())["target_modules"]
    assert len(listed) > 6
    assert listed == sorted(listed)
