import math

import numpy as np
import pytest
import torch

from taut.objective.policy import (
    cat_clip_states,
    cispo,
    clip_statistics,
    clipped_surrogate,
    importance_weights,
    log_ratio,
    sequence_log_ratio,
)
from taut.objective.reduce import denominator, reduce_loss

SEEDS = range(4)


def one_row(ratios, advantages):
    """(log ratio with gradient, advantages, mask) of one reply, float64."""
    x = torch.tensor([ratios], dtype=torch.float64).log().requires_grad_()
    advantages = torch.tensor([advantages], dtype=torch.float64)
    return x, advantages, torch.ones_like(advantages, dtype=torch.bool)


def test_the_four_cases_of_the_clip():
    x, advantages, mask = one_row([1.1, 1.5, 0.5, 1.5], [2, 2, -1, -1])
    surrogate = clipped_surrogate(x, advantages, mask, 0.2, 0.2)
    np.testing.assert_allclose(-surrogate.loss.detach()[0], [2.2, 2.4, -0.8, -1.5])
    surrogate.loss.sum().backward()
    np.testing.assert_allclose(x.grad[0], [-2.2, 0, 0, 1.5])


def test_three_tokens_outside_one_of_them_binding():
    x, advantages, mask = one_row([1.5, 1.5, 0.5], [1, -1, 1])
    surrogate = clipped_surrogate(x, advantages, mask, 0.2, 0.2)
    np.testing.assert_allclose(surrogate.loss.detach()[0], [-1.2, 1.5, -0.5])
    loss = reduce_loss(surrogate.loss, mask, "token", denominator(mask, "token"))
    assert loss.item() == pytest.approx(-0.0667, abs=5e-5)
    statistics = clip_statistics(surrogate.clip)
    assert statistics["clip/binding"] == pytest.approx(1 / 3)
    assert statistics["clip/outside"] == 1


@pytest.mark.parametrize(("p", "ratio", "held"), [(0.40, 1.00, 0), (0.45, 1.125, 0), (0.49, 1.225, 1)])
def test_a_token_sampled_at_forty_percent(p, ratio, held):
    logprobs = torch.tensor([[p]]).log().requires_grad_()
    mask = torch.tensor([[True]])
    x = log_ratio(logprobs, torch.tensor([[0.40]]).log(), mask)
    surrogate = clipped_surrogate(x, torch.tensor([[1.0]]), mask, 0.2, 0.2)
    surrogate.loss.sum().backward()
    assert surrogate.clip.ratio.item() == pytest.approx(ratio)
    assert surrogate.clip.binding.item() == held
    assert (logprobs.grad.item() == 0) == held


def test_a_masked_slot_of_wild_logprobs_leaves_everything_finite():
    logprobs = torch.tensor([[-1.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, False]])
    x = log_ratio(logprobs, torch.tensor([[-1.1, -200.0]]), mask)
    loss = clipped_surrogate(x, torch.tensor([[1.0, 1.0]]), mask, 0.2, 0.2).loss
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logprobs.grad[0, 0].item() == pytest.approx(-math.exp(0.1))
    assert logprobs.grad[0, 1].item() == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("clip_low", "clip_high", "dual_clip"),
    [(0.2, 0.2, None), (0.2, 0.28, None), (0.3, 0.1, 1.5), (0.2, math.inf, 1.05), (math.inf, 0.0, None)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_surrogate_equals_the_oracle(seed, clip_low, clip_high, dual_clip, weighted, make_batch, oracle):
    batch = make_batch(seed)
    logprobs = batch.logprobs.requires_grad_()
    x = log_ratio(logprobs, batch.old_logprobs, batch.mask)
    surrogate = clipped_surrogate(
        x, batch.advantages, batch.mask, clip_low, clip_high, dual_clip, batch.weights if weighted else None
    )
    surrogate.loss.sum().backward()
    ratio = (batch.logprobs - batch.old_logprobs).exp().detach().numpy()

    def expected(part):
        def formula(b, t):
            values = oracle.surrogate(
                ratio[b, t], batch.advantages[b, t].item(), clip_low, clip_high, dual_clip
            )
            weight = batch.weights[b, t].item() if weighted and part < 2 else 1.0
            return weight * values[part]

        return oracle.per_token(batch.mask.numpy(), formula)

    np.testing.assert_allclose(surrogate.loss.detach(), expected(0), rtol=1e-12)
    np.testing.assert_allclose(logprobs.grad, expected(1), rtol=1e-12)
    clip = surrogate.clip
    for part, state in ((2, clip.binding), (3, clip.outside), (4, clip.dual)):
        np.testing.assert_array_equal(state.numpy(), expected(part).astype(bool))


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


def test_weight_zero_removes_a_token_whatever_its_ratio():
    x = torch.tensor([[200.0, 0.0]], requires_grad=True)
    mask, advantages = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[-1.0, -1.0]])
    loss = clipped_surrogate(x, advantages, mask, 0.2, 0.2, weights=torch.tensor([[0.0, 2.0]])).loss
    loss.sum().backward()
    assert loss.tolist() == [[0, 2]]
    assert x.grad.tolist() == [[0, 2]]


@pytest.mark.parametrize("open_side", [None, math.inf])
def test_without_a_clip_nothing_is_held(open_side, make_batch):
    batch = make_batch(0)
    x = log_ratio(batch.logprobs, batch.old_logprobs, batch.mask)
    surrogate = clipped_surrogate(x, batch.advantages, batch.mask, open_side, open_side)
    torch.testing.assert_close(surrogate.loss, torch.where(batch.mask, -x.exp() * batch.advantages, 0))
    assert not surrogate.clip.outside.any()


