"""The clipped share in words."""

import pytest

from taut.terminal.gauge import describe_clipped_share, describe_collapse


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
    assert words in describe_clipped_share(share, optimizer_steps_per_batch=4)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_silent_with_one_optimizer_step_a_batch(share):
    assert describe_clipped_share(share, optimizer_steps_per_batch=1) == ""


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
