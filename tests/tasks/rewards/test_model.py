"""A reward model as a scorer, against transformers' own reading of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from taut.models.reward_model import RewardModel
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END
from taut.tasks.rewards.model import ModelScorer
from taut.types import Prompt, Rollout

TOKENIZER = character_tokenizer(CHARACTERS, END)


def saved(model, folder, tokenizer=TOKENIZER):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()


def llama(**values):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"vocab_size": len(CHARACTERS), "pad_token_id": 12, "eos_token_id": 12, "num_labels": 1}
    return LlamaForSequenceClassification(LlamaConfig(**sizes, **{**ids, **values}))


def gpt2():
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2ForSequenceClassification(
        GPT2Config(**sizes, vocab_size=len(CHARACTERS), pad_token_id=12, num_labels=1)
    )


def reply(prompt, text, truncated=False):
    ids = tuple(TOKENIZER.encode(text + ("" if truncated else END)))
    return Rollout(
        Prompt(0, prompt, tuple(TOKENIZER.encode(prompt))),
        0,
        ids,
        text,
        np.zeros(len(ids), np.float32),
        "length" if truncated else "stop",
    )


REPLIES = [
    reply("1+2=", "3"),
    reply("12+34=", "4600"),
    reply("1+1=", "222222", truncated=True),
    reply("9=", ""),
]


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("tokens", [1, 16, 1000])
def test_it_reads_the_last_token_whatever_the_padding(tmp_path, make, tokens):
    model = saved(make(), tmp_path)
    model.config.pad_token_id = -1  # pad is the end here: transformers would look before it
    with torch.no_grad():
        ids = [torch.tensor([[*r.prompt.ids, *r.ids]]) for r in REPLIES]
        expected = [model(input_ids=row).logits.item() for row in ids]
    scores = ModelScorer("rm", str(tmp_path), TOKENIZER, "cpu", tokens).score(REPLIES, step=1)
    assert [score.reward for score in scores] == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 4) for value in expected}) == len(expected)


def test_one_made_here_scores_as_it_did_when_it_was_made(tmp_path):
    tokenizer = character_tokenizer(CHARACTERS, END)
    causal = tiny_gpt2(len(CHARACTERS), end_id=12, seed=0, width=16, heads=2)
    made = RewardModel.from_causal(causal, tokenizer)
    made.save(tokenizer, tmp_path)
    scorer = ModelScorer("rm", str(tmp_path), TOKENIZER, "cpu", 1000)
    with torch.no_grad():
        expected = made([[*r.prompt.ids, *r.ids] for r in REPLIES]).tolist()
    assert [score.reward for score in scorer.score(REPLIES, step=1)] == pytest.approx(expected, abs=1e-6)


def test_another_vocabulary_reads_the_text(tmp_path):
    other = character_tokenizer("=+" + CHARACTERS.replace("=", "").replace("+", ""), END)
    model = saved(llama(), tmp_path, other)
    model.config.pad_token_id = -1
    texts = ["1+2=3;", "12+34=4600;", "1+1=222222", "9=;"]
    with torch.no_grad():
        expected = [model(input_ids=torch.tensor([other.encode(text)])).logits.item() for text in texts]
    scores = ModelScorer("rm", str(tmp_path), TOKENIZER, "cpu", 1000).score(REPLIES, step=1)
    assert [score.reward for score in scores] == pytest.approx(expected, abs=1e-5)


def test_a_reward_that_is_not_finite_is_a_failure(tmp_path):
    model = saved(llama(), tmp_path)
    torch.nn.init.constant_(model.score.weight, math.nan)
    model.save_pretrained(tmp_path)
    (score,) = ModelScorer("rm", str(tmp_path), TOKENIZER, "cpu", 1000).score(REPLIES[:1], step=1)
    assert (score.scored, score.failures) == (False, {"rm": "gave nan"})


def test_what_is_no_reward_model_is_refused_before_its_weights_load(tmp_path):
    with pytest.raises(ValueError, match=r"reward model .*nowhere: there is no such folder"):
        ModelScorer("rm", str(tmp_path / "nowhere"), TOKENIZER, "cpu", 1000)
    saved(llama(num_labels=3), tmp_path)
    with pytest.raises(ValueError, match="has 3 labels and must have one"):
        ModelScorer("rm", str(tmp_path), TOKENIZER, "cpu", 1000)
