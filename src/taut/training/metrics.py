"""A step's scalars, from the whole batch and its trace. `docs/metrics.md` defines each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

import torch
from torch import Tensor

from taut.config import Config
from taut.objective.kl import approximate_kl, token_kl
from taut.objective.policy import cat_clip_states, clip_statistics, importance_weights, log_ratio
from taut.objective.reduce import masked, masked_mean, masked_var
from taut.objective.value import explained_variance
from taut.training.timing import Stopwatch
from taut.types import Batch, OptimizerStep, Score, Trace

Metrics = dict[str, float]
_Found = dict[str, float | None]


def step_metrics(batch: Batch, trace: Trace, config: Config) -> Metrics:
    """Everything that is measured on a batch; a statistic with nothing to average is absent."""
    found: _Found = {
        **_reply_metrics(batch),
        **_token_metrics(batch, trace),
        **_reference_metrics(batch, trace, config),
        **_critic_metrics(batch),
        **clip_metrics(trace),
        **_optimizer_metrics(batch, trace),
    }
    return {name: value for name, value in found.items() if value is not None}


def time_metrics(watch: Stopwatch, batch: Batch) -> Metrics:
    """Seconds of each phase, and sampled tokens over all of them."""
    times = {f"time/{phase}": seconds for phase, seconds in watch.seconds.items()}
    return {**times, "time/step": watch.total, "rate/tokens": int(batch.sampled.sum()) / watch.total}


def off_policy_metrics(batch: Batch, trace: Trace, step: int, config: Config) -> Metrics:
    """How old the weights were that sampled the tokens, and what corrects for it; {} where nothing does."""
    algorithm, mask = config.algorithm, batch.response_mask
    if algorithm.importance == "none" or not mask.any():
        return {}
    old, behavior = trace.old_logprobs, batch.behavior_logprobs
    cap, mode = algorithm.importance_cap, algorithm.importance
    weights = importance_weights(old, behavior, mask, mode, cap)
    beyond = weights != importance_weights(old, behavior, mask, "truncate", inf)
    found = {
        "importance/mean": masked_mean(weights, mask),
        "importance/capped": masked_mean(beyond, mask),
    }
    if algorithm.max_staleness:
        ages = torch.tensor([step - 1 - rollout.version for rollout in batch.rollouts])
        found["staleness/mean"] = masked_mean(ages[:, None].expand_as(mask), mask)
        found["staleness/max"] = float(ages.max())
    return {name: value for name, value in found.items() if value is not None}


def _reply_metrics(batch: Batch) -> _Found:
    scored = torch.tensor([score.scored for score in batch.scores])
    rewards = torch.tensor([score.reward for score in batch.scores])
    variance = masked_var(rewards, scored)
    shaped = not torch.equal(rewards[scored], batch.rewards[scored])
    return {
        "reward/mean": masked_mean(rewards, scored),
        "reward/std": None if variance is None else variance**0.5,
        "reward/shaped": masked_mean(batch.rewards, scored) if shaped else None,
        **_term_metrics(batch.scores),
        "reply/length": batch.sampled.sum(1).double().mean().item(),
        "reply/truncated": batch.truncated.double().mean().item(),
        "reply/excluded": float((~scored).sum()),
        **_episode_metrics(batch),
    }


def _episode_metrics(batch: Batch) -> _Found:
    episodes = [rollout.episode for rollout in batch.rollouts if rollout.episode is not None]
    if not episodes:
        return {}
    observed = 1 - int(batch.sampled.sum()) / int(batch.reply_lengths.sum())
    return {"reply/turns": _mean(episode.turns for episode in episodes), "reply/observed": observed}


def _term_metrics(scores: Sequence[Score]) -> _Found:
    """Of each term its mean and, where it failed, how often; and what reward functions logged."""
    terms = dict.fromkeys(name for score in scores for name in score.terms)
    failed = Counter(name for score in scores for name in score.failures)
    logged = dict.fromkeys(name for score in scores for name in score.logged)
    return {
        **{f"reward/{name}": _mean(s.terms[name] for s in scores if name in s.terms) for name in terms},
        **{f"reward/{name}/failed": float(count) for name, count in failed.items()},
        **{f"reward/{name}": _mean(s.logged[name] for s in scores if name in s.logged) for name in logged},
    }


def _token_metrics(batch: Batch, trace: Trace) -> _Found:
    mask = batch.response_mask
    gap = masked(trace.old_logprobs, mask) - masked(batch.behavior_logprobs, mask)
    return {
        "entropy": masked_mean(trace.entropy, mask),
        **advantage_metrics(batch),
        "mismatch/mean": masked_mean(gap.abs(), mask),
        "mismatch/max": gap.abs().max().item() if mask.any() else None,
    }


def advantage_metrics(batch: Batch) -> dict[str, float | None]:
    assert batch.advantages is not None
    variance = masked_var(batch.advantages, batch.response_mask)
    return {
        "advantage/mean": masked_mean(batch.advantages, batch.response_mask),
        "advantage/std": None if variance is None else variance**0.5,
    }


def _reference_metrics(batch: Batch, trace: Trace, config: Config) -> _Found:
    if batch.ref_logprobs is None:
        return {}
    mask = batch.response_mask
    # The forms that differ in their gradient alone have k3's value.
    name: Literal["k1", "k2", "k3"] = "k3"
    if config.kl.estimator == "k1" or config.kl.estimator == "k2":
        name = config.kl.estimator
    kl = token_kl(trace.old_logprobs, batch.ref_logprobs, mask, name)
    return {f"kl/ref_{name}": masked_mean(kl, mask), f"kl/ref_{name}_reply": _mean_of_replies(kl, mask)}


def reference_kl_per_reply(batch: Batch, trace: Trace) -> float | None:
    """KL of the policy that was trained from to the reference, k1, in nats a reply; None if no token trains."""
    assert batch.ref_logprobs is not None
    mask = batch.response_mask
    return _mean_of_replies(token_kl(trace.old_logprobs, batch.ref_logprobs, mask, "k1"), mask)


def _mean_of_replies(x: Tensor, mask: Tensor) -> float | None:
    """Sum over a reply's trained tokens, mean over the replies that have any."""
    return masked_mean(masked(x, mask).sum(1), mask.any(1))


