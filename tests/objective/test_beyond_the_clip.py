"""SAPO's gate and DPPO's mask, which stand where PPO's clip stands."""

import math

import numpy as np
import pytest
import torch

from taut.objective.policy import clip_statistics, dppo, log_ratio, sapo

SEEDS = range(4)


def test_sapo_of_four_tokens_worked_out_by_hand(one_row):
    x, advantages, mask = one_row([1.0, 2.0, 1.0, 3.0], [1, 1, -1, -1])
    surrogate = sapo(x, advantages, mask, 0.2, 0.2)
    surrogate.loss.sum().backward()
    # 4 σ(0) = 2, 4 σ(1) = 2.924234, 4/1.05 σ(0) = 1.904762, 4/1.05 σ(2.1) = 3.393917
    np.testing.assert_allclose(surrogate.loss.detach()[0], [-2, -2.924234, 1.904762, 3.393917], atol=1e-6)
    # ρ · 4 σ (1 - σ): 1, 2 · 0.786448, 1, 3 · 0.388779
    np.testing.assert_allclose(x.grad[0], [-1, -1.572895, 1, 1.166338], atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sapo_equals_the_oracle(seed, weighted, make_batch, oracle):
    batch = make_batch(seed)
    logprobs, mask = batch.logprobs.requires_grad_(), batch.mask
    x = log_ratio(logprobs, batch.old_logprobs, mask)
    weights = batch.weights if weighted else None
    surrogate = sapo(x, batch.advantages, mask, 0.2, 0.3, weights)
    surrogate.loss.sum().backward()
    ratio = x.detach().exp().numpy()

    def expected(part):
        def formula(b, t):
            weight = batch.weights[b, t].item() if weighted else 1
            return weight * oracle.sapo(ratio[b, t], batch.advantages[b, t].item())[part]

        return oracle.per_token(mask.numpy(), formula)

    np.testing.assert_allclose(surrogate.loss.detach(), expected(0), rtol=1e-12)
    np.testing.assert_allclose(logprobs.grad, expected(1), rtol=1e-12)
    clip = surrogate.clip
    np.testing.assert_array_equal(clip.high, (ratio > 1.3) & mask.numpy())
    np.testing.assert_array_equal(clip.low, (ratio < 0.8) & mask.numpy())
    assert not clip.binding.any()
    assert not clip.dual.any()
    assert clip_statistics(clip)["clip/binding"] == 0
    assert clip_statistics(clip)["clip/outside"] > 0


def test_sapo_fades_and_never_cuts(one_row):
    ratios = [1.0, 1.2, 1.5, 2.0, 4.0, 8.0, 16.0]
    x, advantages, mask = one_row(ratios, [1.0] * 7)
    sapo(x, advantages, mask, None, None).loss.sum().backward()
    slopes = -x.grad[0].numpy() / np.array(ratios)
    assert (np.diff(slopes) < 0).all()
    assert (slopes > 0).all()
    down, disadvantages, _ = one_row(ratios, [-1.0] * 7)
    sapo(down, disadvantages, mask, None, None).loss.sum().backward()
    unwanted = down.grad[0].numpy() / np.array(ratios)
    assert (unwanted[1:] < slopes[1:]).all(), "what is unwanted fades faster"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_sapo_stays_finite_where_exp_overflows(dtype, advantage):
    x = torch.tensor([[800.0, 4.5, 4.7]], dtype=dtype, requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    loss = sapo(x, torch.full_like(x, advantage).detach(), mask, 0.2, 0.2).loss
    loss.sum().backward()
    top = {1.0: -4.0, -1.0: 4 / 1.05, 0.0: 0.0}[advantage]
    np.testing.assert_allclose(loss.detach()[0], [top] * 3, rtol=1e-6)
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() < 1e-30


def test_dppo_lets_a_rare_token_rise_and_holds_a_likely_one_that_falls():
    old = torch.tensor([[1e-5, 0.99, 0.99, 0.40]], dtype=torch.float64)
    now = torch.tensor([[1e-3, 0.80, 0.80, 0.49]], dtype=torch.float64)
    logprobs = now.log().requires_grad_()
    mask = torch.ones(1, 4, dtype=torch.bool)
    advantages = torch.tensor([[1.0, -1.0, 1.0, 1.0]], dtype=torch.float64)
    surrogate = dppo(logprobs, old.log(), advantages, mask, 0.15, 0.15)
    surrogate.loss.sum().backward()
    # ρ = 100 with |Δπ| = 0.00099; ρ = 0.81 with 0.19, pushed on down and then back up; ρ = 1.225 with 0.09.
    assert surrogate.clip.binding.tolist() == [[False, True, False, False]]
    assert surrogate.clip.low.tolist() == [[False, True, True, False]]
    np.testing.assert_allclose(surrogate.clip.ratio[0], [100, 0.80 / 0.99, 0.80 / 0.99, 1.225])
    np.testing.assert_allclose(surrogate.loss.detach()[0], [-100, 0, -0.80 / 0.99, -1.225])
    np.testing.assert_allclose(logprobs.grad[0], [-100, 0, -0.80 / 0.99, -1.225])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("low", "high"), [(0.15, 0.15), (0.02, 0.3), (math.inf, 0.05), (0.05, math.inf)])
@pytest.mark.parametrize("weighted", [False, True])
def test_dppo_equals_the_oracle(seed, low, high, weighted, make_batch, oracle):
    batch = make_batch(seed)
    # Logprobs of a policy: none above 0.
    old = torch.where(batch.mask, -batch.old_logprobs.abs(), 0)
    logprobs, mask = (-batch.logprobs.abs()).requires_grad_(), batch.mask
    bounds = [None if math.isinf(bound) else bound for bound in (low, high)]
    surrogate = dppo(logprobs, old, batch.advantages, mask, *bounds, batch.weights if weighted else None)
    surrogate.loss.sum().backward()
    p, p_old = logprobs.detach().exp().numpy(), old.exp().numpy()

    def expected(part):
        def formula(b, t):
            weight = batch.weights[b, t].item() if weighted and part < 2 else 1
            return weight * oracle.dppo(p[b, t], p_old[b, t], batch.advantages[b, t].item(), low, high)[part]

        return oracle.per_token(mask.numpy(), formula)

    np.testing.assert_allclose(surrogate.loss.detach(), expected(0), rtol=1e-12)
    np.testing.assert_allclose(logprobs.grad, expected(1), rtol=1e-12)
    np.testing.assert_array_equal(surrogate.clip.binding, expected(2).astype(bool))
    np.testing.assert_array_equal(surrogate.clip.outside, expected(3).astype(bool))
    assert torch.equal(logprobs.grad == 0, ~mask | (batch.advantages == 0) | surrogate.clip.binding)


def test_dppo_gives_a_held_token_no_gradient_even_where_exp_overflows():
    # A policy's logprobs are at most 0; a token that was impossible gives an infinite ratio all the same.
    logprobs = torch.tensor([[-0.1]], requires_grad=True)
    mask = torch.tensor([[True]])
    loss = dppo(logprobs, torch.tensor([[-200.0]]), torch.tensor([[1.0]]), mask, 0.15, 0.15).loss
    loss.sum().backward()
    assert loss.item() == logprobs.grad.item() == 0


def test_dppo_on_the_edge_is_inside():
    old, mask = torch.tensor([[0.25]]).log(), torch.tensor([[True]])
    logprobs = torch.tensor([[0.5]]).log()
    moved = (logprobs.exp() - old.exp()).item()
    on, past = (
        dppo(logprobs, old, torch.tensor([[1.0]]), mask, bound, bound).clip.binding.item()
        for bound in (moved, np.nextafter(np.float32(moved), np.float32(0)).item())
    )
    assert (on, past) == (False, True)


def gradient(surrogate, logprobs, batch, *clips):
    if surrogate is sapo:
        loss = sapo(log_ratio(logprobs, batch.old_logprobs, batch.mask), batch.advantages, batch.mask, *clips)
    else:
        loss = dppo(logprobs, batch.old_logprobs, batch.advantages, batch.mask, *clips)
    return loss.loss.sum()


@pytest.mark.parametrize("surrogate", [sapo, dppo])
def test_at_ratio_one_the_gradient_is_the_policy_gradient(surrogate, make_batch):
    batch = make_batch(1)
    batch.old_logprobs = batch.logprobs.detach()
    logprobs = batch.logprobs.clone().requires_grad_()
    gradient(surrogate, logprobs, batch, 0.0, 0.0).backward()
    torch.testing.assert_close(logprobs.grad, torch.where(batch.mask, -batch.advantages, 0))


@pytest.mark.parametrize("surrogate", [sapo, dppo])
def test_gradients_are_those_of_finite_differences(surrogate, make_batch):
    batch = make_batch(2)
    batch.old_logprobs = -batch.old_logprobs.abs()
    logprobs = batch.logprobs.clone().requires_grad_()
    gradient(surrogate, logprobs, batch, 0.1, 0.1).backward()
    step = 1e-6
    for b, t in batch.mask.nonzero().tolist():
        losses = []
        for sign in (1, -1):
            moved = batch.logprobs.clone()
            moved[b, t] += sign * step
            losses.append(gradient(surrogate, moved, batch, 0.1, 0.1).item())
        assert logprobs.grad[b, t].item() == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-6)


def test_a_negative_range_is_refused(one_row):
    x, advantages, mask = one_row([1.0], [1])
    with pytest.raises(ValueError, match="clip_low"):
        sapo(x, advantages, mask, -0.2, 0.2)
    with pytest.raises(ValueError, match="clip_high"):
        dppo(x, x.detach(), advantages, mask, 0.2, -0.2)
