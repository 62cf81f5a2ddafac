"""Folders in, folders out."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaForSequenceClassification

from taut.models import load
from taut.models.critic import Critic
from taut.models.reward_model import RewardModel
from taut.models.save import save_model
from taut.models.sequences import pad_sequences
from taut.models.tiny import character_tokenizer, tiny_gpt2


@pytest.fixture
def tokenizer():
    return character_tokenizer("0123456789+=;", ";")


@pytest.fixture
def reward_model(make_model, tmp_path):
    config = make_model("Llama").config
    config.num_labels = 1
    model = LlamaForSequenceClassification(config)
    model.save_pretrained(tmp_path / "reward")
    return model, str(tmp_path / "reward")


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Cohere"])  # untied, untied, tied
def test_a_saved_policy_loads_everywhere(make_model, tokenizer, tmp_path, family):
    model = make_model(family)
    model.generation_config.eos_token_id = [3, 12]
    save_model(model, tokenizer, tmp_path)
    ours, theirs = load.load_model(str(tmp_path)), AutoModelForCausalLM.from_pretrained(tmp_path)
    for loaded in (ours, theirs):
        assert loaded.state_dict().keys() == model.state_dict().keys()
        assert all(
            torch.equal(loaded.state_dict()[name], value) for name, value in model.state_dict().items()
        )
        assert loaded.generation_config.eos_token_id == [3, 12]
    assert not ours.training
    assert AutoTokenizer.from_pretrained(tmp_path).encode("4+5=") == [4, 10, 5, 11]
    assert load.load_tokenizer(str(tmp_path)).eos_token_id == 12


def test_weights_load_as_float32_whatever_they_were_saved_in(make_model, tokenizer, tmp_path):
    save_model(make_model("Llama").to(torch.bfloat16), tokenizer, tmp_path)
    assert {p.dtype for p in load.load_model(str(tmp_path)).parameters()} == {torch.float32}


def test_a_checkpoint_that_lacks_weights_is_refused(make_model, tmp_path):
    make_model("Llama").base_model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"lacks 1 of its weights, lm_head\.weight"):
        load.load_model(str(tmp_path))


def test_a_reward_model_is_no_policy_even_where_its_embeddings_make_it_a_whole_one(
    make_model, tokenizer, tmp_path, monkeypatch
):
    causal = make_model("GPT2", tie_word_embeddings=True)
    RewardModel.from_causal(causal, tokenizer).save(tokenizer, tmp_path)
    AutoModelForCausalLM.from_pretrained(tmp_path)  # transformers alone finds nothing wrong
    monkeypatch.setattr(load, "AutoModelForCausalLM", None)
    message = rf"model\.path {tmp_path} is a GPT2ForSequenceClassification.*reward as model:{tmp_path}"
    with pytest.raises(ValueError, match=message):
        load.load_model(str(tmp_path))


def test_a_critic_starts_from_a_reward_models_backbone(reward_model):
    model, path = reward_model
    critic = Critic(load.load_backbone(path))
    critic.head.weight.data = model.score.weight.data
    _, at_end = critic(pad_sequences([(1, 2)], [(3, 4)], "cpu"))
    model.config.pad_token_id = 0
    assert at_end.item() == pytest.approx(
        model.eval()(input_ids=torch.tensor([[1, 2, 3, 4]])).logits.item(), abs=1e-6
    )


def test_a_backbone_that_lacks_weights_is_refused_and_not_filled_with_noise(make_model, tokenizer, tmp_path):
    model = make_model("Llama")
    save_model(model, tokenizer, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 of its weights, layers\.1\.mlp\.up_proj\.weight"):
        load.load_backbone(str(tmp_path))


@pytest.mark.parametrize(
    ("loads", "setting"),
    [
        (load.load_model, "model.path"),
        (load.load_tokenizer, "model.path"),
        (load.load_backbone, "critic.path"),
        (load.max_positions, "model.path"),
    ],
)
def test_what_is_not_there_is_named(loads, setting, tmp_path):
    with pytest.raises(ValueError, match=f"could be loaded from {setting} {tmp_path}"):
        loads(str(tmp_path))


@pytest.mark.parametrize("loads", [load.load_model, load.load_tokenizer])
def test_gguf_without_its_library_names_the_extra(loads, monkeypatch):
    monkeypatch.setattr(load, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[gguf\]'"):
        loads("folder", "small.gguf")


def test_a_model_of_quantised_origin_becomes_an_ordinary_one(make_model, tmp_path):
    model = make_model("Llama")
    model.config.quantization_config = {"quant_method": "gguf"}
    model.generation_config.eos_token_id = [3, 12]
    ordinary = load._as_ordinary_model(model)
    ordinary.save_pretrained(tmp_path)
    loaded = load.load_model(str(tmp_path))
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in model.state_dict().items())
    assert loaded.generation_config.eos_token_id == [3, 12]


def test_a_shipped_generation_config_is_saved_as_it_came(make_model, tokenizer, tmp_path):
    """Many contradict themselves, and transformers refuses to save those."""
    model = make_model("Llama")
    model.generation_config = GenerationConfig(temperature=0.6, top_k=20, eos_token_id=[3, 12])
    save_model(model, tokenizer, tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    assert {**saved, "transformers_version": ""} == {
        "temperature": 0.6, "top_k": 20, "eos_token_id": [3, 12], "transformers_version": ""
    }  # fmt: skip
    loaded = load.load_model(str(tmp_path))
    assert load.end_of_sequence_ids(loaded, tokenizer) == (3, 12)
    assert load.shipped_sampling(loaded) == {"temperature": 0.6, "top_k": 20}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, {}),
        ({"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "eos_token_id": 3}, {}),
        (
            {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
            {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
        ),
        ({"suppress_tokens": [1], "min_new_tokens": 5}, {"suppress_tokens": [1], "min_new_tokens": 5}),
    ],
)
def test_what_a_shipped_generation_config_would_change(make_model, settings, found):
    model = make_model("Llama")
    model.generation_config = GenerationConfig(**settings)
    assert load.shipped_sampling(model) == found


def test_every_end_of_sequence_id_counts(tokenizer):
    model = tiny_gpt2(13, end_id=7, seed=0, width=8, heads=1)
    model.generation_config.eos_token_id = [3, 5]
    assert load.end_of_sequence_ids(model, tokenizer) == (3, 5, 7, 12)
    model.generation_config = None
    model.config.eos_token_id = 12
    assert load.end_of_sequence_ids(model, tokenizer) == (12,)
    model.config.eos_token_id = tokenizer.eos_token = None
    assert load.end_of_sequence_ids(model, tokenizer) == ()


@pytest.mark.parametrize(("family", "positions"), [("GPT2", 64), ("Llama", 64), ("Mamba", None)])
def test_the_longest_sequence_is_read_from_the_config_alone(tmp_path, family, positions):
    sizes = {"GPT2": {"n_positions": 64}, "Llama": {"max_position_embeddings": 64}, "Mamba": {}}[family]
    getattr(transformers, f"{family}Config")(**sizes).save_pretrained(tmp_path)
    assert load.max_positions(str(tmp_path)) == positions
