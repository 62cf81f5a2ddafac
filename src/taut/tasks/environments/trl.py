"""TRL's environment classes as environments: public methods are the tools, `reset` and the reward functions theirs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial, update_wrapper
from typing import Any

from transformers.utils import get_json_schema

from taut.tasks.environments.tool_calls import parse_turn

RewardFunction = Callable[..., Any]
Message = dict[str, Any]

NOT_TOOLS = ("reset", "get_reward")
UNKNOWN_HERE = ("completion_ids", "trainer_state")
"""What TRL gives a reward function and an environment does not know."""


def from_trl(
    factory: Callable[[], Any],
    reward: RewardFunction | Mapping[RewardFunction, float] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
) -> Callable[[], TRLEnvironment]:
    """An environment of what TRL takes as `environment_factory`, `reward_funcs` and `tools`, all as they are.

    `reward` is a function or {function: weight}. It is called by TRL's contract when an episode is over, in the
    environment's process: by keyword with `prompts`, `completions`, `environments` and every column of the data, lists
    of one. A `get_reward` of the environment's is added with weight 1. What `log_metric` gets is logged; what
    `log_extra` gets is not kept.

    Raises ValueError where a function asks for what is not known there: completion_ids or trainer_state.
    """
    weights = reward if isinstance(reward, Mapping) else {} if reward is None else {reward: 1.0}
    for function in weights:
        parameters = inspect.signature(function).parameters
        if asked := [name for name in UNKNOWN_HERE if _required(parameters.get(name))]:
            raise ValueError(
                f"reward function {_name(function)} asks for {' and '.join(asked)}, unknown to an environment: "
                "let it do without, or name it in the run's reward instead"
            )
    return update_wrapper(partial(TRLEnvironment, factory, dict(weights), tuple(tools)), factory)


class TRLEnvironment:
    """One episode in an object that `factory` makes. It ends with a turn that calls no tool."""

    def __init__(
        self,
        factory: Callable[[], Any],
        rewards: Mapping[RewardFunction, float],
        tools: Sequence[Callable[..., Any]],
    ) -> None:
        """Raises ValueError where the object has no `reset`, or nothing gives a reward."""
        self._environment = factory()
        if not callable(getattr(self._environment, "reset", None)):
            raise ValueError(f"{_name(factory)} makes a {self._kind}, which has no method reset(**columns)")
        self._rewards = dict(rewards)
        self._owns_reward = hasattr(type(self._environment), "get_reward")
        if not self._rewards and not self._owns_reward:
            raise ValueError(
                f"nothing gives a reward: {self._kind} has no method get_reward(), so give from_trl a reward function"
            )
        self._functions = {tool.__name__: tool for tool in [*tools, *self._methods()]}
        self.tools = [get_json_schema(function) for function in self._functions.values()]
        self.logged: dict[str, float] = {"tool_calls": 0, "tool_failures": 0}

    def reset(self, row: Mapping[str, Any]) -> list[Message]:
        """The row's prompt, to the end of which goes the text that the environment's own `reset` returns.

        A prompt that is a text is a user's message, and a missing one an empty one.
        Raises ValueError where `reset` returns something other than text or None.
        """
        prompt = row.get("prompt", "")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        observation = self._environment.reset(**row)
        if observation is not None:
            if not isinstance(observation, str):
                raise ValueError(
                    f"{self._kind}.reset returned a {type(observation).__name__}: it must be text or None"
                )
            messages[-1] = {**messages[-1], "content": messages[-1]["content"] + observation}
        self._row, self._prompt, self._completion = row, messages, list[Message]()
        return messages

    def step(self, reply: str) -> tuple[list[Message] | None, float]:
        """Calls the tools in the order of the turn. What fails is told to the model, as in TRL: {'error': why}."""
        try:
            turn = parse_turn(reply, self.tools)
        except ValueError as error:  # TRL reads such a turn as text, which would end the episode
            turn = {"role": "assistant", "content": reply}
            results = [self._failed("unknown", error)]
        else:
            calls = [call["function"] for call in turn.get("tool_calls", ())]
            results = [self._call(call["name"], call["arguments"]) for call in calls]
        self._completion += [turn, *results]
        self.logged["tool_calls"] += len(results)
        return (results, 0.0) if results else (None, self._score())

    def cut(self, reply: str | None) -> float:
        """An episode that a limit ended is scored like any other, as in TRL; a turn that was cut calls no tool."""
        if reply is not None:
            self._completion.append({"role": "assistant", "content": reply})
        return self._score()

    def _call(self, name: str, arguments: Any) -> Message:
        try:
            if name not in self._functions:
                raise ValueError(f"Tool {name} not found.")
            result = _awaited(self._functions[name](**arguments))
        except Exception as error:  # a user's tool runs here, and an error is how it answers a wrong call
            return self._failed(name, error)
        return {"role": "tool", "name": name, "content": str(result)}

    def _failed(self, name: str, error: Exception) -> Message:
        self.logged["tool_failures"] += 1
        return {"role": "tool", "name": name, "content": str({"error": str(error)})}

    def _score(self) -> float:
        """Σ weight · reward, without the functions that return None for "not scored"; NaN where all do."""
        scores = [(_name(f), weight, self._rewarded_by(f)) for f, weight in self._rewards.items()]
        if self._owns_reward:
            scores.append((self._kind, 1.0, _awaited(self._environment.get_reward())))
        counted = [(name, weight, float(score)) for name, weight, score in scores if score is not None]
        self.logged |= {name: score for name, _, score in counted}
        return sum(weight * score for _, weight, score in counted) if counted else float("nan")

    def _rewarded_by(self, function: RewardFunction) -> Any:
        columns = {key: [value] for key, value in self._row.items() if key not in ("prompt", "completion")}
        returned = _awaited(
            function(
                prompts=[self._prompt],
                completions=[self._completion],
                environments=[self._environment],
                log_metric=self._log_metric,
                log_extra=lambda column, values: None,
                **columns,
            )
        )
        if len(returned) != 1:
            raise ValueError(
                f"reward function {_name(function)} returned {len(returned)} numbers for 1 reply"
            )
        return returned[0]

    def _log_metric(self, name: str, value: float) -> None:
        self.logged[name] = float(value)

    def _methods(self) -> list[Callable[..., Any]]:
        # As TRL does, of the class: to list those of the object would read its properties.
        names = [name for name, _ in inspect.getmembers(type(self._environment), inspect.isfunction)]
        public = [name for name in names if name not in NOT_TOOLS and not name.startswith("_")]
        return [getattr(self._environment, name) for name in public]

    @property
    def _kind(self) -> str:
        return type(self._environment).__name__


def _awaited(value: Any) -> Any:
    """What a tool or reward function gave, which may be async."""
    return _event_loop().run(_whatever(value)) if inspect.isawaitable(value) else value


async def _whatever(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@cache
def _event_loop() -> asyncio.Runner:
    """One a process: an async function's clients and locks belong to the loop they were made in."""
    return asyncio.Runner()


def _required(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.default is parameter.empty


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
