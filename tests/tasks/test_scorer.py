"""Rewards: what counts as right, and what a user's function may do and return."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from taut.tasks.scorer import (
    ExactMatch,
    FunctionScorer,
    WithLengthPenalty,
    load_reward_function,
    overlong_penalty,
)
from taut.types import Prompt, Rollout, Score


def rollout(text="68", finish="stop", index=0, length=3, **columns) -> Rollout:
    prompt = Prompt(index=index, text=f"prompt {index}", ids=(1,), columns=columns)
    return Rollout(prompt, 0, (1,) * length, text, np.zeros(length, np.float32), finish)


def rewards(scores: list[Score]) -> list[float]:
    assert all(type(score.reward) is float for score in scores)
    return [score.reward for score in scores]


TWO = [rollout("a", index=0, answer="x", level=1), rollout("b", index=1, answer="y")]


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
    assert rewards(ExactMatch().score([rollout(text, finish, answer=answer)])) == [reward]


@pytest.mark.parametrize("columns", [{"solution": "3"}, {"answer": None, "solution": "3"}])
def test_exact_match_needs_an_answer_and_names_the_columns_there_are(columns):
    ExactMatch().check([TWO[0].prompt])
    with pytest.raises(ValueError, match=r"needs a column 'answer'; row 6 .*solution"):
        ExactMatch().check([TWO[0].prompt, rollout(index=5, **columns).prompt])


def test_a_function_is_called_once_by_name_with_every_column():
    calls = []

    def score(*, completions, prompts, answer, level):
        calls.append((prompts, completions, answer, level))
        return [1, 2]

    assert rewards(FunctionScorer(score, "f").score(TWO)) == [1.0, 2.0]
    assert calls == [(["prompt 0", "prompt 1"], ["a", "b"], ["x", "y"], [1, None])]


@pytest.mark.parametrize(
    "returned",
    [
        [1, 0.5],
        (1.0, 0.5),
        np.array([1, 0.5]),
        np.array([1, 0.5], dtype=np.float16),
        torch.tensor([1, 0.5], dtype=torch.bfloat16),
        torch.tensor([1, 0.5], requires_grad=True),
        [np.float32(1), np.float64(0.5)],
        [np.int64(1), torch.tensor(0.5)],
        [True, 0.5],
        [np.bool_(True), 0.5],
    ],
    ids=repr,
)
def test_numbers_of_any_kind_are_taken(returned):
    assert rewards(FunctionScorer(lambda **_: returned, "f").score(TWO)) == [1.0, 0.5]


def test_true_and_false_are_1_and_0():
    assert rewards(FunctionScorer(lambda **_: [True, False], "f").score(TWO)) == [1.0, 0.0]
    assert rewards(FunctionScorer(lambda **_: np.array([True, False]), "f").score(TWO)) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], r"my\.py:score returned 1 numbers for 2 replies"),
        ([1.0, 2.0, 3.0], "returned 3 numbers for 2 replies"),
        ([], "returned 0 numbers for 2 replies"),
        ([1.0, None], "returned None for reply 1"),
        ([math.nan, 1.0], "returned nan for reply 0"),
        ([1.0, -math.inf], "returned -inf for reply 1"),
        (np.array([1.0, np.nan]), "returned nan for reply 1"),
        ([1.0, "0.5"], "returned '0.5' for reply 1"),
        ([[1.0], [0.5]], r"returned \[1.0\] for reply 0"),
        (np.array([[1.0], [0.5]]), r"returned \[1.0\] for reply 0"),
        ([torch.tensor([1.0, 2.0]), 1.0], r"returned \[1.0, 2.0\] for reply 0"),
        ([1.0, 1j], "returned 1j for reply 1"),
        (None, "must return a list of numbers, not NoneType"),
        (0.5, "must return a list of numbers, not float"),
        (np.float64(0.5), "must return a list of numbers, not float"),
        ("ab", "must return a list of numbers, not str"),
        ({0: 1.0, 1: 2.0}, "must return a list of numbers, not dict"),
        ((x for x in (1.0, 2.0)), "must return a list of numbers, not generator"),
    ],
    ids=repr,
)
def test_what_is_no_reward_is_refused_by_name(returned, message):
    with pytest.raises(ValueError, match=message) as caught:
        FunctionScorer(lambda **_: returned, "my.py:score").score(TWO)
    assert caught.match(r"reward function my\.py:score")


def test_what_a_function_raises_is_reported_with_its_name():
    def score(prompts, completions, **columns):
        raise KeyError("gold")

    with pytest.raises(ValueError, match=r"reward function my\.py:score raised KeyError: 'gold'") as caught:
        FunctionScorer(score, "my.py:score").score(TWO)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_that_cannot_be_called_is_told_before_any_reply_exists():
    prompts = [reply.prompt for reply in TWO]
    FunctionScorer(lambda prompts, completions, **columns: [], "f").check(prompts)
    FunctionScorer(lambda prompts, completions, answer, level: [], "f").check(prompts)
    with pytest.raises(
        ValueError, match=r"\(answer, level\).*unexpected keyword argument 'level'.*\*\*columns"
    ):
        FunctionScorer(lambda prompts, completions, answer: [], "f").check(prompts)
    with pytest.raises(ValueError, match="missing a required argument: 'gold'"):
        FunctionScorer(lambda prompts, completions, gold, **columns: [], "f").check(prompts)


def test_a_column_that_would_hide_the_completions_is_refused():
    with pytest.raises(ValueError, match="no column of the data can be named completions: rename it"):
        FunctionScorer(lambda **_: [], "f").check([rollout(completions="x").prompt])


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(1, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (99, -0.95), (100, -1.0), (101, -1.0)],
)
def test_overlong_penalty_is_dapos_equation_13(length, penalty):
    assert overlong_penalty(length, max_new_tokens=100, buffer=20) == pytest.approx(penalty)


def test_the_length_penalty_adds_to_another_scorers_reward_and_tells_both_terms():
    scorer = WithLengthPenalty(ExactMatch(), max_new_tokens=10, share=0.4)
    short, long = scorer.score([rollout(answer="68", length=6), rollout("6", answer="68", length=9)])
    assert (short.reward, short.terms) == (1.0, {"task": 1.0, "overlong": 0.0})
    assert (long.reward, long.terms) == (-0.75, {"task": 0.0, "overlong": -0.75})
    with pytest.raises(ValueError, match="needs a column 'answer'"):
        scorer.check([rollout().prompt])


REWARDS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Weights:  # looks its own module up
    right: float = 2.0

def score(prompts, completions, **columns):
    return [Weights().right] * len(prompts)

scale = 3
"""


