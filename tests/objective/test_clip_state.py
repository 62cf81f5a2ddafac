"""The clip state: it agrees with the gradient, and its statistics are what their names say."""

import math

import numpy as np
import pytest
import torch

from taut.objective.policy import (
    cat_clip_states,
    cispo,
    clip_statistics,
    clipped_surrogate,
    log_ratio,
    sequence_log_ratio,
)
from taut.objective.reduce import denominator, reduce_loss


def test_the_gauge_is_the_gradient(make_batch):
    batches = [vars(make_batch(seed)) for seed in range(8)]
    mask, advantages, logprobs, old_logprobs = (
        torch.cat([batch[name] for batch in batches])
        for name in ("mask", "advantages", "logprobs", "old_logprobs")
    )
    logprobs = logprobs.float().requires_grad_()
    x = log_ratio(logprobs, old_logprobs.float(), mask)
    surrogate = clipped_surrogate(x, advantages.float(), mask, 0.2, 0.2, dual_clip=1.4)
    surrogate.loss.sum().backward()
    clip = surrogate.clip
    assert clip.binding.any()
    assert clip.dual.any()
    assert not (clip.binding & clip.dual).any()
    assert torch.equal(logprobs.grad == 0, ~mask | (advantages == 0) | clip.binding | clip.dual)


@pytest.mark.parametrize(("edge", "advantage"), [(1.2, 1.0), (0.8, -1.0)])
def test_gauge_and_gradient_agree_on_either_side_of_the_edge(edge, advantage):
    # Every float32 log ratio in the neighbourhood; some of them give exactly the float32 of the edge.
    center = np.float32(math.log(edge))
    x = torch.from_numpy(center + np.spacing(center) * np.arange(-20, 21, dtype=np.float32))[None]
    x.requires_grad_()
    mask = torch.ones_like(x, dtype=torch.bool)
    surrogate = clipped_surrogate(x, torch.full_like(x, advantage), mask, 0.2, 0.2)
    surrogate.loss.sum().backward()
    clip = surrogate.clip
    assert torch.equal(clip.binding, x.grad == 0)
    on_edge = clip.ratio == edge
    assert on_edge.any()
    assert not clip.outside[on_edge].any()
    assert 0 < clip.binding.sum() < x.numel()


@pytest.mark.parametrize(("advantage", "dual_clip"), [(1.0, None), (-1.0, 3.0), (0.0, None)])
def test_a_held_token_has_no_gradient_even_where_exp_overflows(advantage, dual_clip):
    x = torch.tensor([[200.0]], requires_grad=True)
    mask = torch.tensor([[True]])
    loss = clipped_surrogate(x, torch.tensor([[advantage]]), mask, 0.2, 0.2, dual_clip).loss
    loss.sum().backward()
    assert loss.item() == pytest.approx({1.0: -1.2, -1.0: 3.0, 0.0: 0.0}[advantage])
    assert x.grad.item() == 0


def test_zero_advantage_never_binds(one_row):
    x, advantages, mask = one_row([5.0, 0.1], [0, 0])
    clip = clipped_surrogate(x, advantages, mask, 0.2, 0.2).clip
    assert clip.outside.all()
    assert not clip.binding.any()
    assert not cispo(x, x, advantages, mask, 0.2, 0.2).clip.binding.any()


def test_clip_statistics_split_by_side_and_sign(one_row):
    ratios = [1.5, 1.5, 1.5, 0.5, 0.5, 0.5, 1.0, 4.0]
    x, advantages, mask = one_row(ratios, [1, -1, 0, 1, -1, -1, 1, -1])
    statistics = clip_statistics(clipped_surrogate(x, advantages, mask, 0.2, 0.2, dual_clip=3.0).clip)
    eighths = {
        "clip/binding": 3,
        "clip/high": 1,
        "clip/low": 2,
        "clip/binding_positive": 1,
        "clip/binding_negative": 2,
        "clip/outside": 7,
        "clip/outside_high": 4,
        "clip/outside_low": 3,
        "clip/outside_positive": 2,
        "clip/outside_negative": 4,
        "clip/dual": 1,
    }
    assert {name: value * 8 for name, value in statistics.items() if name.startswith("clip/")} == eighths
    for name, q in (("min", 0), ("p01", 0.01), ("p50", 0.5), ("p99", 0.99), ("max", 1)):
        assert statistics[f"ratio/{name}"] == pytest.approx(np.quantile(ratios, q))
    assert statistics["ratio/mean"] == pytest.approx(np.mean(ratios))
    assert len(statistics) == len(eighths) + 6


def test_statistics_over_minibatches_are_those_of_the_whole(make_batch):
    batch = make_batch(0)
    x = log_ratio(batch.logprobs, batch.old_logprobs, batch.mask)

    def clip(rows):
        return clipped_surrogate(x[rows], batch.advantages[rows], batch.mask[rows], 0.2, 0.2).clip

    parts = [clip(slice(0, 1)), clip(slice(1, 4)), clip(slice(4, 6))]
    assert clip_statistics(cat_clip_states(parts)) == clip_statistics(clip(slice(None)))


def test_a_batch_with_every_reply_masked():
    logprobs = torch.full((2, 3), float("nan"), requires_grad=True)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    x = sequence_log_ratio(log_ratio(logprobs, logprobs.detach(), mask), mask)
    surrogate = clipped_surrogate(x, torch.ones(2, 3), mask, 0.2, 0.2)
    loss = reduce_loss(surrogate.loss, mask, "token", denominator(mask, "token"))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logprobs.grad, torch.zeros(2, 3))
    assert clip_statistics(surrogate.clip) == {}
