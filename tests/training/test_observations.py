"""Tokens that an environment wrote stand in the sequence and in nothing that is computed from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from taut.training.batch import collate, sequences_of
from taut.training.metrics import step_metrics, time_metrics
from taut.training.record import step_record
from taut.training.shaping import RewardShaper
from taut.training.timing import Stopwatch
from taut.types import Episode, Prompt, Rollout, Score

SAMPLED = [
    [True, False, False, True, True],
    [True, True],
    [True, False, True, False, True, True],
    [True, True, True],
    [True, False, False, False, True],
    [True],
    [True, True, False, True],
    [True, False, True],
]
"""Of 8 replies to 4 prompts."""
FINISHED = {0: "length", 4: "length"}
PRESETS = [
    "ppo",
    "ppo-batch-mean",
    "grpo",
    "rloo",
    "dr-grpo",
    "dapo",
    "gspo",
    "cispo",
    "sapo",
    "dppo",
    "reinforce++",
]


def make(keep=lambda own: own, behavior=np.nan):
    """A batch of replies with gaps; `keep` makes other replies of them."""
    rng = np.random.default_rng(0)
    rollouts, scores = [], []
    for row, own in enumerate(SAMPLED):
        index, sampled = row // 2, np.array(own)
        ids, logprobs = rng.integers(13, size=len(own)), rng.normal(-2, 0.3, len(own)).astype(np.float32)
        rollout = Rollout(
            prompt=Prompt(index, f"prompt {index}", tuple(int(i) for i in rng.integers(13, size=2 + index))),
            sample=row % 2,
            ids=tuple(ids.tolist()),
            text="",
            behavior_logprobs=np.where(sampled, logprobs, behavior).astype(np.float32),
            finish_reason=FINISHED.get(row, "stop"),
            sampled=sampled,
            episode=Episode(turns=1 + int((np.diff(sampled.astype(int)) == 1).sum()), reward=0.0),
        )
        rollouts.append(keep(rollout))
        scores.append(Score(float("nan") if row == 3 else float((index + row) % 2)))
    return collate(rollouts, scores)


def without_gaps(rollout):
    own = rollout.sampled
    ids = tuple(np.array(rollout.ids)[own].tolist())
    return replace(rollout, ids=ids, behavior_logprobs=rollout.behavior_logprobs[own], sampled=None)


def compact(x, batch):
    """[B, T] at its trained or at least sampled tokens, moved to the left as `without_gaps` moves them."""
    result = torch.zeros(x.shape)
    for row, own in enumerate(batch.sampled):
        result[row, : int(own.sum())] = x[row, own]
    return result[:, : int(batch.sampled.sum(1).max())]


def test_masks_and_lengths():
    batch = make()
    assert batch.reply_lengths.tolist() == [5, 2, 6, 3, 5, 1, 4, 3]
    assert batch.sampled.sum(1).tolist() == [3, 2, 4, 3, 2, 1, 3, 2]
    assert batch.sampled[2].tolist() == SAMPLED[2]
    assert batch.response_mask[3].any().item() is False, "it has no reward"
    rest = [row for row in range(8) if row != 3]
    assert torch.equal(batch.response_mask[rest], batch.sampled[rest])
    assert batch.behavior_logprobs[0].isnan().tolist() == [False, True, True, False, False, False]
    assert torch.equal(sequences_of(batch, [0, 1], "cpu").reply_mask, batch.sampled[:2, :5])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("minibatches", [1, 2])
def test_what_stands_at_observations_changes_no_bit(
    make_config, make_learner, run_batch, preset, minibatches
):
    """The weights after the update, every metric, and what the store keeps of trained tokens."""
    results = []
    for junk in (0.0, float("nan"), 1e6):
        config = make_config(
            algorithm__preset=preset,
            algorithm__minibatches=minibatches,
            algorithm__dynamic_sampling=0,
            algorithm__entropy_coefficient=0.1,
            algorithm__whiten_rewards=preset == "ppo",
            algorithm__importance="truncate",
            learner__micro_batch_tokens=20,
        )
        learner = make_learner(config)
        batch = make(behavior=junk)
        hidden = ~batch.response_mask
        score = learner.score

        def with_junk(batch, schedule, score=score, hidden=hidden, junk=junk):
            scored = score(batch, schedule)
            for name in ("old_logprobs", "ref_logprobs", "values", "entropy"):
                if getattr(scored, name) is not None:
                    # A row that is NaN as a whole is still to be filled in by its first pass.
                    unknown = getattr(scored, name).isnan().all(1, keepdim=True)
                    setattr(scored, name, getattr(scored, name).masked_fill(hidden & ~unknown, junk))
            return scored

        learner.score = with_junk
        batch, schedule, trace = run_batch(learner, RewardShaper(config)(batch))
        metrics = step_metrics(batch, trace, config)
        record = step_record(config, batch, schedule, trace, metrics)
        kept = [
            getattr(r, name)[r.mask]
            for r in record.replies
            for name in ("behavior_logprobs", "old_logprobs", "advantages", "entropy", "token_rewards")
        ]
        weights = torch.cat([p.detach().flatten() for p in learner.policy.parameters()])
        if learner.critic is not None:
            weights = torch.cat([weights, *[p.detach().flatten() for p in learner.critic.parameters()]])
        results.append((weights, metrics, kept))
    for weights, metrics, kept in results[1:]:
        assert torch.equal(weights, results[0][0])
        assert weights.isfinite().all()
        assert metrics == results[0][1]
        assert all(np.array_equal(x, y) for x, y in zip(kept, results[0][2], strict=True))


@pytest.mark.parametrize("preset", PRESETS)
def test_everything_behind_the_model_is_as_if_there_were_no_gaps(
    make_config, make_learner, run_batch, monkeypatch, preset
):
    """A model whose logprobs depend on nothing but the token's number among the sampled gives the same either way."""
    found = []
    for keep in (lambda rollout: rollout, without_gaps):
        config = make_config(
            algorithm__preset=preset,
            algorithm__dynamic_sampling=0,
            algorithm__lam_length_alpha=0.9 if preset == "ppo" else None,
            sampling__max_new_tokens=5,
        )
        learner = make_learner(config)
        for model in (learner.policy, learner.reference, learner.critic):
            if model is not None:
                monkeypatch.setattr(type(model), "forward", forward_of(type(model).__name__))
        batch, _, trace = run_batch(learner, RewardShaper(config)(make(keep)))
        shown = {
            name: compact(getattr(batch, name), batch)
            for name in ("token_rewards", "advantages", "returns", "values", "ref_logprobs")
            if getattr(batch, name) is not None
        }
        ratios = [compact(in_order(step.clip.ratio, step.rows), batch) for step in trace.steps]
        metrics = step_metrics(batch, trace, config)
        found.append((shown, ratios, metrics))
    (shown, ratios, metrics), (plain, plain_ratios, plain_metrics) = found
    for name in plain:
        torch.testing.assert_close(shown[name], plain[name], msg=name)
    for x, y in zip(ratios, plain_ratios, strict=True):
        torch.testing.assert_close(x, y)
    assert metrics.pop("reply/observed") == pytest.approx(9 / 29)
    assert plain_metrics.pop("reply/observed") == 0
    assert metrics.pop("update/padding") != plain_metrics.pop("update/padding")  # the model is fed the gaps
    assert metrics == pytest.approx(plain_metrics, rel=1e-4, abs=1e-6)


