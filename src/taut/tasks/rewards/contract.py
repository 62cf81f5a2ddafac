"""How a reward function is called, by TRL's contract or verl's, and what it may return.

TRL's: once a batch, by keyword, with `prompts`, `completions`, `completion_ids`, every column of the data,
`trainer_state`, `log_extra` and `log_metric`, as far as the function names them or takes **keywords. It returns one
number a reply, or None for "not scored". Sync or async.

verl's, known by a parameter `solution_str`: once a reply, with `data_source`, `solution_str`, `ground_truth` and
`extra_info`. It returns a number, or a dict with `score`, whose other numbers are logged.

Runs in the function's own process. Imports nothing heavy.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from taut.tasks.process.worker import RefusedError
from taut.types import Message, Score

RewardFunction = Callable[..., Any]

FROM_THE_RUN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
LARGEST = (2 - 2**-23) * 2.0**127
"""Rewards are held as float32: a larger one would be infinite in the batch."""
VERL = ("data_source", "solution_str", "ground_truth", "extra_info")


@dataclass(frozen=True)
class Call:
    """B replies to score."""

    prompts: Sequence[Any]
    """Text, or the messages of a conversation."""
    texts: Sequence[str]
    completion_ids: Sequence[list[int]]
    columns: Mapping[str, Sequence[Any]]
    step: int = 0
    max_steps: int = 0
    turns: Sequence[Sequence[Message] | None] = ()
    """Of replies of several turns to a conversation, their messages; empty where there are none such."""

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, start: int, stop: int) -> Call:
        part = slice(start, stop)
        columns = {name: values[part] for name, values in self.columns.items()}
        return Call(
            self.prompts[part],
            self.texts[part],
            self.completion_ids[part],
            columns,
            self.step,
            self.max_steps,
            self.turns[part],
        )

    def completions(self) -> list[Any]:
        """As TRL has them: text or, where the prompt is a conversation, the messages that follow it."""
        turns = self.turns or [None] * len(self)
        return [
            text if isinstance(prompt, str) else list(own or [{"role": "assistant", "content": text}])
            for prompt, text, own in zip(self.prompts, self.texts, turns, strict=True)
        ]


@dataclass
class _Log:
    """What a function logs beside its scores, by TRL's two callbacks."""

    name: str
    extra: dict[str, list[Any]] = field(default_factory=dict)
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def log_extra(self, column: str, values: Sequence[Any]) -> None:
        self.extra[column] = [_storable(value) for value in values]

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(float(value))

    def scores(self, numbers: Sequence[Any]) -> list[Score]:
        """Raises RefusedError where a column does not have a value a reply, or a number is none."""
        for column, values in self.extra.items():
            if len(values) != len(numbers):
                raise RefusedError(
                    f"reward function {self.name} logged {len(values)} values in column {column!r} for "
                    f"{len(numbers)} replies"
                )
        logged = {f"{self.name}/{name}": sum(v) / len(v) for name, v in self.metrics.items()}
        return [
            _score(self.name, number, row, logged, {column: v[row] for column, v in self.extra.items()})
            for row, number in enumerate(map(_plain, numbers))
        ]


def check_signature(function: RewardFunction, name: str, columns: Sequence[str]) -> None:
    """Raises RefusedError where the function asks for something that it will not be given."""
    if _is_verl(function):
        there = set(VERL)
        if not {"reward_model", "ground_truth", "answer"} & set(columns):
            raise RefusedError(
                f"reward function {name} follows verl's contract, and the data has no column reward_model (with a "
                f"ground_truth), ground_truth or answer; its columns are: {', '.join(columns) or 'none'}"
            )
    else:
        there = {*FROM_THE_RUN, *columns}
        if taken := [column for column in columns if column in FROM_THE_RUN]:
            raise RefusedError(
                f"reward function {name} gets {taken[0]} from the run, so no column of the data can have that name: "
                "rename it"
            )
    missing = [p.name for p in _parameters(function) if _required(p) and p.name not in there]
    if missing:
        raise RefusedError(
            f"reward function {name} asks for {', '.join(missing)}, and is given "
            f"{', '.join(VERL if _is_verl(function) else FROM_THE_RUN)} and the columns of the data "
            f"({', '.join(columns) or 'none'}): rename the parameter or the column"
        )


