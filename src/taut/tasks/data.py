"""Rows of a JSONL file, and the prompts and examples made from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from taut.types import Prompt

Row = dict[str, Any]


def read_jsonl(path: str) -> list[Row]:
    """One JSON object a line; blank lines are skipped.

    Raises ValueError where the file is missing, empty, or a line is not a JSON object, naming the line.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"data file {path} does not exist")
    with file.open("rb") as lines:
        rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ValueError(f"data file {path} holds no rows")
    return rows


def _row(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error.msg}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object, not a {type(row).__name__}")
    return row


def text_column(rows: Sequence[Row], column: str, path: str) -> list[str]:
    """The texts of one column. Raises ValueError naming the first row without it and the columns there are."""
    for number, row in enumerate(rows, 1):
        if column not in row:
            raise ValueError(
                f"{path}, row {number} has no column {column!r}; its columns are: {', '.join(row) or 'none'}"
            )
        if not isinstance(row[column], str):
            kind = type(row[column]).__name__
            raise ValueError(f"{path}, row {number}: column {column!r} must be text, not {kind}")
    return [row[column] for row in rows]


def encode(tokenizer: PreTrainedTokenizerBase, text: str, where: str) -> tuple[int, ...]:
    """Token ids, with the special tokens the tokenizer puts before a text.

    Raises ValueError where the tokenizer cannot write the text, or writes nothing.
    """
    try:
        ids = tokenizer.encode(text)
    except Exception as error:  # tokenizers raises bare Exceptions for text outside its vocabulary
        raise ValueError(f"{where}: the model's tokenizer cannot encode {text[:80]!r}: {error}") from error
    if not ids:
        raise ValueError(f"{where} is empty: a prompt needs at least one token")
    return tuple(ids)


def make_prompts(
    rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase, column: str, max_tokens: int, path: str
) -> list[Prompt]:
    """Prompts in the order of the rows; every other column is kept for the reward.

    Raises ValueError naming the row where a prompt is missing, is no text, or is longer than `max_tokens`.
    """
    prompts = []
    for index, (row, text) in enumerate(zip(rows, text_column(rows, column, path), strict=True)):
        ids = encode(tokenizer, text, f"{path}, row {index + 1}")
        if len(ids) > max_tokens:
            raise ValueError(
                f"{path}, row {index + 1}: the prompt has {len(ids)} tokens, more than data.max_prompt_tokens = "
                f"{max_tokens}; raise the limit or remove the row"
            )
        columns = {key: value for key, value in row.items() if key != column}
        prompts.append(Prompt(index=index, text=text, ids=ids, columns=columns))
    return prompts
