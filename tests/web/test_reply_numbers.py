"""What lists say of the clip, in NumPy, is what the code that trained says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from taut.objective.kl import token_kl
from taut.store import ReplyRecord, Run, RunWriter, StepRecord, UpdateRecord
from taut.store.part import reply_tokens
from taut.training.derive import clip_states
from taut.web.reply_numbers import reply_numbers

SETTINGS: dict[str, dict[str, object]] = {
    "clipped": {},
    "wide above": {"clip_high": 0.28},
    "open below": {"clip_low": None},
    "dual": {"dual_clip": 1.5},
    "cispo": {"surrogate": "cispo"},
    "gspo": {"ratio_level": "sequence", "clip_low": 3e-2, "clip_high": 4e-2},
    "sapo": {"surrogate": "sapo"},
    "dppo": {"surrogate": "dppo", "clip_low": 0.05, "clip_high": 0.05},
    "weighed": {"importance": "truncate"},
}


def random_batch(directory: Path, constants: dict[str, object]) -> Run:
    """Eight replies of 1 to 90 tokens, three optimiser steps over all of them, of which the second was not applied."""
    rng = np.random.default_rng(0)

    def floats(length: int, scale: float = 1.0) -> np.ndarray:
        return (scale * rng.standard_normal(length)).astype(np.float32)

    replies, lengths = [], (1, 7, 30, 90, 2, 5, 12, 40)
    for number, length in enumerate(lengths):
        old = -np.abs(floats(length))
        mask = rng.random(length) < 0.8
        mask[0] = number != 4  # reply 4 has no trained token
        mask[1:] &= number != 4
        arrays = {"behavior_logprobs": old, "old_logprobs": old, "ref_logprobs": old + floats(length, 0.1)}
        advantages = np.where(rng.random(length) < 0.1, 0, floats(length)).astype(np.float32)
        replies.append(
            ReplyRecord(
                *(number, number, 0, 0, "", np.array([1], np.int32), "", np.zeros(length, np.int32), mask),
                reward=0.0,
                finish_reason="stop",
                advantages=advantages,
                **arrays,
            )
        )
    rows = np.arange(len(lengths))
    updates = [
        UpdateRecord(
            epoch,
            0,
            rows,
            [r.old_logprobs + floats(len(r.ids), 0.2) for r in replies],
            {},
            applied=epoch != 1,
        )
        for epoch in range(3)
    ]
    with RunWriter.create(directory, "", {}) as writer:
        writer.append(StepRecord(1, constants, {}, replies, updates))
    return Run.open(directory)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_numbers_are_those_of_the_objective(tmp_path: Path, settings: dict[str, object]) -> None:
    constants = {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None, **settings}
    run = random_batch(tmp_path / "run", constants)
    batch, states = run.batch(1), clip_states(run.batch(1))
    assert batch.old_logprobs is not None
    assert batch.ref_logprobs is not None
    taken = [state for state, update in zip(states, batch.updates, strict=True) if update.applied]
    mask = torch.from_numpy(batch.response_mask)
    kl = token_kl(torch.from_numpy(batch.old_logprobs), torch.from_numpy(batch.ref_logprobs), mask, "k3")
    applied = [update.applied for update in batch.updates]
    shares = []
    for tokens in reply_tokens(run, 1, range(8)):
        found = reply_numbers(tokens, batch.constants, applied)
        row, trained = tokens.reply, int(tokens.mask.sum())
        if not trained:
            assert set(found.values()) == {None}
            continue
        held = sum(int(state.binding[row].sum()) for state in taken)
        assert found["clip/binding"] == held / (trained * len(taken))
        shares.append(held)
        ratios = torch.cat([state.ratio[row][mask[row]] for state in taken])
        assert found["ratio/max"] == pytest.approx(float(ratios.max()), rel=3e-7)
        assert found["ratio/min"] == pytest.approx(float(ratios.min()), rel=3e-7)
        assert found["kl/ref_k3"] == pytest.approx(float(kl[row].sum()) / trained, abs=1e-7)
        last = torch.from_numpy(batch.updates[-1].logprobs)[row] - torch.from_numpy(batch.old_logprobs)[row]
        moved = last[mask[row]]
        assert found["kl/old_k3"] == pytest.approx(float((moved.exp() - 1 - moved).mean()), abs=1e-6)
    assert (sum(shares) > 0) == (settings.get("surrogate") != "sapo")


def test_a_run_without_these_arrays_has_none_of_these_numbers(tmp_path: Path) -> None:
    run = random_batch(tmp_path / "run", {"clip_low": 0.2, "clip_high": 0.2})
    [tokens] = reply_tokens(run, 1, [3], columns=["advantages"])
    assert set(reply_numbers(tokens, {}, [True] * 3).values()) == {None}
    whole = reply_tokens(run, 1, [3])[0]
    unseen = replace(whole, sightings=[])
    numbers = reply_numbers(unseen, {}, [])
    assert numbers["clip/binding"] is None
    assert numbers["kl/ref_k3"] is not None
