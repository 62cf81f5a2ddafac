"""Reward models: what we score is what `from_pretrained` elsewhere scores."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from taut.config import LoraConfig
from taut.models.load import load_backbone
from taut.models.reward_model import PAD, RewardModel
from taut.models.tiny import character_tokenizer, tiny_gpt2

CHARACTERS, END = "0123456789+=;", 12
TEXTS = ["1+2=3;", "10+20=30;", "7=;", "1+2=33"]


@pytest.fixture
def tokenizer():
    return character_tokenizer(CHARACTERS, ";")


def ids_of(tokenizer):
    return [tokenizer.encode(text) for text in TEXTS]


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen2", "GPTNeoX", "Phi", "Mistral", "Gemma2"])
def test_a_saved_model_scores_elsewhere_as_here(family, make_model, tokenizer, tmp_path):
    """Through transformers alone: texts that end with the end-of-sequence token, padded together."""
    ours = RewardModel.from_causal(make_model(family), tokenizer)
    expected = ours(ids_of(tokenizer)).detach()
    assert len(set(expected.tolist())) == len(TEXTS)
    ours.save(tokenizer, tmp_path / "rm")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm").eval()
    batch = AutoTokenizer.from_pretrained(tmp_path / "rm")(TEXTS, padding=True, return_tensors="pt")
    logits = theirs(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    assert logits.shape == (len(TEXTS), 1)
    torch.testing.assert_close(logits[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["GPT2", "Llama"])  # transposed matrices, plain
def test_with_lora_the_adapter_and_the_head_are_trained_and_saved_merged(
    family, make_model, tokenizer, tmp_path
):
    causal = make_model(family)
    ours = RewardModel.from_causal(causal, tokenizer)
    before = ours(ids_of(tokenizer)).detach()
    names = set(ours.model.state_dict())
    ours.adapt(LoraConfig(rank=2, alpha=8))
    assert torch.equal(ours(ids_of(tokenizer)), before), "a fresh adapter changes nothing"
    ours(ids_of(tokenizer)).sum().backward()
    with_gradient = {p.data_ptr() for p in ours.parameters() if p.grad is not None}
    assert with_gradient == {p.data_ptr() for p in ours.trained_parameters()}
    assert len(with_gradient) == 2 * 2 * {"GPT2": 4, "Llama": 7}[family] + 1
    with torch.no_grad():
        for parameter in ours.adapter.parameters():
            parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    expected = ours(ids_of(tokenizer)).detach()
    assert not torch.allclose(expected, before, atol=0.01)
    ours.save(tokenizer, tmp_path / "rm")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    assert set(theirs.state_dict()) == names
    torch.testing.assert_close(RewardModel(theirs)(ids_of(tokenizer)), expected, rtol=0, atol=1e-4)


def test_the_reward_stands_at_the_last_token_whatever_stands_beside_it(make_model, tokenizer):
    model = RewardModel.from_causal(make_model("Llama"), tokenizer)
    alone = torch.cat([model([ids]) for ids in ids_of(tokenizer)])
    torch.testing.assert_close(model(ids_of(tokenizer)), alone)
    hidden = model.model.base_model(torch.tensor([ids_of(tokenizer)[0]])).last_hidden_state
    torch.testing.assert_close(alone[:1], (hidden @ model.model.score.weight.T)[0, -1])


def test_the_backbone_is_the_language_models(make_model, tokenizer):
    causal = make_model("GPT2")
    model = RewardModel.from_causal(causal, tokenizer)
    text = torch.tensor([[1, 2, END]])
    theirs = causal.base_model(text).last_hidden_state
    assert torch.equal(model.model.base_model(text).last_hidden_state, theirs)


def test_a_pad_that_is_the_end_mark_gives_way_to_one_of_its_own(make_model, tokenizer):
    assert tokenizer.pad_token_id == END
    model = RewardModel.from_causal(make_model("GPT2"), tokenizer)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == (PAD, 13)
    assert tokenizer.encode("1;") == [1, END]
    assert model.model.config.pad_token_id == 13
    assert model.model.get_input_embeddings().num_embeddings == 14


def test_a_pad_of_its_own_stays(make_model, tokenizer):
    tokenizer.pad_token = "+"
    model = RewardModel.from_causal(make_model("GPT2"), tokenizer)
    assert model.model.config.pad_token_id == tokenizer.pad_token_id == 10
    assert model.model.get_input_embeddings().num_embeddings == 13


def test_the_heads_initial_deviation(tokenizer):
    """1/√(d + 1) with d = 1023: 1/32."""
    torch.manual_seed(0)
    causal = tiny_gpt2(13, END, seed=0, layers=1, width=1023, heads=1)
    weight = RewardModel.from_causal(causal, tokenizer).model.score.weight
    assert weight.std().item() == pytest.approx(1 / 32, rel=0.1)


def test_centred_models_average_0_on_what_they_were_centred_on(make_model, tokenizer, tmp_path):
    model = RewardModel.from_causal(make_model("Llama"), tokenizer)
    texts = ids_of(tokenizer)
    assert abs(model(texts).mean().item()) > 1e-3
    model.center(model.last_hidden(texts).double().mean(0))
    assert model(texts).mean().item() == pytest.approx(0, abs=1e-6)
    model.save(tokenizer, tmp_path / "rm")
    again = RewardModel(AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm"))
    assert again(texts).mean().item() == pytest.approx(0, abs=1e-6)


def test_a_family_without_a_sequence_classifier_is_refused_by_name(make_model, tokenizer):
    with pytest.raises(ValueError, match="no sequence classifier with a linear head for CohereForCausalLM"):
        RewardModel.from_causal(make_model("Cohere"), tokenizer)


def test_a_critic_can_start_from_a_reward_model(make_model, tokenizer, tmp_path):
    model = RewardModel.from_causal(make_model("GPT2"), tokenizer)
    model.save(tokenizer, tmp_path / "rm")
    text = torch.tensor([[1, 2, END]])
    expected = model.model.base_model(text).last_hidden_state
    assert torch.equal(load_backbone(str(tmp_path / "rm"))(text).last_hidden_state, expected)
