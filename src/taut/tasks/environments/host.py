"""The run's end of an environment: its processes, and the episodes that are open in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from taut.tasks.environments.protocol import Messages
from taut.tasks.process.serve import Outcome
from taut.tasks.process.worker import FailedError, OnWait, RefusedError, Worker
from taut.tasks.scorer import in_parallel

AT_ONCE = 64
"""Episodes opened together to ask for their openings."""
GRACE = 5.0
"""Seconds beyond the timeout for a process that keeps the time of its episodes itself."""


@dataclass(frozen=True)
class Failure:
    """Why an episode cannot go on."""

    why: str


@dataclass(frozen=True)
class Turn:
    """An environment's answer to a turn of the model's."""

    messages: Messages | None
    """What the model is told next; None: the episode is over."""
    reward: float


class EnvironmentHost:
    """Opens episodes and steps them, those of one process one after the other, or all at once where it is async."""

    def __init__(
        self,
        name: str,
        source: str | bytes,
        timeout: float = 60.0,
        workers: int = 1,
        on_wait: OnWait = lambda waited: None,
    ) -> None:
        """`source` is a reference such as `file.py:Class`, or a factory pickled by cloudpickle.

        Raises ValueError where it does not load, or makes no environment.
        """
        self.name, self.timeout, self.on_wait = name, timeout, on_wait
        self._workers = [Worker("taut.tasks.environments.serve", name, source) for _ in range(workers)]
        self._numbers = itertools.count()
        try:
            facts = self._workers[0].ask(("check", None), timeout, on_wait)
        except FailedError as failure:
            raise ValueError(f"environment {name}, on being loaded, {failure}") from failure
        self.tools: list[Any] | None = facts["tools"]
        self._concurrent: bool = facts["concurrent"]

    def openings(self, rows: Sequence[Mapping[str, Any]], where: str) -> list[Messages]:
        """What the model is to be told at the start of each row. Raises ValueError naming a row that fails."""
        found: list[Messages] = []
        for start in range(0, len(rows), AT_ONCE):
            numbers, openings = self.reset(rows[start : start + AT_ONCE], all_or_none=True)
            self.end(numbers)
            for opening in openings:
                if isinstance(opening, Failure):
                    raise ValueError(
                        f"{where}, row {len(found) + 1}: reset of environment {self.name} {opening.why}"
                    )
                found.append(opening)
        return found

    def reset(
        self, rows: Sequence[Mapping[str, Any]], all_or_none: bool = False
    ) -> tuple[list[int], list[Messages | Failure]]:
        """Opens an episode for each row; returns their numbers and openings.

        With `all_or_none` a row that hangs or kills its process fails those after it there too, unasked.
        """
        numbers = list(itertools.islice(self._numbers, len(rows)))
        given = dict(zip(numbers, rows, strict=True))
        return numbers, self._each("reset", given, lambda opening: opening, all_or_none)

    def step(self, replies: Mapping[int, str]) -> list[Turn | Failure]:
        """The answers to a turn of each of these episodes, in order."""
        return self._each("step", replies, lambda answer: Turn(*answer))

    def cut(self, replies: Mapping[int, str | None]) -> list[Turn | Failure]:
        """What these episodes are paid where a limit ended them, by the turn that was cut, if one was."""
        return self._each("cut", replies, lambda answer: Turn(*answer))

    def end(self, numbers: Sequence[int]) -> list[dict[str, float]]:
        """Closes episodes; returns what each logged, nothing where that or closing it failed."""
        logged: dict[int, dict[str, float]] = {}
        for worker, own in self._shares(numbers):
            try:
                outcomes = worker.ask(("end", own), self.timeout, self.on_wait)
            except FailedError:  # a `close` that hangs or kills: the reward is known by now
                continue
            logged |= {n: _content(outcome) for n, outcome in zip(own, outcomes, strict=True)}
        return [logged.get(number, {}) for number in numbers]

    def _each(
        self, kind: str, given: Mapping[int, Any], wrap: Callable[[Any], Any], all_or_none: bool = False
    ) -> list[Any]:
        if not given:
            return []
        shares = self._shares(list(given))
        pieces = [
            partial(self._ask, worker, kind, [(n, given[n]) for n in own], all_or_none)
            for worker, own in shares
        ]
        answers = {number: answer for part in in_parallel(pieces) for number, answer in part}
        outcomes = [answers[number] for number in given]
        return [
            Failure(outcome[1]) if outcome[0] == "raised" else wrap(_content(outcome)) for outcome in outcomes
        ]

    def _ask(
        self, worker: Worker, kind: str, items: list[tuple[int, Any]], all_or_none: bool
    ) -> list[tuple[int, Outcome]]:
        """One item a request, so that one that hangs or dies is known, unless the process keeps their time."""
        size, grace = (len(items), GRACE) if self._concurrent else (1, 0.0)
        answers: list[tuple[int, Outcome]] = []
        for start in range(0, len(items), size):
            piece = items[start : start + size]
            try:
                outcomes = worker.ask((kind, (piece, self.timeout)), self.timeout + grace, self.on_wait)
            except FailedError as failure:
                if all_or_none:
                    piece = items[start:]
                outcomes = [("raised", str(failure))] * len(piece)
            answers += zip((number for number, _ in piece), outcomes, strict=True)
            if len(answers) == len(items):
                break
        return answers

    def _shares(self, numbers: Sequence[int]) -> list[tuple[Worker, list[int]]]:
        """An episode stays with the process that opened it."""
        count = len(self._workers)
        shares = [[n for n in numbers if n % count == place] for place in range(count)]
        return [(worker, own) for worker, own in zip(self._workers, shares, strict=True) if own]


def _content(outcome: Outcome) -> Any:
    """Raises RefusedError where the environment itself is at fault."""
    how, content = outcome
    if how == "refused":
        raise RefusedError(content)
    return content
