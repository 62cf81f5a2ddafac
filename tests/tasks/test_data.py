"""Rows in, prompts out."""

from __future__ import annotations

import copy

import pytest

from taut.config import DataConfig
from taut.models.tiny import character_tokenizer
from taut.tasks.data import column_of, completion_ids, hold_out, make_prompts
from taut.types import Prompt

Q4 = DataConfig(prompt_column="q", max_prompt_tokens=4)


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = character_tokenizer("0123456789+=;", ";")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}={% endif %}"
    )
    return tokenizer


def test_a_column():
    assert column_of([{"q": "a"}, {"q": 2, "n": 1}], "q", "file") == ["a", 2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "b", "answer": 1}, r"f, row 2 has no column 'q'; its columns are: question, answer"),
        ({}, r"f, row 2 has no column 'q'; its columns are: none"),
    ],
)
def test_a_missing_column_is_named_beside_those_there_are(row, message):
    with pytest.raises(ValueError, match=message):
        column_of([{"q": "a"}, row], "q", "f")


def test_prompts_keep_their_order_and_hand_on_every_other_column(tokenizer):
    rows = [{"q": "1+2=", "answer": "3", "level": 1}, {"q": "4", "answer": None}]
    first, second = make_prompts(rows, tokenizer, Q4, "f")
    assert (first.index, first.text, first.ids) == (0, "1+2=", (1, 10, 2, 11))
    assert first.columns == {"answer": "3", "level": 1}
    assert first.messages is None, "a model with a chat template takes a text as it is"
    assert (second.index, second.ids, second.columns) == (1, (4,), {"answer": None})


def test_conversations_are_rendered_and_kept(tokenizer):
    user, prefix = {"role": "user", "content": "1+2"}, {"role": "assistant", "content": "="}
    first, second = make_prompts([{"q": [user]}, {"q": [user, prefix]}], tokenizer, Q4, "f", first_index=5)
    assert (first.index, first.text, first.ids, first.messages) == (5, "1+2=", (1, 10, 2, 11), (user,))
    assert (second.index, second.text, second.messages) == (6, "1+2=", (user, prefix))
    assert first.columns == {}


def test_the_template_gets_the_arguments_of_its_row(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template += "{{ '0' if think is false }}"
    user = [{"role": "user", "content": "1+2"}]
    rows = [
        {"q": user, "chat_template_kwargs": {"think": False}},
        {"q": user, "chat_template_kwargs": None},
        {"q": user},
    ]
    wide = Q4.model_copy(update={"max_prompt_tokens": 9})
    assert [p.text for p in make_prompts(rows, tokenizer, wide, "f")] == ["1+2=0", "1+2=", "1+2="]


def test_a_text_becomes_a_conversation_on_request(tokenizer):
    (prompt,) = make_prompts([{"q": "1+2"}], tokenizer, Q4.model_copy(update={"as_chat": True}), "f")
    assert (prompt.text, prompt.messages) == ("1+2=", ({"role": "user", "content": "1+2"},))


@pytest.mark.parametrize("value", [3, None, {"role": "user"}])
def test_a_prompt_that_is_neither_text_nor_messages_is_named(tokenizer, value):
    with pytest.raises(ValueError, match="f, row 1: the prompt must be text or a list of messages, not "):
        make_prompts([{"q": value}], tokenizer, Q4, "f")


def test_a_prompt_over_the_limit_is_an_error_or_left_out_and_never_cut(tokenizer):
    rows = [{"q": "1234"}, {"q": "12345"}, {"q": "1", "n": 7}]
    with pytest.raises(
        ValueError, match=r"f, row 2: the prompt has 5 tokens, more than .*max_prompt_tokens = 4"
    ):
        make_prompts(rows, tokenizer, Q4, "f")
    kept = make_prompts(rows, tokenizer, Q4.model_copy(update={"long_prompts": "skip"}), "f")
    assert [(p.index, p.text, dict(p.columns)) for p in kept] == [(0, "1234", {}), (2, "1", {"n": 7})]


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("3", "3;"),
        ([{"role": "assistant", "content": "3"}], "3;"),  # the template writes no end mark
        ([{"role": "assistant", "content": "3;=="}], "3;"),  # or more than that
        ([{"role": "assistant", "content": "3;4;=="}], "3;4;"),
    ],
)
def test_a_reply_to_learn_ends_with_the_end_mark(tokenizer, completion, text):
    (prompt,) = make_prompts([{"q": [{"role": "user", "content": "1+2"}]}], talking(tokenizer), Q4, "f")
    assert tokenizer.decode(completion_ids(talking(tokenizer), prompt, completion, "f, row 1")) == text


def talking(tokenizer):
    """The same, with a template that marks where the assistant speaks."""
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '=' if m.role == 'assistant' else '' }}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}={% endif %}"
    )
    return tokenizer


@pytest.mark.parametrize(
    ("prompt", "completion", "message"),
    [
        ("1", [{"role": "assistant", "content": "3"}], "completion is a conversation and the prompt is text"),
        (
            [{"role": "user", "content": "1"}],
            [{"role": "assistant", "content": "?"}, {"role": "tool", "content": "2"}],
            "holds a message of role tool, .* write a row for each turn of the assistant's",
        ),
        ("1", None, "f, row 1: the completion must be text or a list of messages, not NoneType"),
    ],
)
def test_what_is_no_reply_to_learn_is_named(tokenizer, prompt, completion, message):
    (made,) = make_prompts([{"q": prompt}], talking(tokenizer), Q4, "f")
    with pytest.raises(ValueError, match=message):
        completion_ids(talking(tokenizer), made, completion, "f, row 1")


@pytest.mark.parametrize(("part", "count"), [(3, 3), (0.25, 2), (0.3, 3), (0.01, 1)])
def test_prompts_are_held_out_by_number_or_share(part, count):
    prompts = [Prompt(10 * i, "", (i,)) for i in range(10)]
    training, held_out = hold_out(prompts, part, seed=3)
    assert len(held_out) == count
    assert sorted([*training, *held_out], key=lambda p: p.index) == prompts
    assert [p.index for p in training] == sorted(p.index for p in training)
    assert hold_out(prompts, part, seed=3) == (training, held_out)
    draws = {tuple(p.index for p in hold_out(prompts, part, seed)[1]) for seed in range(20)}
    assert len(draws) > 5


@pytest.mark.parametrize("part", [10, 11, 0.96])
def test_something_is_left_to_train_on(part):
    with pytest.raises(ValueError, match=rf"data.held_out = {part} leaves none of the 10 rows"):
        hold_out([Prompt(i, "", (i,)) for i in range(10)], part, seed=0)
