"""A user's reward function as a scorer: its workers, and what becomes of replies on which it fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from taut.tasks.process.worker import FailedError, LostError, OnWait, Worker
from taut.tasks.rewards.contract import Call
from taut.tasks.scorer import in_parallel
from taut.types import Prompt, Rollout, Score

OnFailure = Literal["exclude", "retry", "stop"]
LOST_IN_A_ROW = 3
"""So many replies one after the other that cost the process, and the fault is not in the replies."""
_GIVEN_UP = FailedError(f"was not called: it was lost on {LOST_IN_A_ROW} replies in a row")


@dataclass(frozen=True)
class Care:
    """How a function is looked after."""

    timeout: float = 60.0
    """Seconds a call may take."""
    workers: int = 1
    """Processes; each takes its part of a batch."""
    isolate: bool = True
    """Call again, reply by reply, what failed as a whole."""
    on_failure: OnFailure = "exclude"


class FunctionScorer:
    """Calls the function, in a process of its own, with all it is given and every column of the data by name."""

    def __init__(
        self,
        name: str,
        source: str | bytes,
        care: Care = Care(),
        max_steps: int = 0,
        on_wait: OnWait = lambda waited: None,
    ) -> None:
        """`on_wait` hears of every second of a long wait, and of `care.timeout` once it is over."""
        self.name = name
        self.care = care
        self.max_steps = max_steps
        self.on_wait = on_wait
        self._lost_at: int | None = None
        """The step of the loop at which it was given up."""
        self._workers = [Worker("taut.tasks.rewards.serve", name, source) for _ in range(care.workers)]

    @property
    def needs_batch(self) -> bool:
        """Whether it must see all replies of a batch at once: it compares them, or they are counted when it fails."""
        return not self.care.isolate or self.care.on_failure == "stop"

    def check(self, prompts: Sequence[Prompt]) -> None:
        """Raises ValueError where the function does not load, or asks for what these prompts, if any, do not give."""
        try:
            self._ask(self._workers[0], ("check", _column_names(prompts) if prompts else None))
        except FailedError as failure:
            raise ValueError(f"reward function {self.name}, on being loaded, {failure}") from failure

    def score(self, rollouts: Sequence[Rollout], step: int = 0) -> list[Score]:
        """A reply on which the function failed has no reward and tells why.

        Raises ValueError naming the function where it does not return one number a reply and, with `on_failure: stop`,
        where it failed.
        """
        call = _call_of(rollouts, step, self.max_steps)
        share = math.ceil(len(call) / len(self._workers))
        parts = [call.rows(start, start + share) for start in range(0, len(call), share)]
        pieces = zip(self._workers, parts, strict=False)  # a small batch has fewer parts
        answers = in_parallel([partial(self._score, worker, part) for worker, part in pieces])
        scores = [score for answer in answers for score in answer]
        failed = [row for row, score in enumerate(scores) if score.failures]
        if failed and self.care.on_failure == "stop":
            raise ValueError(
                f"reward function {self.name} {scores[failed[0]].failures[self.name]} (on {len(failed)} of "
                f"{len(scores)} replies, the first is reply {failed[0]})"
            )
        return scores

    def _score(self, worker: Worker, call: Call) -> list[Score]:
        scores = self._at_once(worker, call)
        failed = [row for row, score in enumerate(scores) if score.failures]
        if not failed or self.care.on_failure != "retry":
            return scores
        return (
            self._one_by_one(worker, call, failed, scores)
            if self.care.isolate
            else self._at_once(worker, call)
        )

    def _at_once(self, worker: Worker, call: Call) -> list[Score]:
        if self._lost_at == call.step:  # on another part of the batch
            return [self._failed(_GIVEN_UP)] * len(call)
        try:
            return self._ask(worker, ("score", call))
        except FailedError as failure:
            scores = [self._failed(failure)] * len(call)
        if len(call) == 1 or not self.care.isolate:
            return scores
        return self._one_by_one(worker, call, range(len(call)), scores)

    def _one_by_one(
        self, worker: Worker, call: Call, rows: Sequence[int], scores: Sequence[Score]
    ) -> list[Score]:
        """The scores with those of `rows` taken anew."""
        result, lost = list(scores), 0
        for row in rows:
            if self._lost_at == call.step:
                result[row] = self._failed(_GIVEN_UP)
                continue
            try:
                result[row] = self._ask(worker, ("score", call.rows(row, row + 1)))[0]
                lost = 0
            except FailedError as failure:
                result[row] = self._failed(failure)
                lost = lost + 1 if isinstance(failure, LostError) else 0
                self._lost_at = call.step if lost == LOST_IN_A_ROW else self._lost_at
        return result

    def _failed(self, failure: FailedError) -> Score:
        return Score(math.nan, failures={self.name: str(failure)})

    def _ask(self, worker: Worker, request: tuple[str, object]) -> list[Score]:
        return worker.ask(request, self.care.timeout, self.on_wait)


def _call_of(rollouts: Sequence[Rollout], step: int, max_steps: int) -> Call:
    prompts = [rollout.prompt for rollout in rollouts]
    return Call(
        prompts=[prompt.text if prompt.messages is None else list(prompt.messages) for prompt in prompts],
        texts=[rollout.text for rollout in rollouts],
        completion_ids=[list(rollout.ids) for rollout in rollouts],
        columns={name: [p.columns.get(name) for p in prompts] for name in _column_names(prompts)},
        step=step,
        max_steps=max_steps,
        turns=[rollout.episode.messages if rollout.episode else None for rollout in rollouts],
    )


def _column_names(prompts: Sequence[Prompt]) -> list[str]:
    return list(dict.fromkeys(name for prompt in prompts for name in prompt.columns))
