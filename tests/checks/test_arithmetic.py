"""How the checks of arithmetic put their numbers."""

import pytest

from taut.checks.arithmetic import _told_apart


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (-1.0, -0.5, "-1 and -0.5"),
        (-1.0, -0.99999998, "-1 and -0.99999998"),
        (-1.0, -1.0 - 2**-50, "-1 and -1.0000000000000009"),
        (-1.0, -1.0, "-1 in both"),
    ],
)
def test_two_numbers_are_told_apart(one, other, words):
    assert _told_apart(one, other) == words
