"""A frozen base in 4 bits: what it holds, what is saved of it, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM

from taut.config import LoraConfig, ModelConfig
from taut.launch.models import policy_from, with_adapter
from taut.models import four_bit
from taut.models.adapter import check_adapter
from taut.models.critic import Critic
from taut.models.save import save_critic, save_model, save_policy
from taut.models.sequences import pad_sequences
from taut.models.tiny import character_tokenizer

NF4 = ModelConfig(dtype="nf4")
LORA = LoraConfig(rank=2, alpha=8)
SEQUENCES = pad_sequences([(1, 2, 3), (4,)], [(3, 12), (7, 7, 1, 2)], "cpu")
LARGEST_GAP = 1 - 0.6961928
"""Between two neighbours of NF4's sixteen values (2305.14314, appendix E)."""
needs_bitsandbytes = pytest.mark.skipif(
    four_bit.find_spec("bitsandbytes") is None,
    reason="bitsandbytes is not installed: pip install 'taut[qlora]'",
)


@pytest.fixture
def saved(make_model, tmp_path):
    """(the model, its folder); wide enough for blocks of 64 weights."""
    model = make_model("Llama", hidden_size=64, intermediate_size=128)
    save_model(model, character_tokenizer("0123456789+=;", ";"), tmp_path / "model")
    return model, str(tmp_path / "model")


@needs_bitsandbytes
def test_each_weight_is_within_half_a_gap_of_its_block_and_the_head_is_untouched(saved):
    model, path = saved
    packed = policy_from(path, NF4).model
    weights = four_bit.plain_state_dict(packed)
    assert weights.keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        if "_proj" in name:
            blocks = weight.numpy().astype(np.float64).reshape(-1, 64)
            error = np.abs(weights[name].float().numpy().reshape(-1, 64) - blocks)
            largest = np.abs(blocks).max(1, keepdims=True)
            # 8 bits of the scale, and bfloat16, on top of NF4 itself
            assert (error <= (LARGEST_GAP / 2 + 0.02) * largest).all()
            assert error.max() > 0
        else:
            assert torch.equal(weights[name], weight.bfloat16())
    assert packed.model.layers[0].mlp.up_proj.weight.numel() == 128 * 64 / 2, "two weights a byte"


@needs_bitsandbytes
def test_the_adapter_alone_trains_and_the_base_without_it_is_the_reference(saved):
    policy = with_adapter(policy_from(saved[1], NF4), LORA)
    logprobs, _ = policy(SEQUENCES, 1.0)
    assert torch.equal(policy.reference()(SEQUENCES, 1.0)[0], logprobs)
    policy(SEQUENCES, 1.0)[0].sum().backward()
    with_gradient = [p for p in policy.parameters() if p.grad is not None]
    assert {p.data_ptr() for p in with_gradient} == {p.data_ptr() for p in policy.trained_parameters()}
    assert all(p.dtype == torch.float32 for p in with_gradient)


@needs_bitsandbytes
def test_gradients_are_those_of_a_plain_model_with_the_same_weights(saved):
    """After a pass without a gradient, too, in which bitsandbytes may change how it holds the weights."""
    policy, plain = policy_from(saved[1], NF4), policy_from(saved[1], ModelConfig(dtype="bfloat16-weights"))
    plain.model.load_state_dict(four_bit.plain_state_dict(policy.model))
    gradients = []
    for each in (with_adapter(policy, LORA), with_adapter(plain, LORA)):
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in each.trained_parameters():
                parameter.normal_(0, 0.1, generator=generator)
            each(SEQUENCES, 1.0)
        each(SEQUENCES, 1.0)[0].sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in each.trained_parameters()]))
    ours, expected = gradients
    assert (ours - expected).norm() < 0.05 * expected.norm(), "both are computed in bfloat16"


@needs_bitsandbytes
def test_what_is_saved_is_an_ordinary_model_that_says_the_same(saved, tmp_path):
    policy = with_adapter(policy_from(saved[1], NF4), LORA)
    critic = Critic.on_base_of(policy)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in [*policy.trained_parameters(), *critic.trained_parameters()]:
            parameter.normal_(0, 0.1, generator=generator)
    save_policy(policy, character_tokenizer("0123456789+=;", ";"), tmp_path / "out")
    save_critic(critic, tmp_path / "out" / "critic")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert not hasattr(loaded.config, "quantization_config")
    again = policy_from(str(tmp_path / "out"), ModelConfig(dtype="bfloat16-weights"))
    torch.testing.assert_close(again(SEQUENCES, 1.0)[0], policy(SEQUENCES, 1.0)[0], rtol=0, atol=0.1)
    base = policy.reference()(SEQUENCES, 1.0)[0]
    assert (policy(SEQUENCES, 1.0)[0] - base).abs().max() > 0.5, (
        "the adapter's part is far above that tolerance"
    )
    weights = AutoModel.from_pretrained(tmp_path / "out" / "critic").state_dict()
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}


def test_weights_that_would_have_to_be_trained_are_refused(monkeypatch):
    monkeypatch.setattr(four_bit, "find_spec", lambda name: object())
    with pytest.raises(ValueError, match=r"cannot be trained: set lora\.rank"):
        check_adapter(NF4, LoraConfig())
    with pytest.raises(ValueError, match=r"model\.gguf_file names packed ones"):
        check_adapter(ModelConfig(dtype="nf4", gguf_file="a.gguf"), LORA)
    check_adapter(NF4, LORA)


def test_a_missing_bitsandbytes_names_the_extra(monkeypatch):
    monkeypatch.setattr(four_bit, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[qlora\]'"):
        check_adapter(NF4, LORA)
