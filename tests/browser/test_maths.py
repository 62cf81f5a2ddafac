"""The page's mathematics is the library's: the same cases, computed by `taut.objective` and in the page, to 1e-12."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from taut.config.presets import PRESETS
from taut.objective import advantage as of_advantage
from taut.objective import kl as of_kl
from taut.objective import policy as of_policy
from taut.objective.reduce import denominator, reduce_loss

MASK = torch.ones(1, 1, dtype=torch.bool)
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"clipLow": 0.2, "clipHigh": 0.2},
    "clip-higher": {"clipLow": 0.2, "clipHigh": 0.28},
    "dual-clip": {"clipLow": 0.2, "clipHigh": 0.2, "dualClip": 3.0},
    "cispo": {"clipLow": None, "clipHigh": 4.0},
    "gspo": {"clipLow": 3e-4, "clipHigh": 4e-4},
    "sapo": {"clipLow": 0.2, "clipHigh": 0.2},
    "dppo": {"clipLow": 0.15, "clipHigh": 0.15},
}
"""Written out, so that a default of the page that changed would be seen."""


def one(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def token_of(loss: str, log_ratio: float, old: float, advantage: float) -> dict[str, Any]:
    """One token's numbers by the library: π_old = `old`, log ρ = `log_ratio`."""
    settings = SETTINGS[loss]
    old_logprobs = one(old).log()
    logprobs = (old_logprobs + log_ratio).requires_grad_()
    x, a = of_policy.log_ratio(logprobs, old_logprobs, MASK), one(advantage)
    low, high, dual = settings["clipLow"], settings["clipHigh"], settings.get("dualClip")
    if loss == "cispo":
        surrogate = of_policy.cispo(logprobs, x, a, MASK, low, high)
    elif loss == "sapo":
        surrogate = of_policy.sapo(x, a, MASK, low, high)
    elif loss == "dppo":
        surrogate = of_policy.dppo(logprobs, old_logprobs, a, MASK, low, high)
    else:
        level = of_policy.sequence_log_ratio(x, MASK) if loss == "gspo" else x
        surrogate = of_policy.clipped_surrogate(level, a, MASK, low, high, dual)
    surrogate.loss.sum().backward()
    clip = surrogate.clip
    gradient = logprobs.grad
    assert gradient is not None
    return {
        "ratio": clip.ratio.item(),
        "objective": -surrogate.loss.item(),
        "weight": -gradient.item(),
        "held": "dual" if clip.dual.item() else "clip" if clip.binding.item() and loss != "cispo" else None,
        "capped": loss == "cispo" and clip.binding.item(),
        "side": "above" if clip.high.item() else "below" if clip.low.item() else "inside",
    }


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", SETTINGS)
def test_one_token_under_each_member_of_the_family(loss, golden) -> None:
    cases = [
        (x, old, advantage)
        for x in [-3, -1.1, -0.3, -0.15, -2e-4, 0, 2e-4, 0.1, 0.19, 0.25, 0.6, 1.2, 1.7, 3]
        for old in [1e-5, 0.4, 0.99]
        for advantage in [-1.3, 0.0, 0.8, 2.0]
        if old * math.exp(x) <= 1
    ]
    expected = [token_of(loss, *case) for case in cases]
    asked = [
        (
            "token",
            [loss, {**SETTINGS[loss], "ratio": e["ratio"], "advantage": case[2], "oldProbability": case[1]}],
        )
        for case, e in zip(cases, expected, strict=True)
    ]
    found = golden("taut/maths/policy.js", asked)
    for case, token, e in zip(cases, found, expected, strict=True):
        close([token["objective"], token["weight"]], [e["objective"], e["weight"]])
        close(token["slope"] * e["ratio"], e["weight"])
        assert [token[key] for key in ("held", "capped", "side")] == [
            e[key] for key in ("held", "capped", "side")
        ], case
        assert token["flat"] == (e["held"] is not None)
    seen = {token["side"] for token in found}
    assert seen == ({"inside", "above"} if loss == "cispo" else {"below", "inside", "above"})


