"""JSONL in, prompts out; every mistake names its line and what would be right."""

from __future__ import annotations

import pytest

from taut.models.tiny import character_tokenizer
from taut.tasks.data import encode, make_prompts, read_jsonl, text_column


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "rows.jsonl"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer("0123456789+=;", ";")


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])  # with and without a byte-order mark
def test_one_object_a_line(write, start):
    content = start + '{"prompt": "1+1=", "n": 2}\r\n\n  \n{"prompt": "ü", "deep": {"a": [1]}}'.encode()
    assert read_jsonl(write(content)) == [{"prompt": "1+1=", "n": 2}, {"prompt": "ü", "deep": {"a": [1]}}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no rows"),
        ("\n \n", "holds no rows"),
        ('{"a": 1}\n\n{"a": 1', r"rows\.jsonl, line 3 is not JSON"),
        ('{"a": 1}\n[1]', r"rows\.jsonl, line 2 must be a JSON object, not a list"),
        ('"text"', r"line 1 must be a JSON object, not a str"),
        (b'{"a": 1}\n{"a": "\xff"}', r"line 2 is not UTF-8: invalid start byte at byte 7"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_jsonl(write(content))


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"data file nowhere\.jsonl does not exist"):
        read_jsonl("nowhere.jsonl")


def test_a_column_of_text():
    assert text_column([{"q": "a"}, {"q": "b", "n": 1}], "q", "file") == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "b", "answer": 1}, r"f, row 2 has no column 'q'; its columns are: question, answer"),
        ({}, r"f, row 2 has no column 'q'; its columns are: none"),
        ({"q": 3}, r"f, row 2: column 'q' must be text, not int"),
        ({"q": None}, r"f, row 2: column 'q' must be text, not NoneType"),
    ],
)
def test_a_missing_column_is_named_beside_those_there_are(row, message):
    with pytest.raises(ValueError, match=message):
        text_column([{"q": "a"}, row], "q", "f")


def test_prompts_keep_their_order_and_hand_on_every_other_column(tokenizer):
    rows = [{"q": "1+2=", "answer": "3", "level": 1}, {"q": "4", "answer": None}]
    first, second = make_prompts(rows, tokenizer, "q", 4, "f")
    assert (first.index, first.text, first.ids) == (0, "1+2=", (1, 10, 2, 11))
    assert first.columns == {"answer": "3", "level": 1}
    assert (second.index, second.ids, second.columns) == (1, (4,), {"answer": None})


def test_a_prompt_over_the_limit_is_an_error_and_never_cut(tokenizer):
    with pytest.raises(
        ValueError, match=r"f, row 2: the prompt has 5 tokens, more than .*max_prompt_tokens = 4"
    ):
        make_prompts([{"q": "1234"}, {"q": "12345"}], tokenizer, "q", 4, "f")


def test_text_the_tokenizer_cannot_write_is_shown(tokenizer):
    with pytest.raises(ValueError, match=r"row 1: the model's tokenizer cannot encode 'hello'"):
        encode(tokenizer, "hello", "row 1")


def test_an_empty_prompt_is_refused(tokenizer):
    with pytest.raises(ValueError, match="row 1 is empty: a prompt needs at least one token"):
        encode(tokenizer, "", "row 1")
