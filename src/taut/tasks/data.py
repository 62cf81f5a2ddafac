"""Prompts made from rows of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from taut.config import DataConfig
from taut.models.tokens import check_messages, encode, render_chat, render_reply
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.sources import Row
from taut.types import Prompt

Item = TypeVar("Item")
CHARACTERS_A_TOKEN = 256
"""No vocabulary in use has a longer token; their longest are runs of 128 spaces."""


def column_of(rows: Sequence[Row], column: str, path: str) -> list[Any]:
    """One column. Raises ValueError naming the first row without it and the columns there are."""
    for number, row in enumerate(rows, 1):
        if column not in row:
            raise ValueError(
                f"{path}, row {number} has no column {column!r}; its columns are: {', '.join(row) or 'none'}"
            )
    return [row[column] for row in rows]


def make_prompt(
    tokenizer: PreTrainedTokenizerBase,
    value: Any,
    where: str,
    index: int = 0,
    as_chat: bool = False,
    columns: Mapping[str, Any] | None = None,
    tools: Sequence[Any] | None = None,
) -> Prompt:
    """A text is taken as it is, or with `as_chat` as a user's message; messages go through the chat template.

    The template gets the arguments that a column `chat_template_kwargs` holds, as in TRL, and the `tools`.

    Raises ValueError naming the row where the value is neither, or the tokenizer cannot write it.
    """
    if isinstance(value, str) and not as_chat:
        return Prompt(index, value, encode(tokenizer, value, where), columns or {})
    messages = check_messages(
        [{"role": "user", "content": value}] if isinstance(value, str) else value, f"{where}: the prompt"
    )
    if not isinstance((columns or {}).get("chat_template_kwargs") or {}, Mapping):
        raise ValueError(
            f"{where}: chat_template_kwargs must be an object of the template's arguments, or null"
        )
    text = render_chat(tokenizer, messages, where, template_arguments(columns or {}, tools))
    return Prompt(index, text, encode(tokenizer, text, where), columns or {}, tuple(messages))


def template_arguments(columns: Mapping[str, Any], tools: Sequence[Any] | None = None) -> Mapping[str, Any]:
    own = columns.get("chat_template_kwargs") or {}
    return own if tools is None else {"tools": list(tools), **own}


def make_prompts(
    rows: Sequence[Row],
    tokenizer: PreTrainedTokenizerBase,
    data: DataConfig,
    path: str,
    first_index: int = 0,
    environment: EnvironmentHost | None = None,
) -> list[Prompt]:
    """Prompts in the order of the rows, their indices from `first_index`; other columns are kept for the reward.

    An environment makes the prompts of the whole rows.

    Fewer than the rows only where some are longer than `data.max_prompt_tokens` and `data.long_prompts` is `skip`.
    Raises ValueError naming the row where a prompt is missing, is neither text nor messages, or is too long.
    """
    prompts, tools = [], None
    if environment is None:
        values = column_of(rows, data.prompt_column, path)
    else:
        values, tools = environment.openings(rows, path), environment.tools
    for number, (row, value) in enumerate(zip(rows, values, strict=True), 1):
        where = f"{path}, row {number}"
        columns = {key: other for key, other in row.items() if key != data.prompt_column}
        if not fits(fewest_tokens(value), data, where, "at least "):
            continue
        prompt = make_prompt(tokenizer, value, where, first_index + number - 1, data.as_chat, columns, tools)
        if environment is not None:
            prompt = replace(prompt, row=row)
        if fits(len(prompt.ids), data, where):
            prompts.append(prompt)
    return prompts


def fewest_tokens(value: Any) -> int:
    """How many a prompt has at the least, known without waiting for a tokenizer to read megabytes."""
    messages = value if isinstance(value, list) else [{"content": value}]
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return sum(len(content) for content in contents if isinstance(content, str)) // CHARACTERS_A_TOKEN


def fits(tokens: int, data: DataConfig, where: str, at_least: str = "") -> bool:
    """Whether a prompt is within the limit. Raises ValueError where not, unless such prompts are skipped."""
    if tokens <= data.max_prompt_tokens:
        return True
    if data.long_prompts == "skip":
        return False
    raise ValueError(
        f"{where}: the prompt has {at_least}{tokens} tokens, more than data.max_prompt_tokens = "
        f"{data.max_prompt_tokens}; raise the limit, remove the row, or set data.long_prompts to skip"
    )


def completion_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, value: Any, where: str
) -> tuple[int, ...]:
    """A reply to learn, up to and with its end-of-sequence token: a text, or messages that go on from the prompt's.

    Raises ValueError where it is neither, where messages follow a prompt that is a text, and where one of them is not
    the assistant's.
    """
    end = tokenizer.eos_token_id
    if isinstance(value, str):
        return (*tokenizer.encode(value, add_special_tokens=False), end)
    reply = check_messages(value, f"{where}: the completion")
    if prompt.messages is None:
        raise ValueError(
            f"{where}: the completion is a conversation and the prompt is text: make both the same"
        )
    if others := [message["role"] for message in reply if message["role"] != "assistant"]:
        raise ValueError(
            f"{where}: the completion holds a message of role {others[0]}, which would be learned as the model's own "
            "words: write a row for each turn of the assistant's, with all that came before it as the prompt"
        )
    text = render_reply(tokenizer, prompt.messages, reply, where, template_arguments(prompt.columns))
    ids = tokenizer.encode(text, add_special_tokens=False)
    # Templates write a line break or more behind the end of the turn, which a sampler never gets to.
    return (*ids[: len(ids) - ids[::-1].index(end)],) if end in ids else (*ids, end)


def hold_out(rows: Sequence[Item], part: float | int, seed: int) -> tuple[list[Item], list[Item]]:
    """(to train on, held out): `part` is a number of rows, or below 1 a share of them, rounded, at least one.

    Both keep their order. Raises ValueError where nothing would be left to train on.
    """
    count = part if isinstance(part, int) else max(1, round(part * len(rows)))
    if count >= len(rows):
        raise ValueError(f"data.held_out = {part} leaves none of the {len(rows)} rows to train on")
    chosen = set(np.random.default_rng([seed, 4]).permutation(len(rows))[:count].tolist())
    training = [row for place, row in enumerate(rows) if place not in chosen]
    return training, [row for place, row in enumerate(rows) if place in chosen]
