"""What the loop asks of whatever scores replies, and the scorers of one process."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from taut.types import Prompt, Rollout, Score

RewardFunction = Callable[..., Sequence[float]]
"""`score(prompts, completions, **columns) -> one number a reply`, called as keywords with equally long lists."""


class Scorer(Protocol):
    def check(self, prompts: Sequence[Prompt]) -> None:
        """Raises ValueError where these prompts lack a column the scorer needs."""
        ...

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One score a reply, in order."""
        ...


class ExactMatch:
    """1 where the reply ended and its text, stripped, is the prompt's column `answer`; else 0."""

    def check(self, prompts: Sequence[Prompt]) -> None:
        for prompt in prompts:
            if "answer" not in prompt.columns:
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
        """Any columns do: the function is called with those there are."""

    def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """Raises ValueError naming the function where it raises or does not return one finite number a reply."""
        columns = {key: [r.prompt.columns.get(key) for r in rollouts] for key in _column_names(rollouts)}
        try:
            numbers = self.function(
                prompts=[r.prompt.text for r in rollouts], completions=[r.text for r in rollouts], **columns
            )
        except Exception as error:  # the one place where a user's code runs: whatever it does is reported
            raise ValueError(f"reward function {self.name} raised {type(error).__name__}: {error}") from error
        return [Score(number) for number in self._checked(numbers, len(rollouts))]

    def _checked(self, numbers: Any, expected: int) -> list[float]:
        if not isinstance(numbers, Sequence) or isinstance(numbers, str):
            numbers = numbers.tolist() if hasattr(numbers, "tolist") else numbers
            if not isinstance(numbers, list):
                raise ValueError(
                    f"reward function {self.name} must return a list of numbers, not {type(numbers).__name__}"
                )
        if len(numbers) != expected:
            raise ValueError(
                f"reward function {self.name} returned {len(numbers)} numbers for {expected} replies"
            )
        for position, number in enumerate(numbers):
            value = number.item() if hasattr(number, "item") else number
            if isinstance(value, str) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(
                    f"reward function {self.name} returned {value!r} for reply {position}; "
                    "each must be a finite number"
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
    return -max(0.0, (length - (max_new_tokens - buffer)) / buffer)


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
        there = (
            ", ".join(n for n, v in vars(module).items() if callable(v) and not n.startswith("_")) or "none"
        )
        raise ValueError(f"reward {reference}: {place} has no function {name}; it has {there}")
    return function


def _load_file(path: str) -> Any:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _column_names(rollouts: Sequence[Rollout]) -> list[str]:
    return list(dict.fromkeys(key for rollout in rollouts for key in rollout.prompt.columns))
