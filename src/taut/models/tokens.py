"""Texts and conversations as token ids: exactly one start mark, and no end mark behind a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from taut.types import Message

Arguments = Mapping[str, Any]
NONE: Arguments = {}


def encode(tokenizer: PreTrainedTokenizerBase, text: str, where: str) -> tuple[int, ...]:
    """Token ids with what the tokenizer puts before a text, such as a BOS, exactly once, and nothing behind it.

    A text that begins with its BOS already, as rendered chats do, gets no second one. A tokenizer that ends every
    text with an EOS does not end a prompt: the reply would begin after the end.
    Raises ValueError where the tokenizer cannot write the text, or writes nothing.
    """
    try:
        bare = tokenizer.encode(text, add_special_tokens=False)
        marked = tokenizer.encode(text)
    except Exception as error:  # tokenizers raises bare Exceptions for text outside its vocabulary
        raise ValueError(f"{where}: the model's tokenizer cannot encode {text[:80]!r}: {error}") from error
    if not bare:
        raise ValueError(f"{where} is empty: a prompt needs at least one token")
    before = _marks_before(bare, marked)
    return tuple(bare if bare[: len(before)] == before else before + bare)


def _marks_before(bare: list[int], marked: list[int]) -> list[int]:
    """What `marked` has in front of `bare`."""
    for start in range(len(marked) - len(bare) + 1):
        if marked[start : start + len(bare)] == bare:
            return marked[:start]
    return []


def render_chat(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], where: str, arguments: Arguments = NONE
) -> str:
    """The conversation as text, up to where the model is to speak.

    A last message of the assistant's is a prefix that the model goes on from; otherwise the template's generation
    prompt opens its turn. `arguments` are the template's own.
    Raises ValueError where there is no template, or it refuses the messages.
    """
    prefilled = messages[-1]["role"] == "assistant"
    ending = {"add_generation_prompt": not prefilled, "continue_final_message": prefilled}
    return _apply_template(tokenizer, messages, where, {**arguments, **ending})


def render_reply(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    reply: Sequence[Message],
    where: str,
    arguments: Arguments = NONE,
) -> str:
    """What the template writes behind `render_chat(messages)` where `reply` follows them: the end of turn, too.

    Raises ValueError where it writes the messages otherwise once a reply follows, so that there is no such text.
    """
    whole = _apply_template(tokenizer, [*messages, *reply], where, arguments)
    prompt = render_chat(tokenizer, messages, where, arguments)
    if not whole.startswith(prompt):
        raise ValueError(
            f"{where}: the model's chat template writes a prompt otherwise once a reply follows it: "
            "write the completion as text"
        )
    return whole.removeprefix(prompt)


def _apply_template(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], where: str, arguments: Arguments
) -> str:
    if tokenizer.chat_template is None:
        raise ValueError(
            f"{where} is a conversation, and the model's tokenizer has no chat template: "
            "write prompts as text, or use a model that was trained on conversations"
        )
    template: Any = tokenizer.apply_chat_template  # typed for every other use of it
    try:
        return template(list(messages), **{**arguments, "tokenize": False})
    except (TemplateError, ValueError, TypeError) as error:
        raise ValueError(f"{where}: the model's chat template refuses the messages: {error}") from error


def check_messages(value: object, where: str) -> list[Message]:
    """Raises ValueError where this is no list of messages with text in `role` and something in `content`."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"{where} must be text or a list of messages, not {_kind(value)}")
    for number, message in enumerate(value, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(
                f"{where}: message {number} must be an object with role and content, not {message!r}"
            )
        if not isinstance(message.get("content"), str):
            raise ValueError(
                f"{where}: the content of message {number} must be text, not {_kind(message.get('content'))}"
            )
    return value


def _kind(value: object) -> str:
    return "an empty list" if value == [] else type(value).__name__


MARK = "taut-turn-7c1e"
"""Stands for a turn of the model's where the template's text around it is wanted."""


def observation_ids(
    tokenizer: PreTrainedTokenizerBase,
    conversation: Sequence[Message] | None,
    observation: str | Sequence[Message],
    end_ids: Sequence[int],
    where: str,
    arguments: Arguments = NONE,
) -> tuple[int, ...]:
    """What stands between a turn that the model ended, by an id of `end_ids`, and its next one.

    In a conversation: what is left of the end of the turn, such as a line break, the messages, and the generation
    prompt, as the template writes them behind a stand-in for the turn. No sampled id is decoded for it. Elsewhere:
    the text, with no special tokens.
    Raises ValueError where the template refuses the messages, or does not write a turn as it stands.
    """
    if conversation is None:
        if not isinstance(observation, str):
            raise ValueError(
                f"{where}: the prompt is plain text, so what follows must be text too, not messages"
            )
        return _bare_ids(tokenizer, observation, where)
    messages = as_messages(observation)
    turn: list[Message] = [*conversation, {"role": "assistant", "content": MARK}]
    if conversation[-1]["role"] == "assistant":  # the model went on from it
        turn = [*conversation[:-1], {**conversation[-1], "content": conversation[-1]["content"] + MARK}]
    ended = _behind_mark(_apply_template(tokenizer, turn, where, arguments), where)
    going_on = {**arguments, "add_generation_prompt": True}
    told = _behind_mark(_apply_template(tokenizer, [*turn, *messages], where, going_on), where)
    behind = _bare_ids(tokenizer, told, where)
    end_of_turn = _bare_ids(tokenizer, ended, where)
    ends = [place for place, token in enumerate(end_of_turn) if token in end_ids]
    if not ends:
        return behind
    sampled = end_of_turn[: ends[0] + 1]
    if behind[: len(sampled)] != sampled:
        raise ValueError(
            f"{where}: the model's chat template ends a turn otherwise once messages follow it, so its replies cannot "
            "have several turns"
        )
    return behind[len(sampled) :]


def as_messages(value: str | Sequence[Message]) -> list[Message]:
    """Text in a conversation is a message of the user's."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else list(value)


def _behind_mark(text: str, where: str) -> str:
    if text.count(MARK) != 1:
        raise ValueError(
            f"{where}: the model's chat template does not write a turn of the model's as it stands, so replies cannot "
            "have several turns"
        )
    return text.partition(MARK)[2]


def _bare_ids(tokenizer: PreTrainedTokenizerBase, text: str, where: str) -> tuple[int, ...]:
    try:
        return tuple(tokenizer.encode(text, add_special_tokens=False))
    except Exception as error:  # tokenizers raises bare Exceptions for text outside its vocabulary
        raise ValueError(f"{where}: the model's tokenizer cannot encode {text[:80]!r}: {error}") from error
