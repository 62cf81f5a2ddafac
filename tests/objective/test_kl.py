import numpy as np
import pytest
import torch

from taut.objective.kl import (
    AdaptiveController,
    FixedController,
    approximate_kl,
    kl_penalized_rewards,
    token_kl,
)
from taut.objective.policy import clipped_surrogate, log_ratio
from taut.objective.reduce import denominator, reduce_loss

ESTIMATORS = ["k1", "k2", "k3", "k3-straight-through", "k3-weighted"]
PI, REF = torch.tensor([0.9, 0.1], dtype=torch.float64), torch.tensor([0.5, 0.5], dtype=torch.float64)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("seed", range(3))
def test_token_kl_equals_the_oracle(estimator, seed, make_batch, oracle):
    batch = make_batch(seed)
    x = log_ratio(batch.logprobs, batch.old_logprobs, batch.mask)
    actual = token_kl(batch.logprobs, batch.ref_logprobs, batch.mask, estimator, x)

    def formula(b, t):
        inputs = batch.logprobs[b, t].item(), batch.ref_logprobs[b, t].item()
        return oracle.token_kl(*inputs, estimator, x[b, t].item())

    np.testing.assert_allclose(actual, oracle.per_token(batch.mask.numpy(), formula), rtol=1e-9)


def expected_kl(logits, ref, sampler, estimator):
    """Σ_a q(a) · estimate(a) over the whole vocabulary, differentiable: what sampling from q averages to."""
    logprobs = logits.log_softmax(-1)[None]
    mask = torch.ones_like(logprobs, dtype=torch.bool)
    x = log_ratio(logprobs, sampler.log()[None], mask)
    return (sampler * token_kl(logprobs, ref.log()[None], mask, estimator, x)[0]).sum()


def value_and_gradient(logits, ref, sampler, estimator):
    logits = logits.clone().requires_grad_()
    value = expected_kl(logits, ref, sampler, estimator)
    return value.item(), torch.autograd.grad(value, logits)[0]


def true_kl(logits, ref):
    logits = logits.clone().requires_grad_()
    log_p = logits.log_softmax(-1)
    value = (log_p.exp() * (log_p - ref.log())).sum()
    return value.item(), torch.autograd.grad(value, logits)[0]


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [
        ("k1", 0.3681, 0.0),
        ("k2", 0.2850, 0.1978),
        ("k3", 0.3681, 0.4),
        ("k3-straight-through", 0.3681, 0.1978),
        ("k3-weighted", 0.3681, 0.1978),
    ],
)
def test_nine_to_one_against_an_even_reference(estimator, value, gradient):
    assert true_kl(PI.log(), REF)[0] == pytest.approx(0.3681, abs=5e-5)
    assert true_kl(PI.log(), REF)[1][0].item() == pytest.approx(0.1978, abs=5e-5)
    result = value_and_gradient(PI.log(), REF, PI, estimator)
    assert result[0] == pytest.approx(value, abs=5e-5)
    assert result[1][0].item() == pytest.approx(gradient, abs=5e-5)


@pytest.mark.parametrize("seed", range(3))
def test_which_estimators_have_the_gradient_of_the_kl_on_and_off_policy(seed):
    random = torch.Generator().manual_seed(seed)
    logits, ref_logits, old_logits = torch.randn(3, 6, generator=random, dtype=torch.float64)
    ref, old = ref_logits.softmax(-1), old_logits.softmax(-1)
    value, gradient = true_kl(logits, ref)

    def right(sampler, estimator):
        estimate = value_and_gradient(logits, ref, sampler, estimator)[1]
        return torch.allclose(estimate, gradient, rtol=1e-9, atol=1e-12)

    on_policy = {estimator for estimator in ESTIMATORS if right(logits.softmax(-1), estimator)}
    off_policy = {estimator for estimator in ESTIMATORS if right(old, estimator)}
    assert on_policy == {"k2", "k3-straight-through", "k3-weighted"}
    assert off_policy == {"k3-weighted"}
    assert value_and_gradient(logits, ref, old, "k3-weighted")[0] == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["k2", "k3", "k3-straight-through", "k3-weighted"])
