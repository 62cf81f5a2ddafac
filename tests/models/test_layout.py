"""The layout that is chosen is the cheapest of those that are tried, by an independent search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from taut.models.layout import (
    CAUSAL_PAIRS,
    LAYER_COST,
    PAIR_COST,
    PASS_TOKENS,
    Costs,
    cut,
    decoder_costs,
    lay_out,
)

SMOLLM2 = Costs(106e6, PAIR_COST * 2 * 30 * 576, PASS_TOKENS * 106e6 + 30 * LAYER_COST)
"""Of SmolLM2-135M: 30 layers of width 576."""
PLENTY = 10**9


@pytest.mark.parametrize(
    ("prompts", "lengths", "pair", "rows"),
    [
        # 4 × 12 = 48 tokens, against 10 + 4 · 2 = 18 in one row.
        ([(0,) * 10] * 4, [2] * 4, 0.0, [[0, 1, 2, 3]]),
        # One, two and four a row: 40 + 300 p, 36 + 648 p, 34 + 1156 p.
        ([(0,) * 2] * 4, [8] * 4, 0.0, [[0, 1, 2, 3]]),
        ([(0,) * 2] * 4, [8] * 4, 0.01, [[0, 1], [2, 3]]),
        ([(0,) * 2] * 4, [8] * 4, 0.1, [[0], [1], [2], [3]]),
        ([(0,), (1,), (2,)], [5, 5, 5], 0.0, [[0], [1], [2]]),  # nothing to share
        # 6 + 2 + 2 in a row and the 3 of the other, against 8 + 8 + 3.
        ([(0,) * 6, (1,), (0,) * 6], [2, 2, 2], 0.0, [[1], [0, 2]]),
    ],
)
def test_the_cheapest_rows_are_chosen(prompts, lengths, pair, rows):
    assert [row for fed in lay_out(prompts, lengths, Costs(1.0, pair), PLENTY) for row in fed] == rows


def test_long_replies_share_a_row_by_fours():
    """Eight in a row would attend across each other for too long.

    Replies a row 1, 2, 4, 8: 11200 + 11.76e6 p, 7200 + 12.96e6 p, 5200 + 13.52e6 p, 4200 + 17.64e6 p.
    """
    prompts, lengths = [(0,) * 1000] * 8, [400] * 8
    assert lay_out(prompts, lengths, Costs(1.0, 5e-4, 1e9), PLENTY) == [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    assert lay_out(prompts, lengths, Costs(1.0, 2e-4, 1e9), PLENTY) == [[list(range(8))]]
    assert lay_out(prompts, lengths, Costs(1.0, 4e-3, 1e9), PLENTY) == [[[n] for n in range(8)]]


def test_a_family_that_cannot_share_has_a_row_each():
    prompts, lengths = [(0,) * 10] * 3, [2] * 3
    assert lay_out(prompts, lengths, Costs(1.0, 0.0, 100.0, shares=False), PLENTY) == [[[0], [1], [2]]]


def test_rows_that_the_budget_cannot_hold_are_not_shared():
    """Four in a row are 18 tokens, two are 14, one is 12."""
    prompts, lengths, costs = [(0,) * 10] * 4, [2] * 4, Costs(1.0, 0.0)
    assert lay_out(prompts, lengths, costs, 18) == [[[0, 1, 2, 3]]]
    assert lay_out(prompts, lengths, costs, 17) == [[[0, 1]], [[2, 3]]]
    assert lay_out(prompts, lengths, costs, 13) == [[[0]], [[1]], [[2]], [[3]]]
    assert lay_out(prompts, lengths, costs, 5) == [[[0]], [[1]], [[2]], [[3]]]  # too long, and so alone
    # The shorter ones together: 4 + 1 + 1 and 4 + 9 + 9.
    assert lay_out([(0,) * 4] * 4, [9, 1, 9, 1], costs, 22) == [[[1, 3]], [[0, 2]]]


@pytest.mark.parametrize(
    ("start", "max_tokens", "passes"),
    [
        # In one pass 4 × 9 tokens, 15 of them pads; [2, 3] and [7, 9] have 2 · 3 + 2 · 9, 3 of them pads.
        (15.0, PLENTY, [[2, 0, 3, 1]]),
        (11.0, PLENTY, [[2, 0], [3, 1]]),
        (0.5, PLENTY, [[2], [0], [3], [1]]),
        (15.0, 18, [[2, 0], [3, 1]]),
        (15.0, 17, [[2, 0], [3], [1]]),  # 3 × 2 fit, 9 × 2 do not
        (15.0, 1, [[2], [0], [3], [1]]),
    ],
)
def test_passes_are_cut_where_pads_would_cost_more_than_another(start, max_tokens, passes):
    assert cut([3, 9, 2, 7], Costs(1.0, 0.0, start), max_tokens, shared=False)[0] == passes


@pytest.mark.parametrize("seed", range(6))
def test_no_cut_of_the_sorted_rows_is_cheaper(seed):
    """Against all 2⁹ of them, attention included."""
    random = np.random.default_rng(seed)
    widths = random.integers(1, 40, size=10).tolist()
    costs = Costs(1.0, 0.05, float(random.integers(1, 60)))
    ordered = sorted(widths)

    def price(part: list[int]) -> float:
        if len(part) > 1 and len(part) * part[-1] > 120:
            return float("inf")
        return costs.start + len(part) * part[-1] * (1 + CAUSAL_PAIRS * 0.05 * part[-1])

    def total(cuts: int) -> float:
        ends = [0, *(n + 1 for n in range(9) if cuts >> n & 1), 10]
        return sum(price(ordered[a:b]) for a, b in pairwise(ends))

    passes, cost = cut(widths, costs, 120, shared=False)
    assert cost == pytest.approx(min(total(cuts) for cuts in range(2**9)))
    assert sorted(row for part in passes for row in part) == list(range(10))


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_real_mix_of_lengths_has_few_pads(seed, shares):
    """8 replies to each of 8 prompts of 40 to 200 tokens; the longest is some 20 times the shortest."""
    random = np.random.default_rng(seed)
    prompts = [(n,) * int(random.integers(40, 200)) for n in range(8) for _ in range(8)]
    prompts = [prompts[n - n % 8] for n in range(64)]
    lengths = random.lognormal(np.log(150), 0.7, 64).astype(int).tolist()
    costs = Costs(SMOLLM2.token, SMOLLM2.pair, SMOLLM2.start, shares)
    passes = lay_out(prompts, lengths, costs, max_tokens=8192)
    widths = [[len(prompts[row[0]]) + sum(lengths[reply] for reply in row) for row in fed] for fed in passes]
    places = [len(fed) * max(fed) for fed in widths]
    assert max(places) <= 8192
    assert 0 < 1 - sum(map(sum, widths)) / sum(places) < 0.05
    assert sorted(reply for fed in passes for row in fed for reply in row) == list(range(64))


def test_costs_are_those_of_the_model(make_model):
    """A Llama of 2 layers: what is multiplied is all but its embedding."""
    model = make_model("Llama")
    config = model.config
    matrices = sum(p.numel() for n, p in model.named_parameters() if "embed" not in n and "lm_head" not in n)
    costs = decoder_costs(model)
    assert costs == Costs(
        matrices,
        4 * config.num_hidden_layers * config.hidden_size,
        32 * matrices + 8e6 * config.num_hidden_layers,
    )
