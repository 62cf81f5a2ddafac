"""The clipped share in words."""

import pytest

from taut.checks.gauge import describe_clipped_share, describe_collapse, describe_gauge, is_judged


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "wasted"),
        (0.009, "wasted"),
        (0.01, "useful range"),
        (0.102, "useful range"),
        (0.125, "over-used"),
    ],
)
def test_words(share, words):
    assert words in describe_clipped_share(share)


@pytest.mark.parametrize(
    ("settings", "judged"),
    [
        ({}, True),
        ({"epochs": 1}, False),
        ({"epochs": 1, "minibatches": 2}, True),
        ({"surrogate": "cispo"}, False),
        ({"surrogate": "sapo"}, False),
        ({"surrogate": "dppo"}, False),
        ({"ratio_level": "sequence"}, False),
    ],
)
def test_which_runs_are_judged(settings, judged):
    algorithm = {"surrogate": "clipped", "ratio_level": "token", "epochs": 4, "minibatches": 1}
    assert is_judged({**algorithm, **settings}) == judged


def test_under_sapo_the_gauge_says_that_nothing_is_held():
    ppo = {"surrogate": "clipped", "ratio_level": "token", "epochs": 4, "minibatches": 1}
    assert describe_gauge({**ppo, "surrogate": "sapo"}, 0.0).startswith("SAPO holds no token")
    assert describe_gauge({**ppo, "surrogate": "dppo"}, 0.2) == ""
    assert describe_gauge(ppo, 0.2) == describe_clipped_share(0.2)
    assert describe_gauge(ppo, None) == ""


@pytest.mark.parametrize(
    ("entropy", "words"),
    [
        (0.0, "the policy has collapsed: entropy 0.00"),
        (0.009, "the policy has collapsed: entropy 0.01"),
        (0.01, ""),
        (0.05, ""),
        (0.15, ""),
    ],
)
def test_collapse(entropy, words):
    assert describe_collapse(entropy) == words


def test_a_share_that_is_nan_is_in_no_range():
    ppo = {"surrogate": "clipped", "ratio_level": "token", "epochs": 4, "minibatches": 1}
    words = describe_gauge(ppo, float("nan"))
    assert "NaN" in words
    assert "useful range" not in words
