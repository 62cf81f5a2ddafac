"""The world's model from nothing, and its tokenizer."""

from __future__ import annotations

import pytest
import torch

from taut.models.load import load_tokenizer
from taut.models.tiny import character_tokenizer, tiny_gpt2

CHARACTERS = "0123456789+=;"


@pytest.fixture(scope="module")
def weights():
    return dict(tiny_gpt2(13, end_id=12, seed=0).named_parameters())


def test_size(weights):
    # 13 and 64 embeddings, 2 × (qkv, projection, MLP, two norms), last norm, head; all of width 80.
    layer = 3 * 80 * 81 + 80 * 81 + 320 * 81 + 80 * 321 + 4 * 80
    assert sum(p.numel() for p in weights.values()) == (13 + 64) * 80 + 2 * layer + 2 * 80 + 13 * 80


def test_embeddings_are_standard_normal(weights):
    for name in ("transformer.wte.weight", "transformer.wpe.weight"):
        assert weights[name].mean().item() == pytest.approx(0, abs=0.06)
        assert weights[name].std().item() == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("transformer.h.0.attn.c_attn.weight", 80),
        ("transformer.h.0.attn.c_attn.bias", 80),
        ("transformer.h.1.mlp.c_fc.weight", 80),
        ("transformer.h.1.mlp.c_proj.weight", 320),
        ("transformer.h.1.mlp.c_proj.bias", 320),
        ("lm_head.weight", 80),
    ],
)
def test_matrices_and_biases_are_uniform_as_pytorchs_linear(weights, name, inputs):
    bound = inputs**-0.5
    assert 0.95 * bound < weights[name].abs().max().item() <= bound
    assert weights[name].std().item() == pytest.approx(bound / 3**0.5, rel=0.15)


def test_norms_start_neutral(weights):
    for name, weight in weights.items():
        if ".ln_" in name:
            assert (weight == (1 if name.endswith("weight") else 0)).all()


def test_the_seed_alone_decides_and_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    first = tiny_gpt2(13, end_id=12, seed=1, width=8, heads=1).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    again = tiny_gpt2(13, end_id=12, seed=1, width=8, heads=1).state_dict()
    other = tiny_gpt2(13, end_id=12, seed=2, width=8, heads=1).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_head_is_untied_and_there_is_no_dropout():
    model = tiny_gpt2(13, end_id=12, seed=0)
    assert model.lm_head.weight is not model.transformer.wte.weight
    assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.0}
    assert not model.training


@pytest.fixture(params=["made", "saved"])
def tokenizer(request, tmp_path):
    made = character_tokenizer(CHARACTERS, ";")
    if request.param == "made":
        return made
    made.save_pretrained(tmp_path)
    return load_tokenizer(str(tmp_path))


def test_one_id_a_character_in_the_order_given(tokenizer):
    assert tokenizer.encode("23+45=68;") == [2, 3, 10, 4, 5, 11, 6, 8, 12]
    assert tokenizer.decode([2, 3, 10, 4, 5, 11, 6, 8, 12]) == "23+45=68;"
    assert tokenizer.decode([6, 8, 12], skip_special_tokens=True) == "68"
    assert len(tokenizer) == 13


def test_the_end_also_pads(tokenizer):
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 12


@pytest.mark.parametrize("text", ["1 2", "a", "1\n", "12ü"])
def test_unknown_characters_are_refused(tokenizer, text):
    with pytest.raises(Exception, match="WordLevel error"):
        tokenizer.encode(text)