def call_function(function: RewardFunction, name: str, call: Call, runner: asyncio.Runner) -> list[Score]:
    """One score a reply; NaN where the function returned None, and a failure where it returned NaN or infinity.

    Raises RefusedError for a return value that is no such list, and whatever the function raises.
    """
    if _is_verl(function):
        return [_call_verl(function, name, call, row, runner) for row in range(len(call))]
    log = _Log(name)
    state = SimpleNamespace(global_step=call.step, max_steps=call.max_steps)
    given = {
        "prompts": call.prompts,
        "completions": call.completions(),
        "completion_ids": call.completion_ids,
        **call.columns,
        "trainer_state": state,
        "log_extra": log.log_extra,
        "log_metric": log.log_metric,
    }
    returned = _plain(_await(function(**_accepted(function, given)), runner))
    if not isinstance(returned, list | tuple):
        raise RefusedError(
            f"reward function {name} must return a list of {len(call)} numbers, one a reply, not a "
            f"{type(returned).__name__}"
        )
    if len(returned) != len(call):
        raise RefusedError(f"reward function {name} returned {len(returned)} numbers for {len(call)} replies")
    return log.scores(returned)


def _call_verl(function: RewardFunction, name: str, call: Call, row: int, runner: asyncio.Runner) -> Score:
    def column(key: str) -> Any:
        return call.columns[key][row] if key in call.columns else None

    ground_truth = column("ground_truth") if "ground_truth" in call.columns else column("answer")
    if isinstance(column("reward_model"), Mapping):
        ground_truth = column("reward_model").get("ground_truth")
    given = dict(
        zip(VERL, (column("data_source"), call.texts[row], ground_truth, column("extra_info")), strict=True)
    )
    returned = _plain(_await(function(**_accepted(function, given)), runner))
    if not isinstance(returned, Mapping):
        return _score(name, returned, row)
    if "score" not in returned:
        raise RefusedError(
            f"reward function {name} returned a dict without score; it has {', '.join(map(str, returned))}"
        )
    others = {key: _plain(value) for key, value in returned.items() if key != "score"}
    logged = {f"{name}/{key}": float(v) for key, v in others.items() if isinstance(v, int | float)}
    extra = {str(key): _storable(v) for key, v in others.items() if not isinstance(v, int | float)}
    return _score(name, _plain(returned["score"]), row, logged, extra)


def _score(
    name: str,
    number: Any,
    row: int,
    logged: Mapping[str, float] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Score:
    beside = {"logged": logged or {}, "extra": extra or {}}
    if number is None:
        return Score(math.nan, **beside)
    if not isinstance(number, int | float):  # a bool is an int
        raise RefusedError(
            f"reward function {name} returned {number!r} for reply {row}: each must be a number, true or false for "
            "1 or 0, or None where it does not score the reply"
        )
    if not abs(number) <= LARGEST:  # NaN compares as false, and an int may be too large for a float
        shown = f"{number}" if isinstance(number, float) else "an integer beyond float32"
        return Score(math.nan, failures={name: f"returned {shown}"}, **beside)
    return Score(float(number), **beside)


def _is_verl(function: RewardFunction) -> bool:
    return any(parameter.name == "solution_str" for parameter in _parameters(function))


def _parameters(function: RewardFunction) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions of extension modules have none to be read
        return []


def _required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_KEYWORD,
        parameter.VAR_POSITIONAL,
    )


def _accepted(function: RewardFunction, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _parameters(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    return {p.name: given[p.name] for p in parameters if p.name in given}


def _await(returned: Any, runner: asyncio.Runner) -> Any:
    return runner.run(_whatever(returned)) if inspect.isawaitable(returned) else returned


async def _whatever(awaitable: Any) -> Any:
    return await awaitable


def _plain(value: Any) -> Any:
    """NumPy's and torch's arrays and scalars as Python's lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else value


def _storable(value: Any) -> Any:
    value = _plain(value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