def _critic_metrics(batch: Batch) -> _Found:
    if batch.values is None or batch.returns is None:
        return {}
    mask = batch.response_mask
    return {
        "value/mean": masked_mean(batch.values, mask),
        "value/explained_variance": explained_variance(batch.values, batch.returns, mask),
    }


def clip_metrics(trace: Trace) -> dict[str, float | None]:
    """Shares over all tokens of all optimiser steps of the batch, and both shares in each epoch (from 1).

    Absent where the policy took no step: while the critic warms up, nothing can be clipped.
    """
    taken = [step for step in trace.steps if step.applied]
    if not taken:
        return {}
    metrics: _Found = dict(clip_statistics(cat_clip_states([step.clip for step in taken])))
    for epoch in sorted({step.epoch for step in taken}):
        states = cat_clip_states([step.clip for step in taken if step.epoch == epoch])
        metrics[f"clip/epoch_{epoch + 1}"] = masked_mean(states.binding, states.mask)
        metrics[f"clip/outside_epoch_{epoch + 1}"] = masked_mean(states.outside, states.mask)
    return metrics


def _optimizer_metrics(batch: Batch, trace: Trace) -> _Found:
    """What each optimiser step logged, averaged over them, and how far the batch moved the policy."""
    names = dict.fromkeys(name for step in trace.steps for name in step.scalars)
    taken = sum(step.applied for step in trace.steps)
    fed = [micro for step in trace.steps for micro in step.micro_batches]
    places = sum(micro.places for micro in fed)
    return {
        **{name: mean_of_steps(name, trace.steps) for name in names},
        "kl/old_k1": _last_kl(batch, trace) if taken else None,
        "update/padding": 1 - sum(micro.tokens for micro in fed) / places if places else None,
        "update/steps": float(taken),
        "update/skipped": float(trace.skipped),
        "update/not_finite": float(sum(bool(step.not_finite) for step in trace.steps)),
    }


def mean_of_steps(name: str, steps: Sequence[OptimizerStep]) -> float | None:
    """A mean over tokens counts every token of the batch alike; a loss or a norm is one number a step."""
    logged = [step for step in steps if name in step.scalars and not step.not_finite]
    per_token = name in ("kl/old_k3", "value/loss", "value/clipped")
    weights = [float(step.clip.mask.sum()) if per_token else 1.0 for step in logged]
    total = sum(weights)
    return (
        sum(w * step.scalars[name] for w, step in zip(weights, logged, strict=True)) / total
        if total
        else None
    )


def _last_kl(batch: Batch, trace: Trace) -> float | None:
    """k1 over the tokens as each was last seen in the batch, so short of the last optimiser step."""
    seen = trace.old_logprobs.clone()
    for step in trace.steps:
        if not step.not_finite:
            seen[step.rows] = step.logprobs
    return approximate_kl(log_ratio(seen, trace.old_logprobs, batch.response_mask), batch.response_mask, "k1")


def _mean(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return sum(values) / len(values) if values else None
