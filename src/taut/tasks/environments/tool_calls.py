"""A model's turn as a message, with the tools it calls as Hermes' and Qwen's chat templates teach it to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    from transformers.utils.chat_parsing import parse_response
except ImportError as error:
    raise ImportError(
        "environments of TRL and verifiers need transformers 5.15 or newer: pip install -U transformers"
    ) from error

START = "<|im_start|>assistant\n"
THOUGHT = "<think>"
FORMAT = {
    "start_anchor": START,
    "defaults": {"role": "assistant"},
    "fields": {
        "reasoning_content": {"open": THOUGHT, "close_pattern": r"</think>\s*", "content": "text"},
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"content": "text"},
    },
}
"""transformers' description of `<think>...</think>`, text, and any number of `<tool_call>{json}</tool_call>`."""


def parse_turn(reply: str, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The message: `role`, `content`, and where the turn has them `reasoning_content` and `tool_calls`.

    A call is `{"type": "function", "function": {"name": ..., "arguments": ...}}`, its arguments cast to the types that
    the tools' JSON schemas name: "7" is 7 where an integer is asked for.
    Raises ValueError where a call is no JSON object with a name.
    """
    # Templates for reasoning models open the thought themselves, so that the reply holds its end alone.
    opened = "</think>" in reply and THOUGHT not in reply.partition("</think>")[0]
    message = parse_response(reply, FORMAT, prefix=START + THOUGHT if opened else "", tools=list(tools))
    for call in message.get("tool_calls", ()):
        function = call["function"]
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError("a tool call must be a JSON object with the name of the tool")
        function["arguments"] = function.get("arguments") or {}
    return {**message, "content": message.get("content") or ""}
