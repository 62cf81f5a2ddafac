"""The process of an environment: `python -m taut.tasks.environments.serve FD PIPE`. It holds many episodes at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from taut.tasks.environments.protocol import Environment, EnvironmentFactory, Messages
from taut.tasks.process.serve import Outcome, file_of, outcome_of, run, what_it_raised
from taut.tasks.process.worker import RefusedError

LOST = "ended with its process, which another episode had blocked or killed"
Item = tuple[int, Any]
"""An episode's number, and what it is given."""


class Episodes:
    """The episodes of this process by their numbers, each an object of the factory's."""

    def __init__(self) -> None:
        self._open: dict[int, Environment] = {}

    def handle(
        self,
        factory: EnvironmentFactory,
        name: str,
        request: tuple[str, Any],
        runner: asyncio.Runner,
    ) -> Any:
        kind, content = request
        if kind == "check":
            return check_environment(factory, name)
        if kind == "end":
            return [self._end(name, number) for number in content]
        items, timeout = content
        works: dict[str, Callable[..., Any]] = {
            "reset": partial(self._reset, factory),
            "step": self._step,
            "cut": self._cut,
        }
        return _settle(partial(works[kind], name), items, timeout, runner, file_of(factory))

    def _reset(self, factory: EnvironmentFactory, name: str, number: int, row: Mapping[str, Any]) -> Any:
        self._open[number] = factory()
        return _then(self._open[number].reset(row), partial(_opening, name))

    def _step(self, name: str, number: int, reply: str) -> Any:
        if number not in self._open:
            return _Failed(LOST)
        return _then(self._open[number].step(reply), partial(_turn, name))

    def _cut(self, name: str, number: int, reply: str | None) -> Any:
        if number not in self._open:
            return _Failed(LOST)
        cut = getattr(self._open[number], "cut", lambda reply: 0.0)
        return _then(cut(reply), lambda reward: _turn(name, (None, reward)))

    def _end(self, name: str, number: int) -> Outcome:
        """What the episode logged; nothing where its process was lost."""
        environment = self._open.pop(number, None)
        logged = outcome_of(partial(_logged, name, environment))
        _close(environment)
        return logged


class _Failed(str):
    """Why an episode cannot go on, told from what an environment returns."""


def check_environment(factory: EnvironmentFactory, name: str) -> dict[str, Any]:
    """Its `tools`, and whether it is `concurrent`: has a method that may wait beside others.

    Raises RefusedError where what is made has no `reset(row)` and `step(reply)`.
    """
    environment = factory()
    for method, given in (("reset", "row"), ("step", "reply")):
        function = getattr(environment, method, None)
        if not callable(function):
            raise RefusedError(
                f"environment {name} makes a {type(environment).__name__}, which has no {method}"
            )
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise RefusedError(
                f"environment {name}: {method} is called with {given} alone: {error}"
            ) from None
    concurrent = any(map(inspect.iscoroutinefunction, (environment.reset, environment.step)))
    tools = getattr(environment, "tools", None)
    _close(environment)
    return {"tools": None if tools is None else list(tools), "concurrent": concurrent}


def _logged(name: str, environment: Environment | None) -> dict[str, float]:
    logged = getattr(environment, "logged", {})
    try:
        return {str(key): float(value) for key, value in logged.items()}
    except (AttributeError, TypeError, ValueError):
        raise RefusedError(
            f"environment {name}: logged must map names to numbers, not {_shown(logged)}"
        ) from None


def _close(environment: Environment | None) -> None:
    """The reward is known by now, so what `close` raises changes nothing."""
    if callable(close := getattr(environment, "close", None)):
        outcome_of(close)


def _settle(
    work: Callable[[int, Any], Any], items: Sequence[Item], timeout: float, runner: asyncio.Runner, file: str
) -> list[Outcome]:
    """One outcome an item. What is to be awaited is, all at once; what then takes longer than `timeout` failed."""
    outcomes = [outcome_of(partial(work, *item), file) for item in items]
    waiting = [
        place for place, (how, value) in enumerate(outcomes) if how == "done" and inspect.isawaitable(value)
    ]
    if waiting:
        awaited = runner.run(_await_all([outcomes[place][1] for place in waiting], timeout, file))
        for place, outcome in zip(waiting, awaited, strict=True):
            outcomes[place] = outcome
    return [("raised", str(value)) if isinstance(value, _Failed) else (how, value) for how, value in outcomes]


async def _await_all(awaitables: Sequence[Any], timeout: float, file: str) -> list[Outcome]:
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    _, late = await asyncio.wait(tasks, timeout=timeout)
    for task in late:
        task.cancel()
    return [
        ("raised", f"gave no answer within {timeout:g} s") if task in late else _outcome_of_task(task, file)
        for task in tasks
    ]


def _outcome_of_task(task: asyncio.Future[Any], file: str) -> Outcome:
    error = task.exception()
    if error is None:
        return "done", task.result()
    return (
        ("refused", str(error))
        if isinstance(error, RefusedError)
        else ("raised", what_it_raised(error, file))
    )


def _then(returned: Any, check: Callable[[Any], Any]) -> Any:
    """`check` of what a method returned, now or, of an async one, once it is there."""

    async def awaited() -> Any:
        return check(await returned)

    return awaited() if inspect.isawaitable(returned) else check(returned)


def _opening(name: str, returned: Any) -> Messages:
    if not _are_messages(returned):
        raise RefusedError(f"environment {name}: reset must return text or messages, not {_shown(returned)}")
    return returned


def _turn(name: str, returned: Any) -> tuple[Messages | None, float] | _Failed:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise RefusedError(
            f"environment {name}: step must return two values, messages (or None at the end) and a reward, not "
            f"{_shown(returned)}"
        )
    messages, reward = returned
    if messages is not None and not _are_messages(messages):
        raise RefusedError(f"environment {name}: step must return text or messages, not {_shown(messages)}")
    try:
        reward = float(reward)
    except (TypeError, ValueError):
        raise RefusedError(
            f"environment {name}: the reward of a step must be a number, not {reward!r}"
        ) from None
    # NaN compares as false. Rewards are held as float32.
    return (messages, reward) if abs(reward) < 3e38 else _Failed(f"paid {reward}")


def _are_messages(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in value)
    )


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.80}"


if __name__ == "__main__":
    run(Episodes().handle, "environment")