def test_with_no_advantage_a_step_lowers_the_likelier_token(estimator):
    # Ten replies of one token, drawn in the policy's own proportions.
    logits = PI.log().clone().requires_grad_()
    tokens, mask = torch.tensor([0] * 9 + [1])[:, None], torch.ones(10, 1, dtype=torch.bool)
    logprobs = logits.log_softmax(-1)[tokens]
    x = log_ratio(logprobs, logprobs.detach(), mask)
    policy_loss = clipped_surrogate(x, torch.zeros(10, 1), mask, 0.2, 0.2).loss
    token_loss = policy_loss + 0.1 * token_kl(logprobs, REF.log()[tokens], mask, estimator, x)
    reduce_loss(token_loss, mask, "token", denominator(mask, "token")).backward()
    torch.optim.SGD([logits], lr=1.0).step()
    assert logits.softmax(-1)[0].item() < 0.9 - 1e-3


def test_k1_in_the_loss_moves_nothing():
    gradient = value_and_gradient(PI.log(), REF, PI, "k1")[1]
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


def test_weighted_needs_the_ratio():
    x, mask = torch.zeros(1, 1), torch.tensor([[True]])
    with pytest.raises(ValueError, match="log_ratio"):
        token_kl(x, x, mask, "k3-weighted")


@pytest.mark.parametrize(("estimator", "expected"), [("k1", 0.5108), ("k2", 0.7339), ("k3", 0.5108)])
def test_approximate_kl_measures_old_against_new(estimator, expected):
    # Ten tokens in the even proportions of π_old; KL(π_old ‖ π) = ln 0.5 - ½ ln(0.9 · 0.1) = 0.5108.
    x = (PI / REF).log()[torch.tensor([0, 1] * 5)][None]
    kl = approximate_kl(x, torch.ones(1, 10, dtype=torch.bool), estimator)
    assert kl == pytest.approx(expected, abs=5e-5)
    assert approximate_kl(x, torch.zeros(1, 10, dtype=torch.bool), estimator) is None


def test_kl_in_the_reward():
    mask = torch.tensor([[True, False, True, False], [True, True, True, True]])
    kl = torch.arange(8.0).reshape(2, 4).requires_grad_()
    rewards = kl_penalized_rewards(torch.tensor([10.0, 20.0]), kl, mask, 0.5)
    assert rewards.tolist() == [[0, 0, 9, 0], [-2, -2.5, -3, 16.5]]
    assert not rewards.requires_grad


def test_fixed_controller_stays():
    controller = FixedController(0.1)
    controller.update(100.0, 256)
    assert controller.coefficient == 0.1


@pytest.mark.parametrize(("kl", "factor"), [(6.0, 1.0), (6.6, 1.01), (5.4, 0.99), (60.0, 1.02), (0.0, 0.98)])
def test_adaptive_controller_steers_to_its_target(kl, factor):
    controller = AdaptiveController(0.2, target=6.0, horizon=1000)
    controller.update(kl, 100)
    assert controller.coefficient == pytest.approx(0.2 * factor)


def test_a_batch_larger_than_the_horizon_is_refused_and_an_unmeasured_kl_changes_nothing():
    controller = AdaptiveController(0.05, target=6.0, horizon=10)
    with pytest.raises(ValueError, match="64 steps at once are more than the horizon of 10"):
        controller.update(0.0, 64)  # 1 - 0.2 * 6.4 would turn β negative
    controller.update(None, 10)
    assert controller.coefficient == 0.05


def test_controller_state_survives():
    controller, restored = (AdaptiveController(0.2, target=6.0, horizon=1000) for _ in range(2))
    controller.update(12.0, 100)
    restored.load_state_dict(controller.state_dict())
    assert restored.coefficient == controller.coefficient != 0.2


@pytest.mark.parametrize(("target", "horizon"), [(0.0, 10), (1.0, 0)])
def test_impossible_controllers_are_refused(target, horizon):
    with pytest.raises(ValueError, match="target and horizon"):
        AdaptiveController(0.2, target, horizon)
