"""Estimates of the KL from sampled tokens, in the loss, in the reward and as a measure; its controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from taut.objective.advantage import place_rewards
from taut.objective.reduce import masked, masked_mean

KLEstimator = Literal["k1", "k2", "k3", "k3-straight-through", "k3-weighted"]


def token_kl(
    logprobs: Tensor,
    ref_logprobs: Tensor,
    mask: Tensor,
    estimator: KLEstimator,
    log_ratio: Tensor | None = None,
) -> Tensor:
    """One sampled token's estimate of KL(π ‖ π_ref) in nats, [B, T]; x = log π_ref - log π.

                            value        expected gradient is the KL's
    k1                      -x           never: it is 0. For the reward, not for the loss
    k2                      x²/2         if sampled from π; its value is biased
    k3                      eˣ - 1 - x   never: it is KL(π_ref ‖ π)'s (if sampled from π)
    k3-straight-through     k3           k2's: if sampled from π
    k3-weighted             ρ · k3       if sampled from π_old; ρ = π / π_old from `log_ratio`, with gradient

    k1 to k3: Schulman, joschu.net/blog/kl-approx.html; weighted by ρ: 2512.02556. Raises ValueError if
    k3-weighted comes without `log_ratio`.
    """
    x = masked(ref_logprobs.detach(), mask) - masked(logprobs, mask)
    if estimator == "k1":
        return -x
    k2 = x.square() / 2
    if estimator == "k2":
        return k2
    k3 = torch.expm1(x) - x
    if estimator == "k3":
        return k3
    if estimator == "k3-straight-through":
        return k3.detach() + (k2 - k2.detach())
    if log_ratio is None:
        raise ValueError("k3-weighted needs the log_ratio of the policy to the one that sampled")
    return masked(log_ratio, mask).exp() * k3


def approximate_kl(
    log_ratio: Tensor, mask: Tensor, estimator: Literal["k1", "k2", "k3"] = "k1"
) -> float | None:
    """KL(π_old ‖ π) per trained token in nats, from log ρ of tokens that π_old drew; None if there are none.

    k1 is unbiased and can be negative; k3 = ρ - 1 - log ρ is unbiased and cannot. What `target_kl` is held
    to.
    """
    log_ratio = masked(log_ratio.detach(), mask)
    return masked_mean(token_kl(torch.zeros_like(log_ratio), log_ratio, mask, estimator), mask)


def kl_penalized_rewards(rewards: Tensor, kl: Tensor, mask: Tensor, coefficient: float) -> Tensor:
    """r_t = (the reply's reward, at its last trained token) - β kl_t: the KL in the reward (1909.08593).

    rewards [B], kl [B, T] (k1 is the estimator meant), result [B, T], a constant.
    """
    return place_rewards(rewards, mask) - coefficient * masked(kl.detach(), mask)


@dataclass
class FixedController:
    """A KL coefficient that stays."""

    coefficient: float

    def update(self, kl: float | None, steps: int) -> None:
        pass

    def state_dict(self) -> dict[str, float]:
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.coefficient = state["coefficient"]


@dataclass
class AdaptiveController(FixedController):
    """Steers the KL to `target`: β ← β (1 + clip(KL / target - 1, ±0.2) · steps / horizon) (1909.08593).

    `steps` counts replies, and `horizon` is how many of them may move β by at most a fifth: no fewer than come
    at once, or one update would move it further, past 0 even. KL and target are both per token, or both per
    reply: whichever the caller feeds; None, where nothing was measured, changes nothing, nor does what is not
    finite. Raises ValueError unless target, horizon > 0 and, in `update`, for more steps than the horizon.
    """

    target: float
    horizon: int

    def __post_init__(self) -> None:
        if not (self.target > 0 and self.horizon > 0):
            raise ValueError(f"target and horizon must be above 0, got {self.target} and {self.horizon}")

    def update(self, kl: float | None, steps: int) -> None:
        if steps > self.horizon:
            raise ValueError(f"{steps} steps at once are more than the horizon of {self.horizon}")
        if kl is None or not math.isfinite(kl):
            return
        error = min(max(kl / self.target - 1, -0.2), 0.2)
        self.coefficient *= 1 + error * steps / self.horizon
