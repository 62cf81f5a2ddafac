"""Rewards on their way to the advantages; and replies that have none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from taut.training.advantages import BASELINES, estimate_advantages
from taut.training.batch import collate
from taut.training.metrics import step_metrics
from taut.training.record import step_record
from taut.training.shaping import RewardShaper, RunningMoments, overlong_penalty
from taut.types import Score, Trace


def shaped(make_config, batch, rewards, **settings):
    config = make_config(**{f"scoring__{key}": value for key, value in settings.items()})
    return RewardShaper(config)(replace(batch, rewards=torch.tensor(rewards))).rewards.tolist()


def test_without_settings_rewards_stay_as_they_are(make_config, make_batch):
    assert shaped(make_config, make_batch(), [float(i) for i in range(8)]) == [float(i) for i in range(8)]


def test_clipping_bounds_both_sides_and_keeps_what_is_absent(make_config, make_batch):
    found = shaped(make_config, make_batch(), [-9.0, -1.0, 0.0, 1.0, 9.0, float("nan"), 2.0, -2.0], clip=2)
    assert found[:5] + found[6:] == [-2.0, -1.0, 0.0, 1.0, 2.0, 2.0, -2.0]
    assert found[5] != found[5]


def test_a_missing_end_costs_after_the_clip(make_config, make_batch):
    batch = make_batch()
    assert batch.truncated.tolist() == [False, False, False, False, True, False, False, False]
    found = shaped(make_config, batch, [5.0] * 8, clip=1, missing_eos_penalty=0.5)
    assert found == [1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(1, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (99, -0.95), (100, -1.0), (101, -1.0)],
)
def test_overlong_penalty_is_dapos_equation_13(length, penalty):
    found = overlong_penalty(torch.tensor([length]), longest=100, buffer=20)
    assert found.item() == pytest.approx(penalty)


def test_a_long_reply_costs_in_training_and_nowhere_else(make_config, make_batch):
    """Replies of 1 to 5 tokens, at most 5 of them, the last two penalised."""
    config = make_config(algorithm__overlong_share=0.4, sampling__max_new_tokens=5)
    batch = RewardShaper(config)(make_batch())
    earned = [score.reward for score in batch.scores]
    assert batch.reply_lengths.tolist() == [1, 2, 3, 4, 5, 1, 2, 3]
    assert (batch.rewards - torch.tensor(earned)).tolist() == [0, 0, 0, -0.5, -1, 0, 0, 0]
    batch.advantages = torch.zeros(batch.reply_ids.shape)
    trace = Trace([], torch.zeros(batch.reply_ids.shape), torch.zeros(batch.reply_ids.shape))
    metrics = step_metrics(batch, trace, config)
    assert metrics["reward/mean"] == 0.5
    assert metrics["reward/shaped"] == pytest.approx(0.5 - 1.5 / 8)


def test_normalising_is_over_the_run_so_far(make_config, make_batch):
    shaper, batch = RewardShaper(make_config(scoring__normalize=True)), make_batch()
    first = torch.tensor([0.0, 4.0, 0.0, 4.0, 0.0, 4.0, 0.0, torch.nan])
    second = torch.full((8,), 10.0)
    shaper(replace(batch, rewards=first))
    found = shaper(replace(batch, rewards=second)).rewards
    everything = torch.cat([first[:7], second])
    torch.testing.assert_close(found, (second - everything.mean()) / everything.std())


def test_equal_rewards_normalise_to_0(make_config, make_batch):
    assert shaped(make_config, make_batch(), [0.1] * 8, normalize=True) == pytest.approx([0.0] * 8, abs=1e-6)


def test_moments_do_not_depend_on_how_values_arrive():
    values = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1e6
    moments = RunningMoments()
    for part in values.split([1, 0, 60, 39]):
        moments.update(part)
    assert moments.mean == pytest.approx(values.mean().item(), rel=1e-12)
    assert moments.std == pytest.approx(values.std().item(), rel=1e-6)


def test_whitened_rewards_keep_their_mean(make_config, make_batch):
    batch = make_batch()
    plain = estimate_advantages(batch, make_config(), 0.0).token_rewards
    white = estimate_advantages(batch, make_config(algorithm__whiten_rewards=True), 0.0).token_rewards
    mask = batch.response_mask
    assert white[mask].std().item() == pytest.approx(1, abs=1e-5)
    assert white[mask].mean().item() == pytest.approx(plain[mask].mean().item(), abs=1e-6)


@pytest.fixture
def failed_batch(make_batch):
    """Reply 1 of the first group failed, and both of the second."""
    batch = make_batch()
    scores = list(batch.scores)
    for row in (1, 2, 3):
        scores[row] = Score(float("nan"), failures={"judge": "raised TimeoutError: "})
    return collate(batch.rollouts, scores)


@pytest.mark.parametrize("advantage", BASELINES)
def test_a_reply_without_a_reward_is_in_no_baseline_and_no_loss(make_config, failed_batch, advantage):
    batch = estimate_advantages(failed_batch, make_config(algorithm__advantage=advantage), 0.0)
    assert not batch.response_mask[1:4].any()
    assert batch.response_mask[0].any()
    assert (batch.advantages[1:4] == 0).all()
    assert batch.advantages.isfinite().all()
    kept = [0, 4, 5, 6, 7]
    alone = collate([batch.rollouts[row] for row in kept], [batch.scores[row] for row in kept])
    alone = estimate_advantages(alone, make_config(algorithm__advantage=advantage), 0.0)
    torch.testing.assert_close(batch.advantages[kept], alone.advantages)
    if advantage not in ("reward", "batch-mean", "global-normalized"):
        assert (batch.advantages[0] == 0).all(), "its group has no other to compare with"


@pytest.mark.parametrize("advantage", ["batch-mean", "gae"])
def test_an_update_is_that_of_the_batch_without_it(
    make_config, make_learner, run_batch, failed_batch, advantage
):
    config = make_config(algorithm__advantage=advantage, algorithm__epochs=2)
    kept = [0, 4, 5, 6, 7]
    alone = collate([failed_batch.rollouts[row] for row in kept], [failed_batch.scores[row] for row in kept])
    _, _, whole = run_batch(make_learner(config), failed_batch)
    _, _, part = run_batch(make_learner(config), alone)
    for step, other in zip(whole.steps, part.steps, strict=True):
        assert step.scalars == pytest.approx(other.scalars, rel=1e-4, abs=1e-6)
        seen = {row: step.logprobs[place] for place, row in enumerate(step.rows)}
        for place, row in enumerate(other.rows):
            length = int(alone.reply_lengths[row])
            torch.testing.assert_close(seen[kept[row]][:length], other.logprobs[place][:length])


def test_metrics_and_record_tell_of_it(make_config, make_learner, run_batch, failed_batch):
    config = make_config()
    batch, schedule, trace = run_batch(make_learner(config), failed_batch)
    metrics = step_metrics(batch, trace, config)
    assert metrics["reward/judge/failed"] == 3.0
    assert metrics["reply/excluded"] == 3.0
    assert metrics["reward/mean"] == pytest.approx(2 / 5)
    assert all(value == value for value in metrics.values())
    stored = step_record(config, batch, schedule, trace, metrics).replies
    assert stored[1].reward != stored[1].reward
    assert stored[1].failures == {"judge": "raised TimeoutError: "}
    assert not stored[1].mask.any()
