"""What the microscope derives from stored arrays is what the code that trained says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from made_up_site import Server
from playwright.sync_api import Page

from taut.objective.advantage import gae
from taut.objective.kl import token_kl
from taut.objective.policy import clip_statistics
from taut.store import ReplyRecord, Run, RunWriter, StepRecord, UpdateRecord
from taut.store.clip import clip_of
from taut.training.derive import clip_states

Golden = Callable[..., list[Any]]
LENGTHS = (3, 9, 1, 5)
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"clip_low": 0.2, "clip_high": 0.2},
    "open": {"clip_low": None, "clip_high": 0.1},
    "dual": {"clip_low": 0.1, "clip_high": 0.3, "dual_clip": 1.2},
    "cispo": {"clip_low": 0.2, "clip_high": 0.1, "surrogate": "cispo"},
    "gspo": {"clip_low": 0.02, "clip_high": 0.02, "ratio_level": "sequence"},
    "sapo": {"clip_low": 0.2, "clip_high": 0.2, "surrogate": "sapo"},
    "dppo": {"clip_low": 0.05, "clip_high": 0.1, "surrogate": "dppo"},
}


def floats(rng: np.random.Generator, length: int, scale: float = 1.0) -> np.ndarray:
    return (scale * rng.standard_normal(length)).astype(np.float32)


def write(server: Server, name: str, constants: dict[str, Any]) -> Run:
    """Four replies, one without a trained token; two epochs of two minibatches, shuffled."""
    rng = np.random.default_rng(3)
    replies = []
    for row, length in enumerate(LENGTHS):
        mask = (rng.random(length) < 0.8) & (row != 3)
        old, advantages = -np.abs(floats(rng, length)), floats(rng, length)
        advantages[::4] = 0
        old[~mask] = np.nan
        replies.append(
            ReplyRecord(
                *(0, 0, row, 0, "", np.array([1], np.int32), "", np.arange(length, dtype=np.int32), mask),
                reward=0.0 if mask.any() else float("nan"),
                finish_reason="stop",
                behavior_logprobs=np.nan_to_num(old),
                old_logprobs=old,
                advantages=advantages,
            )
        )
    updates = [
        UpdateRecord(epoch, minibatch, np.array(rows), [drifted(rng, replies[row]) for row in rows])
        for epoch, cut in enumerate([([0, 1], [2, 3]), ([3, 1], [2, 0])])
        for minibatch, rows in enumerate(cut)
    ]
    with RunWriter.create(server.root / name, "model:\n  path: careless-adder\n", {}) as writer:
        writer.append(StepRecord(1, constants, {}, replies, updates))
    return Run.open(server.root / name)


def drifted(rng: np.random.Generator, reply: ReplyRecord) -> np.ndarray:
    assert reply.old_logprobs is not None
    return reply.old_logprobs + floats(rng, len(reply.ids), 0.4)


# The states of maths/microscope.js.
HELD_HIGH, HELD_LOW, FREE_HIGH, FREE_LOW, DUAL = 1, 2, 3, 4, 5


def codes(state: Any) -> np.ndarray:
    """A ClipState as the page's numbers."""
    high, low, binding, dual = (getattr(state, name).numpy() for name in ("high", "low", "binding", "dual"))
    found = np.where(high, np.where(binding, HELD_HIGH, FREE_HIGH), 0)
    found = np.where(low, np.where(binding, HELD_LOW, FREE_LOW), found)
    return np.where(dual, DUAL, found)


MOMENTS = """async (path) => {
    const { readTokens } = await import("taut/maths/token_batch.js");
    const { momentOf, trackOf } = await import("taut/pages/microscope/state.js");
    const batch = readTokens(await (await fetch(path)).arrayBuffer());
    const list = (array) => Array.from(array);
    return {
        starts: batch.replies.map((reply) => reply.start),
        track: trackOf(batch, 4),
        moments: batch.optimizer_steps.map((_, at) => {
            const { ratio, states, logprobs, seenAt } = momentOf(batch, at);
            return { ratio: list(ratio), states: list(states), logprobs: list(logprobs), seenAt };
        }),
    };
}"""


@pytest.mark.parametrize("name", SETTINGS)
def test_every_moment_of_a_batch_is_what_the_update_saw(page: Page, server: Server, name: str) -> None:
    run = write(server, f"moments of {name}", SETTINGS[name])
    page.goto("/glossary")
    found = page.evaluate(MOMENTS, f"/api/runs/moments of {name}/steps/1/tokens")
    batch = run.batch(1)
    held = 0
    for at, (update, state) in enumerate(zip(batch.updates, clip_states(batch), strict=True)):
        moment = {key: np.array(value, float) for key, value in found["moments"][at].items()}
        expected = codes(state)
        for place, row in enumerate(update.rows):
            own = slice(found["starts"][row], found["starts"][row] + LENGTHS[row])
            mask = batch.response_mask[row, : LENGTHS[row]]
            ratio = state.ratio[place, : LENGTHS[row]].numpy()
            np.testing.assert_allclose(moment["ratio"][own][mask], ratio[mask], rtol=2.5e-7)
            assert np.isnan(moment["ratio"][own][~mask]).all()
            assert (
                moment["states"][own].tolist() == np.where(mask, expected[place, : LENGTHS[row]], 0).tolist()
            )
            assert moment["seenAt"][row] == at
            held += int(np.isin(moment["states"][own], (HELD_HIGH, HELD_LOW, DUAL)).sum())
        # Between its sightings a token stands as `Run.tokens` has it.
        rows = run.tokens(1, at)
        seen = np.array([np.nan if row["logprob"] is None else row["logprob"] for row in rows])
        np.testing.assert_array_equal(moment["logprobs"], seen)
        assert [-1 if row["seen_at"] is None else row["seen_at"] for row in rows] == np.repeat(
            moment["seenAt"], LENGTHS
        ).tolist()
    assert (held > 0) == (name != "sapo")
    track = found["track"]  # token 1 of reply 1, seen at 0 and 2
    assert [(one["optimizerStep"], one["epoch"]) for one in track] == [(0, 0), (2, 1)]
    assert [one["ratio"] for one in track] == [found["moments"][at]["ratio"][4] for at in (0, 2)]