def test_zero_advantage_never_binds():
    x, advantages, mask = one_row([5.0, 0.1], [0, 0])
    clip = clipped_surrogate(x, advantages, mask, 0.2, 0.2).clip
    assert clip.outside.all()
    assert not clip.binding.any()
    assert not cispo(x, x, advantages, mask, 0.2, 0.2).clip.binding.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_sequence_ratio_equals_the_oracle(seed, make_batch, oracle):
    batch = make_batch(seed)
    x = log_ratio(batch.logprobs, batch.old_logprobs, batch.mask)
    expected = oracle.sequence_log_ratio(x.numpy(), batch.mask.numpy())
    np.testing.assert_allclose(sequence_log_ratio(x, batch.mask), expected, rtol=1e-12)


def test_sequence_surrogate_has_the_gradient_of_gspo(make_batch):
    batch = make_batch(0)
    logprobs, mask = batch.logprobs.requires_grad_(), batch.mask
    advantages = batch.advantages[:, :1].expand_as(mask)
    x = sequence_log_ratio(log_ratio(logprobs, batch.old_logprobs, mask), mask)
    surrogate = clipped_surrogate(x, advantages, mask, 0.1, 0.1)
    loss = reduce_loss(surrogate.loss, mask, "sequence", denominator(mask, "sequence"))
    # GSPO's equation: a mean over replies of min(s A, clip(s) A), differentiated through s.
    live = mask.any(-1)
    gap = torch.where(mask, logprobs - batch.old_logprobs, 0).sum(-1)[live] / mask.sum(-1)[live]
    s, a = gap.exp(), advantages[live, 0]
    expected = -torch.minimum(s * a, s.clamp(0.9, 1.1) * a).mean()
    torch.testing.assert_close(loss, expected)
    actual_gradient, expected_gradient = (
        torch.autograd.grad(objective, logprobs)[0] for objective in (loss, expected)
    )
    torch.testing.assert_close(actual_gradient, expected_gradient)
    binding = surrogate.clip.binding
    assert binding.any()
    assert torch.equal(binding, binding.any(-1, keepdim=True) & mask), "a reply is clipped as a whole"


def test_within_a_sequence_ratio_a_held_token_still_has_no_gradient():
    logprobs = torch.full((1, 2), 0.5, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    x = sequence_log_ratio(log_ratio(logprobs, torch.zeros(1, 2), mask), mask)
    surrogate = clipped_surrogate(x, torch.tensor([[1.0, -1.0]]), mask, 0.2, 0.2)
    surrogate.loss.sum().backward()
    assert surrogate.clip.binding.tolist() == [[True, False]]
    assert (logprobs.grad == 0).tolist() == [[True, False]]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_cispo_equals_the_oracle_and_every_token_keeps_its_gradient(seed, weighted, make_batch, oracle):
    batch = make_batch(seed)
    logprobs, mask = batch.logprobs.requires_grad_(), batch.mask
    x = log_ratio(logprobs, batch.old_logprobs, mask)
    weights = batch.weights if weighted else None
    surrogate = cispo(logprobs, x, batch.advantages, mask, 0.3, 0.2, weights)
    surrogate.loss.sum().backward()
    ratio = x.detach().exp().numpy()
    lp, advantages = logprobs.detach().numpy(), batch.advantages.numpy()

    def formula(b, t):
        loss = oracle.cispo(lp[b, t], ratio[b, t], advantages[b, t], 0.3, 0.2)
        return loss * (batch.weights[b, t].item() if weighted else 1)

    expected = oracle.per_token(mask.numpy(), formula)
    np.testing.assert_allclose(surrogate.loss.detach(), expected, rtol=1e-12)
    np.testing.assert_allclose(logprobs.grad, expected / lp, rtol=1e-12)
    capped = (np.clip(ratio, 0.7, 1.2) != ratio) & (advantages != 0) & mask.numpy()
    np.testing.assert_array_equal(surrogate.clip.binding, capped)
    assert (logprobs.grad[surrogate.clip.binding] != 0).all()
    assert not surrogate.clip.dual.any()


def test_cispo_caps_from_above_alone():
    x, advantages, mask = one_row([0.1, 3.0], [1, 1])
    clip = cispo(x, x, advantages, mask, None, 0.2).clip
    assert clip.binding.tolist() == [[False, True]]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_importance_weights_equal_the_oracle(seed, mode, level, make_batch, oracle):
    batch = make_batch(seed)
    old = batch.old_logprobs.requires_grad_()
    weights = importance_weights(old, batch.behavior_logprobs, batch.mask, mode, 1.3, level)
    arrays = [x.detach().numpy() for x in (old, batch.behavior_logprobs, batch.mask)]
    expected = oracle.importance_weights(*arrays, mode, 1.3, level)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert not weights.requires_grad


def test_importance_weights_of_mode_none_are_one(make_batch):
    batch = make_batch(0)
    weights = importance_weights(batch.old_logprobs, batch.behavior_logprobs, batch.mask, "none", 2.0)
    assert torch.equal(weights, batch.mask.double())


def test_clip_statistics_split_by_side_and_sign():
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


def test_impossible_settings_are_refused():
    x, advantages, mask = one_row([1.0], [1])
    with pytest.raises(ValueError, match="clip_low"):
        clipped_surrogate(x, advantages, mask, -0.2, 0.2)
    with pytest.raises(ValueError, match="clip_high"):
        cispo(x, x, advantages, mask, 0.2, -0.2)
    with pytest.raises(ValueError, match="dual_clip"):
        clipped_surrogate(x, advantages, mask, 0.2, 0.2, dual_clip=1.0)
    with pytest.raises(ValueError, match="cap"):
        importance_weights(x, x, mask, "truncate", 0.5)
