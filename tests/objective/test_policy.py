import math

import numpy as np
import pytest
import torch

from taut.objective.policy import (
    cispo,
    clip_statistics,
    clipped_surrogate,
    importance_weights,
    log_ratio,
    sequence_log_ratio,
)
from taut.objective.reduce import denominator, reduce_loss

SEEDS = range(4)


def test_the_four_cases_of_the_clip(one_row):
    x, advantages, mask = one_row([1.1, 1.5, 0.5, 1.5], [2, 2, -1, -1])
    surrogate = clipped_surrogate(x, advantages, mask, 0.2, 0.2)
    np.testing.assert_allclose(-surrogate.loss.detach()[0], [2.2, 2.4, -0.8, -1.5])
    surrogate.loss.sum().backward()
    np.testing.assert_allclose(x.grad[0], [-2.2, 0, 0, 1.5])


def test_three_tokens_outside_one_of_them_binding(one_row):
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


def test_cispo_without_an_advantage_has_no_loss_whatever_its_ratio():
    logprobs, mask = torch.tensor([[-1.0]], requires_grad=True), torch.tensor([[True]])
    loss = cispo(logprobs, torch.tensor([[200.0]]), torch.zeros(1, 1), mask, None, None).loss
    loss.sum().backward()
    assert loss.item() == logprobs.grad.item() == 0


def test_cispo_caps_from_above_alone(one_row):
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


def test_impossible_settings_are_refused(one_row):
    x, advantages, mask = one_row([1.0], [1])
    with pytest.raises(ValueError, match="clip_low"):
        clipped_surrogate(x, advantages, mask, -0.2, 0.2)
    with pytest.raises(ValueError, match="clip_high"):
        cispo(x, x, advantages, mask, 0.2, -0.2)
    with pytest.raises(ValueError, match="dual_clip"):
        clipped_surrogate(x, advantages, mask, 0.2, 0.2, dual_clip=1.0)
    with pytest.raises(ValueError, match="cap"):
        importance_weights(x, x, mask, "truncate", 0.5)
