"""Replies behind one prompt in one row: logprobs, values and gradients are those of a row each."""

from __future__ import annotations

import pytest
import torch

from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation
from taut.models.layout import PROVED, decoder_costs
from taut.models.packing import pack
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences

PROMPTS = [(1, 2, 3), (1, 2, 3), (1, 2, 3), (4, 5), (4, 5), (6,)]
REPLIES = [(7, 12), (3,), (5, 5, 5), (8, 9, 10, 12), (1, 12), (2, 3)]
SHARED = (3, 2, 1)
PLAIN = {"Gemma2", "Gemma3", "Mistral"}
"""Families that forget, as the tests make them, or attend by other code."""


def results(model, shared, ends, temperature=0.7):
    """Everything that a pass gives, and the gradient of a sum with a weight of its own for each number."""
    mask = torch.arange(4) < torch.tensor([len(r) for r in REPLIES])[:, None]
    mask[3, 1] = False  # told by an environment
    sequences = pad_sequences(PROMPTS, REPLIES, "cpu", mask, shared, ends)
    found = model(sequences, temperature) if isinstance(model, Policy) else model(sequences)
    model.zero_grad()
    random = torch.Generator().manual_seed(3)
    sum((x * torch.randn(x.shape, generator=random)).sum() for x in found).backward()
    return sequences, found, [p.grad.clone() for p in model.parameters() if p.grad is not None]


def check_equal(model, ends):
    plain, expected, gradients = results(model, None, True)
    packed, found, own = results(model, SHARED, ends)
    assert plain.packing is None
    assert packed.packing is not None
    assert packed.input_ids.numel() < plain.input_ids.numel()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert len(own) == len(gradients) > 0
    for x, y in zip(own, gradients, strict=True):
        assert (x - y).abs().max() <= 1e-5 * max(1.0, float(y.abs().max()))


def test_logprobs_and_gradients_are_those_of_the_plain_layout(make_model, family):
    policy = Policy(make_model(family))
    assert policy.costs.shares == (family not in PLAIN)
    if family not in PLAIN:
        check_equal(policy, ends=False)
        check_equal(policy, ends=True)


def test_values_are_those_of_the_plain_layout_at_the_ends_too(make_model, family):
    critic = Critic(make_model(family).base_model)
    with torch.no_grad():
        critic.head.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    assert critic.costs.shares == (family not in PLAIN)
    if family not in PLAIN:
        check_equal(critic, ends=True)


def test_every_family_that_is_said_to_be_proved_is(make_model, family):
    windowless = {"sliding_window": None} if family == "Mistral" else {}
    policy = Policy(make_model(family, **windowless))
    assert policy.costs.shares == (family not in {"Gemma2", "Gemma3"})
    assert policy.costs.shares == (type(policy.model.config).__name__ in PROVED)
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
    assert not decoder_costs(model).shares


def test_a_row_is_laid_out_as_it_should_be():
    ids, packing = pack([(1, 2), (1, 2), (3,)], [(5, 6, 7), (4, 4), (8, 9)], [2, 1], "cpu", ends=False)
    assert ids == [[1, 2, 5, 6, 4], [3, 8]]
    assert packing.position_ids.tolist() == [[0, 1, 2, 3, 2], [0, 1, 0, 0, 0]]
    assert (packing.rows.tolist(), packing.starts.tolist()) == ([0, 0, 1], [2, 4, 1])
    assert packing.attention()[:, 0].int().tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_mask_is_kept_once_and_not_by_every_layer(make_model, dtype):
    """Told by its size: 24 × 24 numbers, and no other tensor of 2 layers has as many."""
    policy = Policy(make_model("Llama").to(dtype))
    sequences = pad_sequences([(1, 2, 3, 4)] * 4, [(5,) * 5] * 4, "cpu", None, [4])
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(x):
        kept[x.untyped_storage()._cdata] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        policy.hidden_states(**sequences.inputs(), use_cache=False)
    assert [storage.nbytes() for storage in kept.values()].count(24 * 24 * dtype.itemsize) == 1