def test_the_edge_of_the_range_is_inside(golden) -> None:
    asked = [
        ("token", ["ppo", {"ratio": ratio, "advantage": a}])
        for ratio, a in [
            (1.2, 1.0),
            (math.nextafter(1.2, 2), 1.0),
            (0.8, -1.0),
            (math.nextafter(0.8, 0), -1.0),
        ]
    ]
    assert [one["flat"] for one in golden("taut/maths/policy.js", asked)] == [False, True, False, True]


def test_the_defaults_are_those_of_the_presets(golden) -> None:
    for loss, preset in {"clip-higher": "dapo", "cispo": "cispo", "gspo": "gspo", "dppo": "dppo"}.items():
        for key, name in (("clip_low", "clipLow"), ("clip_high", "clipHigh")):
            assert PRESETS[preset].get(f"algorithm.{key}", 0.2) == SETTINGS[loss][name]
    # The page's own, at a ratio within neither the narrow nor beyond the wide ranges.
    for loss, settings in SETTINGS.items():
        probe = [1 - 1e-3, 1.25, 1.29, 4.9, 5.1, 3.1]
        ask = [("token", [loss, {"ratio": r, "advantage": a}]) for r in probe for a in (1.0, -1.0)]
        given = [
            ("token", [loss, {**settings, "ratio": r, "advantage": a}]) for r in probe for a in (1.0, -1.0)
        ]
        assert golden("taut/maths/policy.js", ask) == golden("taut/maths/policy.js", given)


def test_the_ratio_of_a_reply(golden) -> None:
    x = torch.tensor([[0.4, -0.1, 0.0, 1.3]], dtype=torch.float64)
    [ratio] = golden("taut/maths/policy.js", [("sequenceRatio", [x[0].tolist()])])
    close(ratio, of_policy.sequence_log_ratio(x, torch.ones_like(x, dtype=torch.bool))[0, 0].exp().item())


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.0), (0.97, 1.0), (0.0, 0.5)])
def test_gae(gamma, lam, golden) -> None:
    random = torch.Generator().manual_seed(1)
    rewards, values = (torch.randn(2, 9, generator=random, dtype=torch.float64) for _ in range(2))
    bootstrap = torch.tensor([0.0, 0.7], dtype=torch.float64)
    mask = torch.ones_like(rewards, dtype=torch.bool)
    advantages, returns = of_advantage.gae(rewards, values, mask, gamma, lam, bootstrap)
    asked = [
        ("gae", [{"rewards": r, "values": v, "gamma": gamma, "lam": lam, "bootstrap": b}])
        for r, v, b in zip(rewards.tolist(), values.tolist(), bootstrap.tolist(), strict=True)
    ]
    found = golden("taut/maths/advantage.js", asked)
    close([reply["advantages"] for reply in found], advantages)
    close([reply["returns"] for reply in found], returns)
    kernels = golden("taut/maths/advantage.js", [("kernel", [9, t, gamma, lam]) for t in range(9)])
    for reply, deltas in zip(advantages, (reply["deltas"] for reply in found), strict=True):
        close(np.array(kernels) @ np.array(deltas), reply)


def test_baselines(golden) -> None:
    rewards = [1.0, 0.0, 0.0, 1.0, 0.3, 0.3, 0.3, 0.25, -2.0, 0.1 + 0.2, 0.3, 0.7]
    groups = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4]
    of_python = {name: name.replace("-", "_") for name in
                 ("batch-mean", "group-mean", "group-standardized", "leave-one-out", "global-normalized")}  # fmt: skip
    found = golden("taut/maths/advantage.js", [("baseline", [name, rewards, groups]) for name in of_python])
    valid = torch.ones(len(rewards), dtype=torch.bool)
    for name, advantages in zip(of_python, found, strict=True):
        function = getattr(of_advantage, of_python[name])
        close(advantages, function(torch.tensor(rewards, dtype=torch.float64), torch.tensor(groups), valid))
    # Rewards that differ by rounding alone are equal, and a reply alone has nothing to be compared with.
    assert found[2][9:] == [0, 0, 0]


