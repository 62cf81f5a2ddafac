"""Passes: layers computed again in the backward pass, and the compute type."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers import OPTConfig, OPTForCausalLM

from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation, recomputed_layers
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences

SEQUENCES = pad_sequences([(1, 2, 3), (4,)], [(3, 12), (7, 7, 1, 2)], "cpu")


def gradients(module, *arguments):
    module.zero_grad()
    module(SEQUENCES, *arguments)[0].square().sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def opt():
    """Its layers call dropout themselves, so train mode alone would turn it on."""
    return OPTForCausalLM(
        OPTConfig(
            vocab_size=13,
            hidden_size=16,
            ffn_dim=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=32,
            word_embed_proj_dim=16,
            dropout=0.5,
            attention_dropout=0.5,
            eos_token_id=12,
        )
    )


def model_of(make_model, family):
    if family == "OPT":
        return opt()
    dropout = (
        {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5}
        if family == "GPT2"
        else {"attention_dropout": 0.5}
    )
    return make_model(family, **dropout)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "GPTNeoX", "Gemma2", "Qwen3", "OPT"])
def test_recomputing_changes_no_gradient_and_turns_no_dropout_on(make_model, family):
    model = model_of(make_model, family)
    again = copy.deepcopy(model)
    enable_recomputation(again)
    expected, found = gradients(Policy(model), 1.0), gradients(Policy(again), 1.0)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-6, atol=1e-7, msg=name)
    assert recomputed_layers(again)[0].training, "only in train mode does transformers recompute"


def test_recomputing_keeps_fewer_bytes_for_the_backward_pass(make_model):
    kept = []
    for recompute in (False, True):
        model = make_model("Llama", num_hidden_layers=4)
        if recompute:
            enable_recomputation(model)
        policy, sizes = Policy(model), {}

        def pack(tensor, sizes=sizes):
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            policy(SEQUENCES, 1.0)
        kept.append(sum(sizes.values()))
    assert kept[1] < 0.6 * kept[0]


def test_a_family_that_cannot_recompute_is_refused():
    class Plain(nn.Module):
        supports_gradient_checkpointing = False

    with pytest.raises(ValueError, match="Plain has no layers that can be recomputed"):
        enable_recomputation(Plain())


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Gemma2"])
def test_bfloat16_computes_from_float32_weights_and_gives_float32(make_model, family):
    model = make_model(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3)  # logits of a size that 8 bits resolve
    exact, computed = Policy(model), Policy(model, autocast=True)
    seen = []
    layer = next(
        m for m in model.base_model.modules() if isinstance(m, nn.Linear) or "Conv1D" in str(type(m))
    )
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    logprobs, entropy = computed(SEQUENCES, 1.0)
    assert seen == [torch.bfloat16]
    assert logprobs.dtype == entropy.dtype == torch.float32
    logprobs.sum().backward()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    difference = (logprobs - exact(SEQUENCES, 1.0)[0]).abs().max()
    assert 0 < difference < 0.05
    critic = Critic.from_policy(computed)
    nn.init.normal_(critic.head.weight)
    assert critic(SEQUENCES)[0].dtype == torch.float32
    assert seen == [torch.bfloat16, torch.float32, torch.bfloat16], "the policy, the exact one, the critic"


def test_the_sampler_and_the_learner_apply_the_head_in_the_same_type(make_model):
    policy = Policy(make_model("Llama"), autocast=True)
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        states = policy.hidden_states(input_ids=ids, use_cache=False)
        sampler = policy.next_token_logits(states[:, -1]).log_softmax(-1)
        learner, _ = policy(pad_sequences([(1, 2, 3)], [(5,)], "cpu"), 1.0)
    assert sampler.dtype == torch.float32
    assert sampler[0, 5].item() == pytest.approx(learner[0, 0].item(), abs=1e-6)
