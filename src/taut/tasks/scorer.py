"""What the loop asks of whatever scores replies, and the scorers that call no code of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from taut.config.reward import ENVIRONMENT
from taut.types import Prompt, Rollout, Score

Result = TypeVar("Result")


class Scorer(Protocol):
    def check(self, prompts: Sequence[Prompt]) -> None:
        """Raises ValueError where the columns of these prompts are not those the scorer needs."""
        ...

    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        """One score a reply, in order; `step` is that of the loop."""
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

    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        return [Score(float(self._matches(rollout))) for rollout in rollouts]

    @staticmethod
    def _matches(rollout: Rollout) -> bool:
        return not rollout.truncated and rollout.text.strip() == str(rollout.prompt.columns["answer"]).strip()


@dataclass(frozen=True)
class Term:
    """One summand of a reward."""

    name: str
    weight: float
    scorer: Scorer


class WeightedSum:
    """Σ weight · reward over several scorers, which work at the same time.

    A reply that a scorer leaves without a reward loses that term alone; one on which a scorer of a weight other
    than 0 failed has no reward, and neither has one that lost every term.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms

    def check(self, prompts: Sequence[Prompt]) -> None:
        for term in self.terms:
            term.scorer.check(prompts)

    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        """Raises ValueError naming the scorer at fault where failures leave no reply with a reward."""
        totals = self.score_part(rollouts, step)
        refuse_failure_of_all(totals)
        return totals

    def score_part(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        """The same of some of a batch's replies, of which failures may leave none with a reward."""
        columns = in_parallel([partial(term.scorer.score, rollouts, step) for term in self.terms])
        return [self._total(scores) for scores in zip(*columns, strict=True)]

    def _total(self, scores: Sequence[Score]) -> Score:
        own = list(zip(self.terms, scores, strict=True))
        counted = [term.weight * score.reward for term, score in own if score.scored and term.weight]
        failed = any(score.failures and term.weight for term, score in own)
        return Score(
            reward=float("nan") if failed or not counted else sum(counted),
            terms={term.name: score.reward for term, score in own if score.scored},
            failures={name: text for score in scores for name, text in score.failures.items()},
            logged={name: value for score in scores for name, value in score.logged.items()},
            extra={name: value for score in scores for name, value in score.extra.items()},
        )


def refuse_failure_of_all(scores: Sequence[Score]) -> None:
    """Raises ValueError naming what failed first, where a batch is left without any reward."""
    failure = first_failure(score.failures for score in scores)
    if failure and not any(score.scored for score in scores):
        raise ValueError(f"{failure}, and so none of the {len(scores)} replies has a reward")


def first_failure(failures: Iterable[Mapping[str, str]]) -> str | None:
    """What failed first and why, as a clause; of each reply the failures, by what failed. None where none did."""
    for name, why in (item for each in failures for item in each.items()):
        return f"{'the environment' if name == ENVIRONMENT else f'reward function {name}'} {why}"
    return None


def in_parallel(work: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results, in order. A single piece is done in the caller's thread, where an interrupt reaches it."""
    if len(work) == 1:
        return [work[0]()]
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(piece) for piece in work]]