def in_order(x, rows):
    """Rows as they are in the batch: micro-batches are sorted by the length of the whole sequence."""
    whole = torch.zeros(len(SAMPLED), x.shape[1])
    whole[rows] = x
    return whole


def forward_of(kind):
    """[b, T] numbers that depend on a parameter, the prompt's length and how many tokens were sampled before."""

    def forward(self, sequences, temperature=1.0):
        mask = sequences.reply_mask
        place = mask.cumsum(1).float() + sequences.prompt_lengths[:, None]
        parameter = next(self.parameters()).flatten()[0]
        x = torch.where(mask, -1 - torch.sin(place) * (1 + parameter), 0.0)
        if kind == "Critic":
            return x, x.sum(1)
        return x, torch.where(mask, place / 10, 0.0)

    return forward


def test_lengths_turns_and_rates_count_what_was_sampled(make_config, make_learner, run_batch):
    learner = make_learner(make_config())
    batch, _, trace = run_batch(learner, make())
    metrics = step_metrics(batch, trace, learner.config)
    assert metrics["reply/length"] == 20 / 8
    assert metrics["reply/turns"] == (2 + 1 + 3 + 1 + 2 + 1 + 2 + 2) / 8
    assert metrics["reply/observed"] == pytest.approx(9 / 29)
    assert metrics["reply/truncated"] == 2 / 8
    watch = Stopwatch()
    assert time_metrics(watch, batch)["rate/tokens"] > 0


def test_long_replies_pay_for_what_they_sampled(make_config):
    config = make_config(
        sampling__max_new_tokens=2,
        environment__path="file.py:World",
        environment__max_turns=2,
        algorithm__overlong_share=0.5,
        reward="environment",
    )
    assert config.longest_reply == 4
    batch = make()
    paid = batch.rewards - RewardShaper(config)(batch).rewards
    # Sampled tokens 3, 2, 4, -, 2, 1, 3, 2 of at most 4, the last half of which costs.
    assert paid[batch.response_mask.any(1)].tolist() == [0.5, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0]


def test_the_constant_that_divides_is_the_longest_reply(make_config):
    config = make_config(sampling__max_new_tokens=7)
    assert config.longest_reply == 7
    config = make_config(sampling__max_new_tokens=7, environment__path="a.py:B", environment__max_turns=3)
    assert config.longest_reply == 21
