"""Turns as messages: what is a call, what is not."""

from __future__ import annotations

import pytest

from taut.tasks.environments.tool_calls import parse_turn

TOOLS = [
    {
        "type": "function",
        "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}},
    }
]


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("yes", {"content": "yes"}),
        ("", {"content": ""}),
        (
            '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>',
            {"content": "", "tool_calls": [call("add", a=3)]},
        ),
        (
            'So.\n<tool_call>{"name": "add", "arguments": {"a": 3}}</tool_call>\n'
            '<tool_call>{"name": "end"}</tool_call>',
            {"content": "So.", "tool_calls": [call("add", a=3), call("end")]},
        ),
        (
            '<think>\nmaybe <tool_call>{"name": "add"}</tool_call>\n</think>\n\nno',
            {"reasoning_content": 'maybe <tool_call>{"name": "add"}</tool_call>', "content": "no"},
        ),
    ],
)
def test_a_turn_is_text_thought_and_calls(reply, message):
    assert parse_turn(reply, TOOLS) == {"role": "assistant", **message}


def test_a_thought_that_the_template_opened_holds_no_calls():
    turn = parse_turn(
        'maybe <tool_call>{"name": "add"}</tool_call></think>\n<tool_call>{"name": "end"}</tool_call>', TOOLS
    )
    assert turn["reasoning_content"] == 'maybe <tool_call>{"name": "add"}</tool_call>'
    assert turn["tool_calls"] == [call("end")]


def test_arguments_are_cast_to_the_types_of_the_schema():
    turn = parse_turn('<tool_call>{"name": "add", "arguments": {"a": "3", "note": "3"}}</tool_call>', TOOLS)
    assert turn["tool_calls"] == [call("add", a=3, note="3")]


@pytest.mark.parametrize(
    "text", ['{"name": "add", "arguments": {"a": 3}', "", '["add"]', '{"arguments": {}}', '{"name": 3}']
)
def test_a_call_that_is_no_object_with_a_name_is_refused(text):
    with pytest.raises(ValueError, match=r"JSON"):
        parse_turn(f"<tool_call>{text}</tool_call>", TOOLS)
