"""TRL's environment classes, written as in its documentation."""

from __future__ import annotations

import json
import math
from typing import Any

import cloudpickle
import pytest

from taut.tasks.environments.trl import from_trl


class GuessEnv:
    """A number to guess: state, a tool that raises when the game is over, a reward to read."""

    def __init__(self) -> None:
        self.reward = 0.0

    def reset(self, number: int, **kwargs: Any) -> str | None:
        self.number, self.reward, self._done = number, 0.0, False
        return " It is below 10."

    def guess(self, guess: int) -> str:
        """
        Guess the number.

        Args:
            guess: The number guessed.

        Returns:
            Whether it is the one.
        """
        if self._done:
            raise ValueError("Game over.")
        self._done = guess == self.number
        self.reward = 1.0 if self._done else self.reward - 0.25
        return "Right." if self._done else "Wrong."

    async def hint(self) -> str:
        """
        Ask for a hint.
        """
        return "even" if self.number % 2 == 0 else "odd"

    @property
    def broken(self) -> str:
        raise AssertionError("a property is no tool, and must not be read")

    def _private(self) -> None: ...


def reward_func(environments: list[GuessEnv], **kwargs: Any) -> list[float]:
    return [env.reward for env in environments]


ROW = {"prompt": [{"role": "user", "content": "Guess."}], "number": 7}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def play(environment: Any, *replies: str) -> list[Any]:
    return [environment.step(reply) for reply in replies]


def opened(reward: Any = reward_func, row: dict[str, Any] = ROW, factory: Any = GuessEnv, **more: Any) -> Any:
    environment = from_trl(factory, reward, **more)()
    environment.reset(row)
    return environment


def test_the_text_of_reset_goes_behind_the_last_message():
    environment = from_trl(GuessEnv, reward_func)()
    assert environment.reset(ROW) == [{"role": "user", "content": "Guess. It is below 10."}]
    assert ROW["prompt"] == [{"role": "user", "content": "Guess."}]  # the row is not changed


@pytest.mark.parametrize(
    ("columns", "opening"), [({"prompt": "Guess."}, "Guess. It is below 10."), ({}, " It is below 10.")]
)
def test_a_text_is_a_message_of_the_users_and_may_be_missing(columns, opening):
    environment = from_trl(GuessEnv, reward_func)()
    assert environment.reset({"number": 7, **columns}) == [{"role": "user", "content": opening}]


def test_public_methods_and_functions_beside_them_are_the_tools():
    def double(number: int) -> int:
        """
        Double it.

        Args:
            number: What to double.
        """
        return 2 * number

    environment = opened(tools=[double])
    assert [tool["function"]["name"] for tool in environment.tools] == ["double", "guess", "hint"]
    assert environment.tools[1]["function"]["parameters"] == {
        "type": "object",
        "properties": {"guess": {"type": "integer", "description": "The number guessed."}},
        "required": ["guess"],
    }
    assert play(environment, call("double", number=4))[0][0][0]["content"] == "8"


def test_an_episode_ends_and_is_scored_where_a_turn_calls_no_tool():
    turns = play(opened(), call("guess", guess=3), call("guess", guess=7), "It is 7.")
    assert turns == [
        ([{"role": "tool", "name": "guess", "content": "Wrong."}], 0.0),
        ([{"role": "tool", "name": "guess", "content": "Right."}], 0.0),
        (None, 1.0),
    ]


def test_several_calls_of_a_turn_are_answered_in_their_order():
    messages, _ = play(opened(), call("hint") + "\n" + call("guess", guess=7))[0]
    assert [message["content"] for message in messages] == ["odd", "Right."]


@pytest.mark.parametrize(
    ("reply", "name", "error"),
    [
        (call("guess", guess=7) + call("guess", guess=7), "guess", "Game over."),
        (call("fly"), "fly", "Tool fly not found."),
        (call("reset", number=1), "reset", "Tool reset not found."),
        (call("_private"), "_private", "Tool _private not found."),
        (call("guess"), "guess", "missing 1 required positional argument"),
        ('<tool_call>{"name": "guess", "arguments": [7]}</tool_call>', "guess", "must be a mapping"),
        ('<tool_call>{"name": "guess"</tool_call>', "unknown", "JSON"),
    ],
)
def test_what_fails_is_told_to_the_model_and_the_episode_goes_on(reply, name, error):
    environment = opened()
    (messages, reward), ending = play(environment, reply, "Well.")
    assert messages[-1]["role"] == "tool"
    assert messages[-1]["name"] == name
    assert messages[-1]["content"].startswith("{'error': ")
    assert error in messages[-1]["content"]
    assert reward == 0.0
    assert ending[0] is None
    assert environment.logged["tool_failures"] == 1


