"""Clip states by NumPy are those of the code that trained."""

import dataclasses

import numpy as np
import pytest

from taut.store.batch import StoredUpdate, padded_batch
from taut.store.clip import token_clips
from taut.store.record import ReplyRecord
from taut.training.derive import clip_states

LENGTHS = (3, 9, 1, 5)


def batch_of(constants, scale=0.3):
    rng = np.random.default_rng(7)

    def floats(length, scale=1.0):
        return (scale * rng.standard_normal(length)).astype(np.float32)

    replies = [
        ReplyRecord(
            *(0, 0, row, 0, "", np.array([1]), "", np.arange(length), rng.random(length) < 0.8, 1.0, "stop"),
            behavior_logprobs=floats(length),
            old_logprobs=floats(length),
            advantages=floats(length) * (row != 1),
        )
        for row, length in enumerate(LENGTHS)
    ]
    replies[3].mask[:] = False  # a reply without a reward
    batch = padded_batch(1, constants, replies, [])
    for epoch, rows in enumerate(([0, 1, 2, 3], [3, 1], [2, 0])):
        logprobs = batch.old_logprobs[rows] + scale * floats((len(rows), max(LENGTHS)))
        batch.updates.append(StoredUpdate(epoch, 0, np.array(rows), logprobs, True, {}))
    # What is not trained on may hold anything.
    batch.old_logprobs[~batch.response_mask] = np.nan
    batch.advantages[~batch.response_mask] = np.nan
    return batch


@pytest.mark.parametrize(
    "constants",
    [
        {"clip_low": 0.2, "clip_high": 0.2},
        {"clip_low": 0.1, "clip_high": 0.3, "dual_clip": 1.5},
        {"clip_low": None, "clip_high": 0.1},
        {"clip_low": 0.02, "clip_high": 0.02, "ratio_level": "sequence"},
        {"clip_low": 0.2, "clip_high": 0.1, "surrogate": "cispo"},
        {"clip_low": 0.05, "clip_high": 0.1, "surrogate": "dppo"},
    ],
)
def test_states_are_those_of_the_objective(constants):
    batch = batch_of(constants)
    found, expected = token_clips(batch), clip_states(batch)
    assert len(found) == len(expected) == 3
    assert any(clip.held.any() for clip in found)
    for ours, theirs, update in zip(found, expected, batch.updates, strict=True):
        mask = batch.response_mask[update.rows]
        np.testing.assert_allclose(ours.ratio[mask], theirs.ratio.numpy()[mask], rtol=1e-6)
        assert np.isnan(ours.ratio[~mask]).all()
        for name in ("high", "low", "binding", "dual"):
            assert (getattr(ours, name) == getattr(theirs, name).numpy()).all(), name
    if "dual_clip" in constants:
        assert any(clip.dual.any() for clip in found)


def test_a_ratio_on_the_edge_is_inside():
    batch = batch_of({"clip_low": 0.0, "clip_high": 0.0})
    for update in batch.updates:
        update.logprobs[:] = batch.old_logprobs[update.rows]
    for clip in token_clips(batch):
        assert not (clip.high | clip.low | clip.held).any()
        assert set(clip.ratio[~np.isnan(clip.ratio)]) == {1.0}


def test_what_is_missing_is_named():
    batch = dataclasses.replace(batch_of({}), advantages=None)
    with pytest.raises(ValueError, match="stored without advantages"):
        token_clips(batch)