def test_a_ratio_on_the_edge_is_inside(golden: Golden) -> None:
    edge, next_up = float(np.float32(1.2)), float(np.nextafter(np.float32(1.2), np.float32(2)))
    constants = {"clip_low": 0.2, "clip_high": 0.2}
    cases = [
        (
            "clipStates",
            [[edge, next_up, float(np.float32(0.8)), 0.79], [1, 1, -1, -1], [1, 1, 1, 1], constants],
        )
    ]
    assert golden("taut/maths/microscope.js", cases) == [[0, HELD_HIGH, 0, HELD_LOW]]


def test_td_errors_are_gae_at_lambda_zero(golden: Golden) -> None:
    rng = np.random.default_rng(5)
    for gamma, bootstrap in [(1.0, 0.0), (0.9, 0.7)]:
        rewards, values, mask = floats(rng, 12), floats(rng, 12), rng.random(12) < 0.6
        arrays = [torch.from_numpy(x)[None] for x in (rewards, values, mask)]
        expected, _ = gae(*arrays, gamma, 0.0, torch.tensor([bootstrap]))
        given = [rewards.tolist(), values.tolist(), mask.tolist(), gamma, bootstrap]
        [found] = golden("taut/maths/microscope.js", [("tdErrors", given)])
        np.testing.assert_allclose(np.array(found)[mask], expected[0].numpy()[mask], atol=1e-6)
        assert np.isnan(np.array(found)[~mask]).all()


def test_kl_estimates_are_the_objective_s(golden: Golden) -> None:
    rng = np.random.default_rng(6)
    logprobs, ref, mask = floats(rng, 9), floats(rng, 9), rng.random(9) < 0.7
    [found] = golden(
        "taut/maths/microscope.js", [("klEstimates", [logprobs.tolist(), ref.tolist(), mask.tolist()])]
    )
    for name, values in found.items():
        expected = token_kl(*(torch.from_numpy(x) for x in (logprobs, ref, mask)), name)
        np.testing.assert_allclose(np.array(values)[mask], expected.numpy()[mask], rtol=1e-5, atol=1e-7)
    assert list(found) == ["k1", "k2", "k3"]


def test_the_anatomy_counts_what_the_metrics_share_out(golden: Golden, server: Server) -> None:
    run = write(server, "anatomy", SETTINGS["dual"])
    batch = run.batch(1)
    assert batch.advantages is not None
    update, state = batch.updates[2], clip_states(batch)[2]
    mask = state.mask.numpy()
    ratio = np.where(mask, state.ratio.numpy(), np.nan).ravel().tolist()
    given = [codes(state).ravel().tolist(), batch.advantages[update.rows].ravel().tolist(), ratio]
    given.append(SETTINGS["dual"])
    [found] = golden("taut/maths/microscope.js", [("anatomy", given)])
    shares, tokens = clip_statistics(state), found["tokens"]
    assert tokens == mask.sum()
    assert found["held"] / tokens == shares["clip/binding"] + shares["clip/dual"]
    assert found["outside"] / tokens == shares["clip/outside"]
    positive, zero, negative = (found[name] for name in ("positive", "zero", "negative"))
    assert (positive["below"] + positive["above"]) / tokens == shares["clip/outside_positive"]
    assert (negative["below"] + negative["above"]) / tokens == shares["clip/outside_negative"]
    assert (
        sum(row[side] for row in (positive, zero, negative) for side in ("below", "inside", "above"))
        == tokens
    )


def test_the_histogram_puts_each_ratio_in_its_bin(golden: Golden) -> None:
    ratios = [1.0, 1.0, np.exp(0.9), np.exp(-0.9), 100.0, 0.0, float("nan")]
    [found] = golden("taut/maths/microscope.js", [("ratioHistogram", [ratios, 1.0, 4])])
    assert found == [2, 0, 2, 2]


def test_the_standing_sighting(golden: Golden) -> None:
    cases = [("standing", [[2, 5], at]) for at in range(7)]
    assert golden("taut/maths/microscope.js", cases) == [-1, -1, 0, 0, 0, 1, 1]


def test_what_a_dual_clip_below_the_range_s_edge_holds_is_inside(golden: Golden) -> None:
    constants = {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": 1.05}
    ratio, advantages = np.array([[1.1, 1.3, 1.0]], np.float32), np.full((1, 3), -1, np.float32)
    mask = np.ones((1, 3), bool)
    state = clip_of(np.log(ratio), np.zeros_like(ratio), advantages, mask, constants)
    assert state.dual.tolist() == [[True, True, False]]
    assert (state.high | state.low).tolist() == [[False, True, False]]
    columns = [x[0].tolist() for x in (ratio, advantages, mask)]
    [states] = golden("taut/maths/microscope.js", [("clipStates", [*columns, constants])])
    given = [states, columns[1], columns[0], constants]
    [found] = golden("taut/maths/microscope.js", [("anatomy", given)])
    assert found["negative"] == {"below": 0, "inside": 2, "above": 1, "held": 2}
    assert (found["outside"], found["held"]) == (1, 2)