def test_reward_functions_are_given_what_trl_gives_them_as_lists_of_one():
    seen: dict[str, Any] = {}

    async def watch(prompts, completions, environments, log_metric, log_extra, number, **kwargs):
        seen.update(prompts=prompts, completions=completions, environments=environments, number=number)
        seen.update(others=kwargs)
        log_metric("turns", 2)
        log_extra("note", ["kept nowhere"])
        return [0.5]

    environment = opened({watch: 2.0, reward_func: 1.0})
    assert play(environment, "So. " + call("guess", guess=3), "No idea.")[1] == (None, 2.0 * 0.5 - 0.25)
    assert seen["prompts"] == [[{"role": "user", "content": "Guess. It is below 10."}]]
    calls = [{"type": "function", "function": {"name": "guess", "arguments": {"guess": 3}}}]
    assert seen["completions"] == [
        [
            {"role": "assistant", "content": "So.", "tool_calls": calls},
            {"role": "tool", "name": "guess", "content": "Wrong."},
            {"role": "assistant", "content": "No idea."},
        ]
    ]
    assert isinstance(seen["environments"][0], GuessEnv)
    assert seen["number"] == [7]
    assert seen["others"] == {}
    assert environment.logged == {
        "tool_calls": 1,
        "tool_failures": 0,
        "turns": 2.0,
        "watch": 0.5,
        "reward_func": -0.25,
    }


def test_an_environment_may_pay_itself():
    class Paying(GuessEnv):
        def get_reward(self) -> float:
            return self.reward

    environment = opened(None, factory=Paying)
    assert [tool["function"]["name"] for tool in environment.tools] == ["guess", "hint"]
    assert play(environment, call("guess", guess=7), "7")[1] == (None, 1.0)
    beside = opened({reward_func: 0.5}, factory=Paying)
    assert play(beside, call("guess", guess=7), "7")[1] == (None, 1.5)


def test_an_episode_that_was_cut_is_scored_as_it_stands():
    def length(completions: list[Any], **kwargs: Any) -> list[float]:
        return [len(completions[0][-1]["content"])]

    whole, in_a_turn = opened({reward_func: 1.0, length: 10.0}), opened({reward_func: 1.0, length: 10.0})
    play(whole, call("guess", guess=3))
    assert whole.cut(None) == -0.25 + 10.0 * len("Wrong.")
    assert in_a_turn.cut(call("guess", guess=7)[:9]) == 0.0 + 10.0 * 9


def test_none_is_left_out_of_the_sum_and_nan_where_nothing_is_left():
    def silent(**kwargs: Any) -> list[None]:
        return [None]

    assert play(opened({silent: 1.0, reward_func: 1.0}), "No idea.") == [(None, 0.0)]
    assert math.isnan(play(opened(silent), "No idea.")[0][1])


def test_mistakes_are_told():
    class NoReset: ...

    def greedy(completions, completion_ids, **kwargs):
        return [0.0]

    class Pictures(GuessEnv):
        def reset(self, **kwargs):
            return [{"type": "image"}]

    with pytest.raises(ValueError, match=r"greedy asks for completion_ids"):
        from_trl(GuessEnv, greedy)
    with pytest.raises(ValueError, match=r"NoReset, which has no method reset"):
        from_trl(NoReset, reward_func)()
    with pytest.raises(ValueError, match=r"nothing gives a reward"):
        from_trl(GuessEnv)()
    with pytest.raises(ValueError, match=r"Pictures.reset returned a list"):
        opened(factory=Pictures)
    with pytest.raises(ValueError, match=r"returned 2 numbers for 1 reply"):
        play(opened(lambda **kwargs: [1.0, 2.0]), "No idea.")


def test_it_travels_to_another_process():
    environment = cloudpickle.loads(cloudpickle.dumps(from_trl(GuessEnv, reward_func)))()
    environment.reset(ROW)
    assert play(environment, call("guess", guess=7), "7")[1] == (None, 1.0)
