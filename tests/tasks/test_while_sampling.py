"""Rewards that are computed while other replies are sampled: which calls, in which order, with which errors."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from taut.tasks.rewards.function import Care, FunctionScorer
from taut.tasks.scorer import ExactMatch, Term, WeightedSum
from taut.tasks.while_sampling import WhileSampling, while_sampling
from taut.types import Prompt, Rollout, Score


def group(number: int, size: int = 2) -> list[Rollout]:
    prompt = Prompt(number, f"p{number}", (1,))
    return [Rollout(prompt, s, (1,), f"{number}.{s}", np.zeros(1, np.float32), "stop") for s in range(size)]


class Noted:
    """A term whose reward is the reply's text as a number; it fails on the prompts in `fails`."""

    def __init__(self, fails=()):
        self.calls, self.fails, self.called = [], fails, threading.Event()

    def check(self, prompts):
        pass

    def score(self, rollouts, step):
        self.calls.append([r.text for r in rollouts])
        self.called.set()
        return [
            Score(math.nan, failures={"f": "raised"})
            if r.prompt.index in self.fails
            else Score(float(r.text))
            for r in rollouts
        ]


def test_a_quarter_of_the_prompts_is_scored_before_the_others_have_ended():
    term = Noted()
    with WhileSampling(WeightedSum([Term("f", 1.0, term)]), 8, step=3) as early:
        early(5, group(5))
        assert not term.calls
        early(2, group(2))
        assert term.called.wait(5), "two of eight prompts are there, and nothing else has ended"
        for number in (0, 1, 3, 4, 6, 7):
            early(number, group(number))
        scores = early.scores()
    assert [s.reward for s in scores] == [float(f"{n}.{s}") for n in range(8) for s in range(2)]
    assert term.calls[0] == ["2.0", "2.1", "5.0", "5.1"]
    assert len(term.calls) == 4


def test_what_is_left_over_makes_a_last_smaller_call():
    term = Noted()
    with WhileSampling(WeightedSum([Term("f", 1.0, term)]), 5, step=0) as early:
        for number in range(5):
            early(number, group(number))
        assert len(early.scores()) == 10
    assert [len(call) for call in term.calls] == [4, 4, 2]


def test_failures_end_the_run_only_where_they_leave_no_reply_of_the_whole_batch():
    with WhileSampling(WeightedSum([Term("f", 1.0, Noted({0}))]), 4, step=0) as early:
        for number in range(4):
            early(number, group(number))
        assert [score.scored for score in early.scores()] == [False] * 2 + [True] * 6
    with WhileSampling(WeightedSum([Term("f", 1.0, Noted(range(4)))]), 4, step=0) as early:
        for number in range(4):
            early(number, group(number))
        with pytest.raises(ValueError, match="reward function f raised, and so none of the 8 replies"):
            early.scores()


def test_an_error_of_a_scorer_is_raised_where_the_scores_are_asked_for():
    class Refuses(Noted):
        def score(self, rollouts, step):
            raise ValueError("returned text")

    with WhileSampling(WeightedSum([Term("f", 1.0, Refuses())]), 1, step=0) as early:
        early(0, group(0))
        with pytest.raises(ValueError, match="returned text"):
            early.scores()


def function(**care) -> FunctionScorer:
    return FunctionScorer("f", "rewards.py:f", Care(**care))


@pytest.mark.parametrize(
    ("scorers", "apart"),
    [
        ([function()], True),
        ([function(), ExactMatch()], True),
        ([ExactMatch()], False),
        ([function(isolate=False)], False),
        ([function(), function(on_failure="stop")], False),
    ],
)
def test_where_it_is_worth_while(scorers, apart):
    total = WeightedSum([Term(str(i), 1.0, scorer) for i, scorer in enumerate(scorers)])
    assert (while_sampling(total, 4, 1) is not None) == apart


def test_exact_match_alone_is_scored_at_once():
    assert while_sampling(ExactMatch(), 4, 1) is None
