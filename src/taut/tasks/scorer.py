"""What the loop asks of whatever scores replies, and the scorers of one process."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from taut.types import Prompt, Rollout, Score

RewardFunction = Callable[..., Sequence[float]]
"""`score(prompts, completions, **columns) -> one number a reply`, called by keyword with equally long lists."""


class Scorer(Protocol):
    def check(self, prompts: Sequence[Prompt]) -> None:
        """Raises ValueError where the columns of these prompts are not those the scorer needs."""
        ...

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One score a reply, in order."""
        ...


class ExactMatch:
    """1 where the reply ended and its text, stripped, is the prompt's column `answer`; else 0."""

    def check(self, prompts: Sequence[Prompt]) -> None:
        for prompt in prompts:
            if prompt.columns.get("answer") is None:
                columns = ", ".join(prompt.columns) or "none"
                raise ValueError(
                    f"reward = exact-match needs a column 'answer'; row {prompt.index + 1} has besides its prompt: "
                    f"{columns}. Rename the column, or set reward to a function of yours (file.py:function)"
                )

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        return [Score(float(self._matches(rollout))) for rollout in rollouts]

    @staticmethod
    def _matches(rollout: Rollout) -> bool:
        return not rollout.truncated and rollout.text.strip() == str(rollout.prompt.columns["answer"]).strip()


class FunctionScorer:
    """Calls the user's function once a batch, with every column of the data by name."""

    def __init__(self, function: RewardFunction, name: str) -> None:
        self.function = function
        self.name = name

    def check(self, prompts: Sequence[Prompt]) -> None:
        columns = dict.fromkeys(_column_names(prompts))
        if taken := columns.keys() & {"prompts", "completions"}:
            raise ValueError(
                f"reward function {self.name} gets prompts and completions from the run, so no column of the data "
                f"can be named {min(taken)}: rename it"
            )
        try:
            inspect.signature(self.function).bind(prompts=[], completions=[], **columns)
        except TypeError as error:
            raise ValueError(
                f"reward function {self.name} is called with prompts, completions and the columns of the data "
                f"({', '.join(columns) or 'none'}), and that fails: {error}. **columns takes those it does not name"
            ) from error

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """Raises ValueError naming the function where it raises or does not return one finite number a reply."""
        prompts = [rollout.prompt for rollout in rollouts]
        columns = {name: [prompt.columns.get(name) for prompt in prompts] for name in _column_names(prompts)}
        try:
            returned = self.function(
                prompts=[prompt.text for prompt in prompts],
                completions=[rollout.text for rollout in rollouts],
                **columns,
            )
        except Exception as error:  # a user's code runs: whatever it does is reported
            raise ValueError(f"reward function {self.name} raised {type(error).__name__}: {error}") from error
        return [Score(number) for number in self._numbers(returned, len(rollouts))]

    def _numbers(self, returned: Any, expected: int) -> list[float]:
        numbers = _plain(returned)
        if not isinstance(numbers, list | tuple):
            raise ValueError(
                f"reward function {self.name} must return a list of numbers, not {type(numbers).__name__}"
            )
        if len(numbers) != expected:
            raise ValueError(
                f"reward function {self.name} returned {len(numbers)} numbers for {expected} replies"
            )
        for position, number in enumerate(map(_plain, numbers)):
            if not isinstance(number, int | float) or not math.isfinite(number):
                raise ValueError(
                    f"reward function {self.name} returned {number!r} for reply {position}: "
                    "each must be a finite number, or true or false for 1 or 0"
                )
        return [float(number) for number in numbers]


class WithLengthPenalty:
    """Adds DAPO's soft overlong punishment (2503.14476, eq. 13) to another scorer's rewards."""

    def __init__(self, scorer: Scorer, max_new_tokens: int, share: float) -> None:
        self.scorer = scorer
        self.max_new_tokens = max_new_tokens
        self.buffer = share * max_new_tokens

    def check(self, prompts: Sequence[Prompt]) -> None:
        self.scorer.check(prompts)

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        scores = []
        for rollout, score in zip(rollouts, self.scorer.score(rollouts), strict=True):
            penalty = overlong_penalty(len(rollout.ids), self.max_new_tokens, self.buffer)
            terms = {**(score.terms or {"task": score.reward}), "overlong": penalty}
            scores.append(Score(score.reward + penalty, terms))
        return scores


def overlong_penalty(length: int, max_new_tokens: int, buffer: float) -> float:
    """0 up to `max_new_tokens - buffer` tokens, falling in a line to -1 at `max_new_tokens`."""
    beyond = length - (max_new_tokens - buffer)
    return -min(1.0, max(0.0, beyond / buffer))


def load_reward_function(reference: str) -> RewardFunction:
    """`file.py:function` or `module:function`.

    Raises ValueError naming what is missing: the colon, the file, the function, or an import inside it.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(
            f"reward = {reference} must be exact-match, or name a function as file.py:function or module:function"
        )
    try:
        module = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # the user's own module runs here
        raise ValueError(
            f"reward {reference}: importing {place} raised {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        there = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise ValueError(
            f"reward {reference}: {place} has no function {name}; it has {', '.join(there) or 'none'}"
        )
    return function


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"taut_reward_{Path(path).stem}"  # a reward file may well be called math.py
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up there
    spec.loader.exec_module(module)
    return module


def _column_names(prompts: Sequence[Prompt]) -> list[str]:
    return list(dict.fromkeys(name for prompt in prompts for name in prompt.columns))


def _plain(value: Any) -> Any:
    """NumPy's and torch's arrays and scalars as Python's lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else value
