"""Preference pairs from rows; every mistake names its row."""

from __future__ import annotations

import pytest

from taut.config import DataConfig
from taut.models.tiny import character_tokenizer
from taut.tasks.preferences import PreferencePair, make_pairs

GOOD = {"prompt": "1+2=", "chosen": "3", "rejected": "12"}


@pytest.fixture
def tokenizer():
    return character_tokenizer("0123456789+=;", ";")


def pairs_of(tokenizer, *rows, **settings):
    return make_pairs(rows, tokenizer, DataConfig(path="pairs.jsonl", **settings), "pairs.jsonl")


def test_replies_end_with_the_end_mark_and_the_margin_is_optional(tokenizer):
    plain, with_margin = pairs_of(tokenizer, GOOD, {**GOOD, "margin": 2})
    assert plain == PreferencePair((1, 10, 2, 11), (3, 12), (1, 2, 12), margin=0.0)
    assert with_margin.margin == 2.0
    assert plain.texts == ([1, 10, 2, 11, 3, 12], [1, 10, 2, 11, 1, 2, 12])
    assert plain.length == 7


def test_prompts_that_are_too_long_can_be_skipped(tokenizer):
    long, short = {**GOOD, "prompt": "1+1+1+1="}, {**GOOD, "chosen": "7"}
    [pair] = pairs_of(tokenizer, long, short, max_prompt_tokens=5, long_prompts="skip")
    assert pair.chosen_ids == (7, 12)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "1=", "chosen": "1"}, "row 2 has no column 'rejected'; its columns are: prompt, chosen"),
        (
            {**GOOD, "chosen": 3},
            "row 2: the completion must be text or a list of messages, not int",
        ),
        ({**GOOD, "margin": "2"}, "row 2: column 'margin' must be a finite number, not '2'"),
        ({**GOOD, "margin": True}, "not True"),
        ({**GOOD, "margin": float("nan")}, "not nan"),
        (
            {**GOOD, "prompt": "1+1+1+1="},
            "row 2: the prompt has 8 tokens, more than data.max_prompt_tokens = 5",
        ),
    ],
)
def test_mistakes(tokenizer, row, message):
    with pytest.raises(ValueError, match=message):
        pairs_of(tokenizer, GOOD, row, max_prompt_tokens=5)


def test_a_tokenizer_without_an_end_is_refused(tokenizer):
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end-of-sequence token"):
        pairs_of(tokenizer, GOOD)