@pytest.fixture
def rewards_file(tmp_path):
    path = tmp_path / "math.py"  # a name that the standard library has too
    path.write_text(REWARDS)
    return str(path)


def test_a_function_is_loaded_from_a_file(rewards_file):
    function = load_reward_function(f"{rewards_file}:score")
    assert rewards(FunctionScorer(function, "f").score(TWO)) == [2.0, 2.0]
    import math as untouched

    assert untouched is math


def test_a_function_is_loaded_from_a_module():
    assert load_reward_function("statistics:fmean") is __import__("statistics").fmean


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("score", r"must be exact-match, or name a function as file\.py:function or module:function"),
        (":score", "must be exact-match"),
        ("rewards.py:", "must be exact-match"),
        ("nowhere.py:score", r"there is no file nowhere\.py"),
        ("no_such_module:score", "No module named 'no_such_module'"),
        ("FILE:scor", r"has no function scor; it has .*score"),
        ("FILE:scale", r"has no function scale; it has .*score"),
    ],
)
def test_what_cannot_be_loaded_is_named(rewards_file, reference, message):
    with pytest.raises(ValueError, match=message):
        load_reward_function(reference.replace("FILE", rewards_file))


def test_what_a_file_raises_is_reported(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(ValueError, match=r"importing .*broken\.py raised ZeroDivisionError"):
        load_reward_function(f"{path}:score")
