"""Environments of the real verifiers library, where it is installed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("verifiers")

import verifiers as vf
from datasets import Dataset

from taut.tasks.environments.verifiers import from_verifiers

ROWS = [{"question": "Guess.", "answer": "7"}]


class GuessEnv(vf.MultiTurnEnv):
    """Its state lives in a rollout's `state`, and a stop condition of its own ends it."""

    async def setup_state(self, state: vf.State) -> vf.State:
        state["guesses"] = 0
        return state

    @vf.stop
    async def guessed(self, state: vf.State) -> bool:
        return any(answer in said(state) for answer in [state["answer"]])

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs: Any) -> vf.Messages:
        state["guesses"] += 1
        if messages[-1].content == "crash":
            raise KeyError("crashed")
        if messages[-1].content == "fail":
            raise vf.ToolError("out of order")
        return [vf.UserMessage(content=f"Wrong, {state['guesses']} so far.")]

    @vf.cleanup
    async def note(self, state: vf.State) -> None:
        cleaned.append(state["guesses"])


cleaned: list[int] = []


def said(state: vf.State) -> str:
    return "".join(step["completion"][-1].content for step in state["trajectory"])


async def right(completion: vf.Messages, answer: str) -> float:
    return float(completion[-1]["content"] == answer)


async def turns(state: vf.State) -> float:
    return float(len(state["trajectory"]))


def guessing(**more: Any) -> vf.Environment:
    rubric = vf.Rubric(funcs=[right, turns], weights=[1.0, -0.1])
    return GuessEnv(dataset=Dataset.from_list(ROWS), system_prompt="Play.", rubric=rubric, **more)


def rows_of(environment: vf.Environment) -> list[dict[str, Any]]:
    return environment.get_dataset().to_list()


runners: list[asyncio.Runner] = []


@pytest.fixture(autouse=True)
def _end_open_episodes() -> Iterator[None]:
    yield
    while runners:
        runners.pop().close()


class Episode:
    """Steps each in a run of the loop of their own, as the environment's process does."""

    def __init__(self, load: Any) -> None:
        self.runner = asyncio.Runner()
        runners.append(self.runner)
        self.environment = from_verifiers(load)()
        self.opening = self.run(self.environment.reset(rows_of(load())[0]))

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    def step(self, reply: str) -> Any:
        return self.run(self.environment.step(reply))


def test_an_episode_is_a_rollout_of_the_environments_own():
    episode = Episode(guessing)
    assert episode.opening == [
        {"role": "system", "content": "Play."},
        {"role": "user", "content": "Guess."},
    ]
    assert episode.step("3") == ([{"role": "user", "content": "Wrong, 1 so far."}], 0.0)
    assert episode.step("4") == ([{"role": "user", "content": "Wrong, 2 so far."}], 0.0)
    done, reward = episode.step("7")
    assert done is None
    assert reward == pytest.approx(1.0 - 0.1 * 3)
    assert episode.environment.logged == {"right": 1.0, "turns": 3.0, "num_turns": 3.0}
    assert cleaned[-1] == 2


def test_the_environments_own_limit_ends_the_episode_with_its_score():
    episode = Episode(lambda: guessing(max_turns=2))
    assert episode.step("3")[0] is not None
    assert episode.step("4") == (None, pytest.approx(-0.2))


def test_an_episode_that_was_cut_is_scored_as_far_as_it_went():
    episode = Episode(guessing)
    episode.step("3")
    assert episode.run(episode.environment.cut(None)) == pytest.approx(-0.1)
    episode = Episode(guessing)
    episode.step("3")
    assert episode.run(episode.environment.cut("7")) == pytest.approx(1.0 - 0.2)


def test_closing_ends_the_rollout_and_cleans_up():
    episode = Episode(guessing)
    episode.step("3")
    before = len(cleaned)
    episode.environment.close()
    episode.run(asyncio.sleep(0.01))
    assert cleaned[before:] == [1]


def test_what_the_environment_raises_is_raised_and_never_a_reward():
    with pytest.raises(KeyError, match="crashed"):
        Episode(guessing).step("crash")
    with pytest.raises(RuntimeError, match=r"the environment failed: .*out of order"):
        Episode(guessing).step("fail")


def test_an_environment_that_ends_at_once_is_told():
    class Closed(GuessEnv):
        @vf.stop
        async def closed(self, state: vf.State) -> bool:
            return True

    with pytest.raises(ValueError, match=r"paid 0.0 before it asked"):
        Episode(lambda: Closed(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[turns])))


def test_an_object_that_was_only_asked_for_its_tools_can_be_closed():
    from_verifiers(calculating)().close()


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def calculating() -> vf.Environment:
    rubric = vf.Rubric(funcs=[right])
    return vf.ToolEnv(dataset=Dataset.from_list(ROWS), tools=[add], rubric=rubric)


def test_tools_are_called_by_the_environment():
    episode = Episode(calculating)
    assert [tool["function"]["name"] for tool in episode.environment.tools] == ["add"]
    assert episode.environment.tools[0]["function"]["parameters"]["required"] == ["a", "b"]
    told, _ = episode.step(
        f"<tool_call>{json.dumps({'name': 'add', 'arguments': {'a': 3, 'b': 4}})}</tool_call>"
    )
    assert [(message["role"], message["content"]) for message in told] == [("tool", "7")]
    assert episode.step("7") == (None, 1.0)
    assert episode.environment.logged["add_calls"] == 1.0


def test_a_malformed_call_is_text_which_ends_the_episode_of_a_tool_environment():
    assert Episode(calculating).step('<tool_call>{"name": "add"') == (None, 0.0)


def test_an_environment_that_writes_the_conversation_anew_is_refused():
    class Forgetful(GuessEnv):
        async def get_prompt_messages(self, state: vf.State) -> vf.Messages:
            return [vf.UserMessage(content=f"Turn {len(state['trajectory'])}.")]

    episode = Episode(lambda: Forgetful(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[right])))
    with pytest.raises(ValueError, match=r"only environments that add messages"):
        episode.step("3")


def test_what_cannot_be_loaded_is_told():
    def compare(completions: list[Any]) -> list[float]:
        return [0.0 for _ in completions]

    with pytest.raises(ValueError, match=r"returned a int, not an environment"):
        from_verifiers(lambda: 3)()
    with pytest.raises(ValueError, match=r"compares the replies"):
        from_verifiers(
            lambda: vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[compare]))
        )()
