"""How a reward is written."""

import pytest

from taut.config.reward import reward_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("exact-match", [(1.0, "exact-match")]),
        ("rewards.py:score", [(1.0, "rewards.py:score")]),
        ("a.py:f + 0.2*b.py:g", [(1.0, "a.py:f"), (0.2, "b.py:g")]),
        ("2 * a.py:f\n  +  -1e-1*package.module:g", [(2.0, "a.py:f"), (-0.1, "package.module:g")]),
        ("0*C:\\a+b\\f.py:g", [(0.0, "C:\\a+b\\f.py:g")]),
        ("my rewards/2*3.py:f", [(1.0, "my rewards/2*3.py:f")]),
    ],
)
def test_a_sum_of_weighted_terms(text, terms):
    assert reward_terms(text) == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score", r"'score' must be one of exact-match.*or name a function as file\.py:function"),
        ("exact_match", "did you mean exact-match"),
        (":score", "':score' must be"),
        ("rewards.py:", "'rewards.py:' must be"),
        ("", "'' must be"),
        ("a.py:f + ", "'a.py:f \\+ ?' must|'' must be"),
        ("a.py:f + 0.5", "'0.5' must be"),
        ("0.5*", r"'0.5\*' must be"),
    ],
)
def test_what_is_no_term_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        reward_terms(text)
