"""One next-token distribution, cut and drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from taut.rollout.sampling import BLOCK, Sampling, draw_tokens, truncate_logits

PROBABILITIES = [0.1, 0.5, 0.15, 0.25]


def sampling(**values) -> Sampling:
    return Sampling(replies_per_prompt=1, max_new_tokens=1, **values)


def cut(probabilities, **values) -> list[float]:
    """The distribution after truncation, renormalised."""
    logits = torch.tensor([probabilities]).log()
    return truncate_logits(logits, sampling(**values)).softmax(-1)[0].tolist()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [0.1, 0.5, 0.15, 0.25]),
        ({"top_k": 2}, [0, 2 / 3, 0, 1 / 3]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 4}, [0.1, 0.5, 0.15, 0.25]),
        ({"top_k": 99}, [0.1, 0.5, 0.15, 0.25]),
        ({"top_p": 0.7}, [0, 2 / 3, 0, 1 / 3]),  # 0.5 is not enough, 0.75 is
        ({"top_p": 0.8}, [0, 5 / 9, 1.5 / 9, 2.5 / 9]),
        ({"top_p": 1e-9}, [0, 1, 0, 0]),
        ({"min_p": 0.4}, [0, 2 / 3, 0, 1 / 3]),  # at least 0.2
        ({"min_p": 0.25}, [0, 5 / 9, 1.5 / 9, 2.5 / 9]),  # at least 0.125
        # After top-k the likeliest two hold 0.75/0.9 = 0.83: enough for 0.8, as 0.75 would not be.
        ({"top_k": 3, "top_p": 0.8}, [0, 2 / 3, 0, 1 / 3]),
        ({"top_p": 0.8, "min_p": 0.4}, [0, 2 / 3, 0, 1 / 3]),
    ],
)
def test_truncation(how, expected):
    assert cut(PROBABILITIES, **how) == pytest.approx(expected, abs=1e-6)


def test_top_k_keeps_every_token_as_likely_as_the_kth():
    assert cut([0.3, 0.1, 0.3, 0.3], top_k=2) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])


def test_top_p_takes_the_first_of_equally_likely_tokens():
    assert cut([0.25, 0.25, 0.25, 0.25], top_p=0.4) == pytest.approx([0.5, 0.5, 0, 0])


def draw(probabilities, noise, **values):
    logits = torch.tensor(probabilities).log().expand(len(noise), -1)
    tokens, logprobs = draw_tokens(logits, torch.tensor(noise, dtype=torch.float64), sampling(**values))
    return tokens.tolist(), logprobs.tolist()


def test_one_number_draws_a_token_by_inverting_the_cumulative_distribution():
    # Cumulative: 0.1, 0.6, 0.75, 1.
    tokens, logprobs = draw(PROBABILITIES, [0.0, 0.09, 0.11, 0.59, 0.61, 0.74, 0.76, 0.999])
    assert tokens == [0, 0, 1, 1, 2, 2, 3, 3]
    assert logprobs == pytest.approx([math.log(PROBABILITIES[token]) for token in tokens])


@pytest.mark.parametrize("vocabulary", [11, BLOCK, BLOCK + 1, 5 * BLOCK - 1])
def test_agrees_with_numpy_on_random_distributions(vocabulary):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, vocabulary)).astype(np.float32)
    noise = rng.random(200)
    tokens, logprobs = draw_tokens(
        torch.from_numpy(logits), torch.from_numpy(noise), sampling(temperature=0.7)
    )
    scaled = np.exp(logits.astype(np.float64) / 0.7)
    probabilities = scaled / scaled.sum(1, keepdims=True)
    expected = [
        np.searchsorted(p.cumsum(), u, side="right") for p, u in zip(probabilities, noise, strict=True)
    ]
    assert tokens.tolist() == expected
    np.testing.assert_allclose(logprobs, np.log(probabilities[np.arange(200), expected]), atol=1e-6)


def test_a_token_of_probability_0_is_never_drawn():
    edges = [0.0, 2.0**-53, 0.5 - 2.0**-53, 0.5, 1 - 2.0**-53]
    tokens, _ = draw([0.0, 0.5, 0.0, 0.5, 0.0], edges)
    assert tokens == [1, 1, 1, 3, 3]
    tokens, _ = draw([0.0, 0.0, 1.0], edges)
    assert tokens == [2] * 5


def test_nor_is_one_of_a_block_without_any_probability():
    likely = [BLOCK - 1, 3 * BLOCK, 4 * BLOCK + 2]
    probabilities = [0.0] * (5 * BLOCK + 7)
    for token, probability in zip(likely, (0.25, 0.5, 0.25), strict=True):
        probabilities[token] = probability
    below = 2.0**-53
    tokens, _ = draw(probabilities, [0.0, 0.25 - below, 0.25, 0.75 - below, 0.75, 1 - below])
    assert tokens == [likely[0]] * 2 + [likely[1]] * 2 + [likely[2]] * 2


def test_behaviour_logprobs_are_those_of_the_truncated_distribution_at_the_temperature():
    # Squared and renormalised at temperature ½, the two likeliest are 0.25 and 0.0625.
    tokens, logprobs = draw(PROBABILITIES, [0.0, 0.79, 0.81, 0.99], temperature=0.5, top_k=2)
    assert tokens == [1, 1, 3, 3]
    assert logprobs == pytest.approx([math.log(0.8)] * 2 + [math.log(0.2)] * 2)


def test_greedy_takes_the_likeliest_and_still_tells_its_logprob_at_the_temperature():
    tokens, logprobs = draw(PROBABILITIES, [0.0, 0.99], temperature=0.5, greedy=True)
    assert tokens == [1, 1]
    assert logprobs == pytest.approx([math.log(0.25 / (0.01 + 0.25 + 0.0225 + 0.0625))] * 2)
