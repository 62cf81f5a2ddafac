"""Environments of the verifiers library: its own rollout runs, and asks the policy where it would ask a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, update_wrapper
from typing import Any

from taut.tasks.environments.tool_calls import parse_turn

try:
    from verifiers import Environment
    from verifiers.clients import Client
    from verifiers.errors import OverlongPromptError
    from verifiers.types import Response, ResponseMessage, ToolCall
except ImportError as error:
    raise ImportError(
        "environments of verifiers need its versions 0.2 or 0.3, the last with MultiTurnEnv: "
        "pip install 'taut[verifiers]'"
    ) from error

Message = dict[str, Any]


def from_verifiers(load: Callable[[], Environment]) -> Callable[[], VerifiersEnvironment]:
    """An environment of what `load` returns, a `MultiTurnEnv` such as `load_environment` of an environment's package.

    It is loaded once in each process. Its rubric's score is the reward at the end of the episode, its metrics are
    logged. The rows are its dataset's: `load().get_dataset().save_to_disk(folder)` makes `data.path` of them.
    """
    return update_wrapper(partial(_episode, load), load)


def _episode(load: Callable[[], Environment]) -> VerifiersEnvironment:
    return VerifiersEnvironment(_loaded(load))


@cache
def _loaded(load: Callable[[], Environment]) -> Environment:
    """Raises ValueError where it is no environment, or one whose rubric compares replies."""
    environment = load()
    if not isinstance(environment, Environment):
        raise ValueError(f"{load} returned a {type(environment).__name__}, not an environment of verifiers")
    if environment.requires_group_rollouts:
        raise ValueError(
            "the environment's rubric compares the replies to a prompt, and here each is scored alone: leave out its "
            "functions with parameters such as completions, or states"
        )
    return environment


class Policy(Client):
    """A model client of verifiers whose answers come from outside: `asked` holds prompts, `answers` their replies."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: asyncio.Queue[list[Message]] = asyncio.Queue()
        self.answers: asyncio.Queue[Response | Exception] = asyncio.Queue()

    async def get_response(self, prompt: Sequence[Any], *args: Any, **kwargs: Any) -> Response:
        await self.asked.put([_plain(message) for message in prompt])
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None: ...

    def _unused(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("get_response, which calls these, is written anew")

    setup_client = to_native_tool = to_native_prompt = get_native_response = _unused
    raise_from_native_response = from_native_response = _unused


class VerifiersEnvironment:
    """One rollout of an environment, driven turn by turn."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.tools = [_schema(tool) for tool in environment.tool_defs or ()]
        self.logged: dict[str, float] = {}
        self._policy = Policy()
        self._rollout: asyncio.Future[Any] | None = None
        self._known: list[Message] = []

    async def reset(self, row: Mapping[str, Any]) -> list[Message]:
        """What the rollout asks first: the row's prompt, and what `setup_state` makes of it.

        Raises ValueError where it asks nothing.
        """
        played = self._environment.run_rollout({"example_id": 0, **row}, self._policy, "policy", {})
        self._rollout = asyncio.ensure_future(played)
        opening = await self._asked()
        if opening is None:
            raise ValueError(f"the environment paid {self._reward()} before it asked for a reply")
        self._known = opening
        return opening

    async def step(self, reply: str) -> tuple[list[Message] | None, float]:
        """Raises ValueError where the environment writes the conversation anew, and RuntimeError where it failed."""
        self._policy.answers.put_nowait(_response(reply, self.tools))
        conversation = await self._asked()
        if conversation is None:
            return None, self._reward()
        told = conversation[len(self._known) + 1 :]
        if not told or conversation[: len(self._known)] != self._known:
            raise ValueError(
                "the environment writes anew what was said, or asks twice, and a reply is one growing sequence: "
                "only environments that add messages can be trained in"
            )
        self._known = conversation
        return told, 0.0

    async def cut(self, reply: str | None) -> float:
        """The rubric's score of an episode that a limit ended; the rollout hears that there is no room to go on."""
        if reply is not None:
            self._policy.answers.put_nowait(_response(reply, self.tools, cut=True))
        self._policy.answers.put_nowait(OverlongPromptError())
        assert self._rollout is not None
        await self._rollout
        return self._reward()

    def close(self) -> None:
        """Ends a rollout that is under way; the environment cleans up as soon as the event loop runs again."""
        if self._rollout is not None:
            self._rollout.cancel()

    async def _asked(self) -> list[Message] | None:
        """The next conversation to go on from; None where the rollout is over."""
        assert self._rollout is not None, "reset comes first"
        asked = asyncio.ensure_future(self._policy.asked.get())
        await asyncio.wait([asked, self._rollout], return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        return None

    def _reward(self) -> float:
        assert self._rollout is not None
        output = self._rollout.result()
        if output["error"]:
            raise RuntimeError(f"the environment failed: {output['error']}")
        self.logged = {name: float(value) for name, value in (output["metrics"] or {}).items()}
        return float(output["reward"])


def _response(reply: str, tools: Sequence[dict[str, Any]], cut: bool = False) -> Response:
    """The turn as an OpenAI-compatible server would have parsed it: where a call is malformed, all is text."""
    try:
        turn = parse_turn(reply, tools) if tools else {"content": reply}
    except ValueError:
        turn = {"content": reply}
    calls = [
        ToolCall(
            id=f"call_{number}",
            name=call["function"]["name"],
            arguments=json.dumps(call["function"]["arguments"]),
        )
        for number, call in enumerate(turn.get("tool_calls", ()))
    ]
    message = ResponseMessage(
        content=turn["content"],
        reasoning_content=turn.get("reasoning_content"),
        tool_calls=calls or None,
        finish_reason="length" if cut else "tool_calls" if calls else "stop",
        is_truncated=cut,
    )
    return Response(id="", created=0, model="policy", message=message)


def _schema(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _plain(message: Any) -> Message:
    """As chat templates take it. Raises ValueError where it holds more than text."""
    plain = message.model_dump(exclude_none=True)
    if isinstance(plain.get("content"), list):
        if any(part["type"] != "text" for part in plain["content"]):
            raise ValueError("the environment shows the model more than text")
        plain["content"] = "".join(part["text"] for part in plain["content"])
    return plain
