"""Replies behind one prompt in one row: logprobs, values and gradients are those of a row each."""

from __future__ import annotations

import pytest
import torch

from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation
from taut.models.packing import PROVED, Costs, choose_rows, pack, packing_costs
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences

PROMPTS = [(1, 2, 3), (4, 5), (1, 2, 3), (1, 2, 3), (4, 5), (6,)]
REPLIES = [(7, 12), (8, 9, 10, 12), (3,), (5, 5, 5), (1, 12), (2, 3)]
FREE_ATTENTION = Costs(token=1.0, pair=0.0)
PLAIN = {"Gemma2", "Gemma3", "Mistral"}
"""Families that forget, as the tests make them, or attend by other code."""


def results(model, costs, ends, temperature=0.7):
    """Everything that a pass gives, and the gradient of a sum with a weight of its own for each number."""
    mask = torch.arange(4) < torch.tensor([len(r) for r in REPLIES])[:, None]
    mask[1, 1] = False  # told by an environment
    sequences = pad_sequences(PROMPTS, REPLIES, "cpu", mask, costs, ends)
    found = model(sequences, temperature) if isinstance(model, Policy) else model(sequences)
    model.zero_grad()
    random = torch.Generator().manual_seed(3)
    sum((x * torch.randn(x.shape, generator=random)).sum() for x in found).backward()
    return sequences, found, [p.grad.clone() for p in model.parameters() if p.grad is not None]


def check_equal(model, ends):
    plain, expected, gradients = results(model, None, True)
    packed, found, own = results(model, FREE_ATTENTION, ends)
    assert plain.packing is None
    assert packed.packing is not None
    assert packed.input_ids.numel() < plain.input_ids.numel()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert len(own) == len(gradients) > 0
    for x, y in zip(own, gradients, strict=True):
        assert (x - y).abs().max() <= 1e-5 * max(1.0, float(y.abs().max()))


def test_logprobs_and_gradients_are_those_of_the_plain_layout(make_model, family):
    policy = Policy(make_model(family))
    assert (policy.packing is None) == (family in PLAIN)
    if family not in PLAIN:
        check_equal(policy, ends=False)
        check_equal(policy, ends=True)


def test_values_are_those_of_the_plain_layout_at_the_ends_too(make_model, family):
    critic = Critic(make_model(family).base_model)
    with torch.no_grad():
        critic.head.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    assert (critic.packing is None) == (family in PLAIN)
    if family not in PLAIN:
        check_equal(critic, ends=True)


def test_every_family_that_is_said_to_be_proved_is(make_model, family):
    windowless = {"sliding_window": None} if family == "Mistral" else {}
    policy = Policy(make_model(family, **windowless))
    assert (policy.packing is not None) == (family not in {"Gemma2", "Gemma3"})
    assert (policy.packing is not None) == (type(policy.model.config).__name__ in PROVED)
    if family == "Mistral":
        check_equal(policy, ends=False)


@pytest.mark.parametrize("family", ["GPT2", "Llama"])
def test_layers_that_are_computed_again_give_the_same(make_model, family):
    model = make_model(family)
    enable_recomputation(model)
    check_equal(Policy(model), ends=False)


def test_a_row_may_be_longer_than_the_positions_there_are(make_model):
    """Each reply has the positions it would have alone: 7 at the most, in rows of 9 tokens."""
    check_equal(Policy(make_model("GPT2", n_positions=8)), ends=True)


def test_another_attention_stays_plain(make_model):
    model = make_model("Llama")
    model.set_attn_implementation("eager")
    assert packing_costs(model) is None


def test_a_row_is_laid_out_as_it_should_be():
    ids, packing = pack([(1, 2), (3,), (1, 2)], [(5, 6, 7), (8, 9), (4, 4)], [[0, 2], [1]], "cpu", ends=False)
    assert ids == [[1, 2, 5, 6, 4], [3, 8]]
    assert packing.position_ids.tolist() == [[0, 1, 2, 3, 2], [0, 1, 0, 0, 0]]
    assert (packing.rows.tolist(), packing.starts.tolist()) == ([0, 1, 0], [2, 1, 4])
    assert packing.attention[:, 0].int().tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    ]


@pytest.mark.parametrize(
    ("prompts", "lengths", "pair", "rows"),
    [
        # 4 × 12 = 48 tokens, against 10 + 4 · 2 = 18 in one row.
        ([(0,) * 10] * 4, [2] * 4, 0.0, [[0, 1, 2, 3]]),
        # One, two and four a row: 40 + 300 p, 36 + 648 p, 34 + 1156 p.
        ([(0,) * 2] * 4, [8] * 4, 0.0, [[0, 1, 2, 3]]),
        ([(0,) * 2] * 4, [8] * 4, 0.01, [[0, 1], [2, 3]]),
        ([(0,) * 2] * 4, [8] * 4, 0.1, None),
        ([(0,), (1,), (2,)], [5, 5, 5], 0.0, None),  # nothing to share
        # 6 + 2 + 2 in a row, against two rows of 8.
        ([(0,) * 6, (1,), (0,) * 6], [2, 2, 2], 0.0, [[0, 2], [1]]),
    ],
)
def test_the_cheapest_layout_is_chosen(prompts, lengths, pair, rows):
    assert choose_rows(prompts, lengths, Costs(1.0, pair)) == rows


def test_long_replies_share_a_row_by_fours():
    """Eight in a row would attend across each other for too long.

    Replies a row 1, 2, 4, 8: 11200 + 11.76e6 p, 7200 + 12.96e6 p, 5200 + 13.52e6 p, 4200 + 17.64e6 p.
    """
    prompts, lengths = [(0,) * 1000] * 8, [400] * 8
    assert choose_rows(prompts, lengths, Costs(1.0, 5e-4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert choose_rows(prompts, lengths, Costs(1.0, 2e-4)) == [list(range(8))]
    assert choose_rows(prompts, lengths, Costs(1.0, 4e-3)) is None
