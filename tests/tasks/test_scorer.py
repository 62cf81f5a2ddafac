"""Rewards: what counts as right, and how several add up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taut.tasks.scorer import ExactMatch, Term, WeightedSum
from taut.types import Prompt, Rollout, Score


def rollout(text="68", finish="stop", index=0, length=3, **columns) -> Rollout:
    prompt = Prompt(index=index, text=f"prompt {index}", ids=(1,), columns=columns)
    return Rollout(prompt, 0, (1,) * length, text, np.zeros(length, np.float32), finish)


def rewards(scores: list[Score]) -> list[float]:
    assert all(type(score.reward) is float for score in scores)
    return [score.reward for score in scores]


GOOD = rollout("a", index=0, answer="x")


@pytest.mark.parametrize(
    ("text", "finish", "answer", "reward"),
    [
        ("68", "stop", "68", 1.0),
        (" 68\n", "stop", "68", 1.0),
        ("68", "stop", " 68 ", 1.0),
        ("68", "stop", 68, 1.0),
        ("68", "length", "68", 0.0),  # right, but it never ended
        ("68", "stop", "6", 0.0),
        ("6", "stop", "68", 0.0),
        ("068", "stop", "68", 0.0),
        ("", "stop", "68", 0.0),
    ],
)
def test_exact_match(text, finish, answer, reward):
    assert rewards(ExactMatch().score([rollout(text, finish, answer=answer)], 1)) == [reward]


@pytest.mark.parametrize("columns", [{"solution": "3"}, {"answer": None, "solution": "3"}])
def test_exact_match_needs_an_answer_and_names_the_columns_there_are(columns):
    ExactMatch().check([GOOD.prompt])
    with pytest.raises(ValueError, match=r"needs a column 'answer'; row 6 .*solution"):
        ExactMatch().check([GOOD.prompt, rollout(index=5, **columns).prompt])


class Gives:
    """Each reply the score it is told."""

    def __init__(self, *scores: Score) -> None:
        self.scores = scores

    def check(self, prompts):
        pass

    def score(self, rollouts, step):
        return list(self.scores)


NONE = Score(math.nan)


def failed(name):
    return Score(math.nan, failures={name: "raised"})


def total(*terms: tuple[str, float, Score]) -> Score:
    return WeightedSum([Term(n, w, Gives(s)) for n, w, s in terms]).score([rollout()], 1)[0]


def test_a_reward_is_the_weighted_sum_of_its_terms():
    score = total(
        ("right", 1.0, Score(1.0)), ("style", -0.5, Score(3.0, logged={"a": 2.0}, extra={"b": "c"}))
    )
    assert (score.reward, score.terms) == (-0.5, {"right": 1.0, "style": 3.0})
    assert (score.logged, score.extra) == ({"a": 2.0}, {"b": "c"})


def test_a_term_that_does_not_score_a_reply_drops_out_alone():
    score = total(("right", 1.0, Score(1.0)), ("style", 0.5, NONE))
    assert (score.reward, score.terms, score.failures) == (1.0, {"right": 1.0}, {})


def test_a_reply_that_no_term_scores_has_no_reward():
    assert not total(("right", 1.0, NONE), ("style", 0.5, NONE)).scored
    assert not total(("watched", 0.0, Score(1.0)), ("style", 0.5, NONE)).scored


def test_a_failure_of_a_weighted_term_costs_the_reward_and_never_becomes_0():
    terms = [
        Term("right", 1.0, Gives(Score(1.0), Score(1.0))),
        Term("style", 0.5, Gives(failed("style"), NONE)),
    ]
    score, other = WeightedSum(terms).score([rollout(), rollout()], 1)
    assert (score.scored, other.reward) == (False, 1.0)
    assert (score.terms, score.failures) == ({"right": 1.0}, {"style": "raised"})


def test_failures_that_leave_no_reply_end_the_run_by_name():
    with pytest.raises(ValueError, match="reward function style raised, and so none of the 1 replies has"):
        total(("right", 1.0, Score(1.0)), ("style", 0.5, failed("style")))


def test_a_term_without_weight_is_watched_only():
    assert total(("right", 1.0, Score(1.0)), ("style", 0.0, failed("style"))).reward == 1.0
    assert total(("right", 1.0, Score(1.0)), ("style", 0.0, Score(9.0))).reward == 1.0