def test_kl_estimators(golden) -> None:
    names = ("k1", "k2", "k3", "k3-straight-through", "k3-weighted")
    cases = [(name, x, r) for name in names for x in (-2.0, -0.1, 0.0, 1e-4, 0.7, 3.0) for r in (0.0, 0.4)]
    found = golden("taut/maths/kl.js", [("estimate", [*case]) for case in cases])
    for (name, x, log_ratio), token in zip(cases, found, strict=True):
        logprobs = one(-1.0).requires_grad_()
        ratio = logprobs - (-1.0 - log_ratio)
        kl = of_kl.token_kl(logprobs, one(x - 1.0), MASK, name, ratio)
        kl.sum().backward()
        assert logprobs.grad is not None
        # x - 1 + 1 is not x to the last bit, and k3 near 0 is a difference of two like numbers.
        np.testing.assert_allclose(token["value"], kl.item(), rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(token["gradient"], logprobs.grad.item(), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("placement", ["loss", "reward"])
def test_the_kl_over_a_distribution(placement, golden) -> None:
    p = torch.tensor([0.55, 0.25, 0.15, 0.05], dtype=torch.float64)
    q = torch.tensor([0.3, 0.3, 0.1, 0.3], dtype=torch.float64)
    mask = torch.ones(1, 4, dtype=torch.bool)
    gradients = {}
    for name in ("k1", "k2", "k3"):
        logits = p.log().requires_grad_()
        logprobs = logits.log_softmax(-1)[None]
        kl = of_kl.token_kl(logprobs, q.log()[None], mask, name)  # type: ignore[arg-type]
        handed = kl if placement == "loss" else kl.detach() * logprobs
        (p * handed).sum().backward()
        gradients[name] = logits.grad
        [value, gradient] = golden(
            "taut/maths/kl.js",
            [
                ("expectedValue", [name, p.tolist(), q.tolist()]),
                ("expectedGradient", [name, placement, p.tolist(), q.tolist()]),
            ],
        )
        close(value, (p * kl).sum().item())
        close(gradient, gradients[name])
    logits = p.log().requires_grad_()
    policy = logits.log_softmax(-1)
    forward = (policy.exp() * (policy - q.log())).sum()
    [forward_gradient] = torch.autograd.grad(forward, logits, retain_graph=True)
    backward = (q * (q.log() - policy)).sum()
    [backward_gradient] = torch.autograd.grad(backward, logits)
    found = golden(
        "taut/maths/kl.js",
        [(name, [p.tolist(), q.tolist()]) for name in
         ("divergence", "divergenceGradient", "reverseDivergenceGradient")],
    )  # fmt: skip
    for numbers, expected in zip(found, (forward.detach(), forward_gradient, backward_gradient), strict=True):
        close(numbers, expected)


@pytest.mark.parametrize("normalization", ["token", "sequence", "constant"])
def test_loss_aggregation(normalization, golden) -> None:
    lengths = [4, 0, 12, 1]
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    loss = torch.zeros(mask.shape, dtype=torch.float64, requires_grad=True)
    below = denominator(mask, normalization, 20)
    reduce_loss(loss, mask, normalization, below).backward()
    found = golden(
        "taut/maths/reduce.js",
        [("denominator", [lengths, normalization, 20]), ("tokenWeights", [lengths, normalization, 20])],
    )
    assert found[0] == below
    assert loss.grad is not None
    trained = mask.any(-1)
    close(np.array(found[1])[trained], loss.grad[trained, 0])
