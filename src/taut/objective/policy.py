"""Ratios, the clipped surrogate and its family, and the anatomy of the clip, all from one comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, log
from typing import Literal

import torch
from torch import Tensor

from taut.objective.reduce import masked, masked_mean, masked_quantile

WeightMode = Literal["none", "truncate", "mask"]
WeightLevel = Literal["token", "sequence"]

SAPO_TAU_POSITIVE, SAPO_TAU_NEGATIVE = 1.0, 1.05
"""Temperatures of SAPO's gate by the sign of the advantage, its paper's: what is unwanted fades faster."""


@dataclass(frozen=True)
class ClipState:
    """What the clip did to each token: detached [B, T] tensors, false or 0 where masked."""

    mask: Tensor
    ratio: Tensor
    sign: Tensor
    """Of the advantage: -1, 0 or 1, int8."""
    high: Tensor
    """ρ > 1 + clip_high, or π - π_old > clip_high under DPPO. What is exactly on the edge is inside, and keeps
    its gradient."""
    low: Tensor
    """ρ < 1 - clip_low, or π_old - π > clip_low under DPPO."""
    binding: Tensor
    """Outside on the side the advantage favours, so the token is held and has no gradient. Under CISPO: the
    weight is capped (on either side), and gradient still flows. Under SAPO: nowhere, as it holds no token. Never
    where the advantage is 0."""
    dual: Tensor
    """Held by the dual clip: no gradient, yet not binding."""

    @property
    def outside(self) -> Tensor:
        return self.high | self.low


@dataclass(frozen=True)
class Surrogate:
    loss: Tensor
    """[B, T], per token, to minimise; not reduced, 0 where masked."""
    clip: ClipState


def log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """log ρ = log π - log π_old, [B, T], 0 where masked; gradient to `logprobs` alone."""
    return masked(logprobs, mask) - masked(old_logprobs.detach(), mask)


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """log s = mean of log ρ over a reply's trained tokens, given to each of them (GSPO, 2507.18071); [B, T].

    The GSPO-token form, sg[log s] + log ρ - sg[log ρ]: each token's gradient goes to its own logprob. Where a
    reply has one advantage this is GSPO's own gradient, (s · A / |y|) Σ_t ∇ log π under sequence
    normalisation; where advantages differ within a reply, a token that is clipped still has none.
    """
    log_ratio = masked(log_ratio, mask)
    mean = log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return masked(mean.detach() + (log_ratio - log_ratio.detach()), mask)


def clipped_surrogate(
    log_ratio: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float | None,
    clip_high: float | None,
    dual_clip: float | None = None,
    weights: Tensor | None = None,
) -> Surrogate:
    """-w · min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A) per token (PPO, 1707.06347); all [B, T].

    Separate sides are DAPO's clip-higher (2503.14476); None or inf leaves a side open. `dual_clip` c bounds
    what a negative advantage can cost: max(the above, c A) where A < 0 (1912.09729). `weights` w are those of
    the decoupled objective (2110.00641), constants; w = 0 removes a token's loss and its gradient, and leaves
    its clip state as it is. The sequence-level surrogate is this one on `sequence_log_ratio`.

    A held token is a constant, chosen by the comparisons that are returned as its clip state: its gradient is
    exactly 0 even where exp overflows, and a token outside on the other side keeps its own.
    Raises ValueError for a negative clip and for c <= 1.
    """
    _check_clip(clip_low, clip_high)
    if dual_clip is not None and not dual_clip > 1:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    log_ratio, advantages = masked(log_ratio, mask), masked(advantages.detach(), mask)
    ratio, high, low = _sides(log_ratio, clip_low, clip_high)
    up, down = advantages > 0, advantages < 0
    binding = (up & high) | (down & low)
    dual = down & (ratio > (inf if dual_clip is None else dual_clip))
    held = _clip(ratio, high, low, clip_low, clip_high)
    held = held if dual_clip is None else torch.where(dual, dual_clip, held)
    flat = binding | dual
    scale = _scale(advantages, weights, mask)
    # Gated before exp: behind it, an overflow would come back as 0 · inf.
    live = torch.where(flat | (scale == 0), 0, log_ratio).exp()
    clip = ClipState(mask, masked(ratio, mask), _sign(advantages), high, low, binding, dual)
    return Surrogate(-torch.where(flat, held, live) * scale, clip)


def cispo(
    logprobs: Tensor,
    log_ratio: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float | None,
    clip_high: float | None,
    weights: Tensor | None = None,
) -> Surrogate:
    """-w · sg[clip(ρ, 1 - clip_low, 1 + clip_high)] · A · log π per token (CISPO, 2506.13585); all [B, T].

    The ratio is a constant weight on the policy gradient, so no token loses its gradient: `binding` says that
    the weight was capped. MiniMax bounds the weight from above only: `clip_low` None.
    Raises ValueError for a negative clip.
    """
    _check_clip(clip_low, clip_high)
    advantages = masked(advantages.detach(), mask)
    ratio, high, low = _sides(masked(log_ratio, mask), clip_low, clip_high)
    scale = _scale(advantages, weights, mask)
    capped = torch.where(scale == 0, 0, _clip(ratio, high, low, clip_low, clip_high))
    binding, sign = (high | low) & (advantages != 0), _sign(advantages)
    clip = ClipState(mask, masked(ratio, mask), sign, high, low, binding, torch.zeros_like(binding))
    return Surrogate(-capped * scale * masked(logprobs, mask), clip)


def sapo(
    log_ratio: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float | None,
    clip_high: float | None,
    weights: Tensor | None = None,
) -> Surrogate:
    """-w · 4/τ · σ(τ (ρ - 1)) · A per token, τ by the sign of A (SAPO, 2511.20347); all [B, T].

    A gate in place of the clip: its slope is 1 at ρ = 1, where the gradient is the plain policy gradient, and
    falls off as 4 σ (1 - σ) to either side. No token is ever held, so `binding` is nowhere true; the clips say
    no more than what counts as outside. Raises ValueError for a negative clip.
    """
    _check_clip(clip_low, clip_high)
    log_ratio, advantages = masked(log_ratio, mask), masked(advantages.detach(), mask)
    ratio, high, low = _sides(log_ratio, clip_low, clip_high)
    tau = torch.full_like(advantages, SAPO_TAU_NEGATIVE).masked_fill(advantages > 0, SAPO_TAU_POSITIVE)
    # At ρ = 101 σ is 1 to the last bit. Past it exp would overflow, and come back as 0 · inf.
    gate = 4 / tau * torch.sigmoid(tau * torch.expm1(log_ratio.clamp(max=log(101))))
    nowhere = torch.zeros_like(high)
    clip = ClipState(mask, masked(ratio, mask), _sign(advantages), high, low, nowhere, nowhere)
    return Surrogate(-gate * _scale(advantages, weights, mask), clip)


def dppo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float | None,
    clip_high: float | None,
    weights: Tensor | None = None,
) -> Surrogate:
    """-w · M · ρ · A per token, M = 0 where its push has moved π too far (DPPO, 2602.04879); all [B, T].

    M is 0 where A > 0 and π - π_old > clip_high, and where A < 0 and π_old - π > clip_low: how far is the total
    variation between the two policies' choices of this token or another (the paper's binary estimate), not
    their ratio. So a token of probability 0.00001 may become a hundred times likelier, and one of 0.99 may not
    fall to 0.80. A held token has neither loss nor gradient.
    Departs in measuring from π_old, the learner's own at the batch's start, not from the sampler's policy.
    Raises ValueError for a negative clip.
    """
    _check_clip(clip_low, clip_high)
    advantages, x = masked(advantages.detach(), mask), log_ratio(logprobs, old_logprobs, mask)
    moved = masked(logprobs.detach(), mask).exp() - masked(old_logprobs.detach(), mask).exp()
    high = moved > (inf if clip_high is None else clip_high)
    low = moved < -(inf if clip_low is None else clip_low)
    binding = ((advantages > 0) & high) | ((advantages < 0) & low)
    scale = _scale(advantages, weights, mask)
    live = torch.where(binding | (scale == 0), 0, x).exp()
    ratio, none = masked(x.detach().exp(), mask), torch.zeros_like(binding)
    clip = ClipState(mask, ratio, _sign(advantages), high, low, binding, none)
    return Surrogate(-torch.where(binding, 0, live) * scale, clip)


def importance_weights(
    old_logprobs: Tensor,
    behavior_logprobs: Tensor,
    mask: Tensor,
    mode: WeightMode,
    cap: float,
    level: WeightLevel = "token",
) -> Tensor:
    """w = π_old / π_behavior, for the gap between sampler and learner (2110.00641); [B, T], constant.

    token      each token's own ratio
    sequence   the product of the ratios of a reply's trained tokens, given to each of them
    truncate   min(w, cap)          mask   w inside [1 / cap, cap], else 0          none   1

    Raises ValueError for a cap below 1, which would weigh down tokens the two agree on.
    """
    if mode == "none":
        return mask.to(old_logprobs.dtype)
    if not cap >= 1:
        raise ValueError(f"the cap of an importance weight must be at least 1, got {cap}")
    gap = log_ratio(old_logprobs.detach(), behavior_logprobs, mask)
    if level == "sequence":
        gap = gap.sum(-1, keepdim=True).expand_as(gap)
    weights = gap.exp()
    if mode == "truncate":
        return masked(weights.clamp(max=cap), mask)
    return masked(weights, mask & (weights >= 1 / cap) & (weights <= cap))


def cat_clip_states(states: Sequence[ClipState]) -> ClipState:
    """The rows of several clip states of one width T, in order: for statistics over all of them."""
    return ClipState(*(torch.cat([getattr(state, f.name) for state in states]) for f in fields(ClipState)))


def clip_statistics(clip: ClipState) -> dict[str, float]:
    """Shares of the trained tokens, by name, and the distribution of their ratio; {} where there are none.

    clip/binding    the clipped share; = clip/high + clip/low by side = .._positive + .._negative by sign of A
    clip/outside    ρ outside the range, whatever A; also .._high and .._low, .._positive and .._negative
    clip/dual       held by the dual clip: always ρ above its bound with A < 0, so it has no further split
    ratio/          mean, min, max, p01, p50, p99
    """
    tokens = int(clip.mask.sum())
    if not tokens:
        return {}
    positive, negative = clip.sign > 0, clip.sign < 0
    states = {
        "clip/binding": clip.binding,
        "clip/high": clip.binding & clip.high,
        "clip/low": clip.binding & clip.low,
        "clip/binding_positive": clip.binding & positive,
        "clip/binding_negative": clip.binding & negative,
        "clip/outside": clip.outside,
        "clip/outside_high": clip.high,
        "clip/outside_low": clip.low,
        "clip/outside_positive": clip.outside & positive,
        "clip/outside_negative": clip.outside & negative,
        "clip/dual": clip.dual,
    }
    ratio = {"ratio/mean": masked_mean(clip.ratio, clip.mask)}
    for name, q in {"min": 0.0, "p01": 0.01, "p50": 0.5, "p99": 0.99, "max": 1.0}.items():
        ratio[f"ratio/{name}"] = masked_quantile(clip.ratio, clip.mask, q)
    shares = {name: int(state.sum()) / tokens for name, state in states.items()}
    return shares | {name: value for name, value in ratio.items() if value is not None}


def _check_clip(clip_low: float | None, clip_high: float | None) -> None:
    for name, clip in (("clip_low", clip_low), ("clip_high", clip_high)):
        if clip is not None and not clip >= 0:
            raise ValueError(f"{name} is a distance from 1 and cannot be negative, got {clip}")


def _sides(
    log_ratio: Tensor, clip_low: float | None, clip_high: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    ratio = log_ratio.detach().exp()
    high = ratio > 1 + (inf if clip_high is None else clip_high)
    low = ratio < 1 - (inf if clip_low is None else clip_low)
    return ratio, high, low


def _clip(
    ratio: Tensor, high: Tensor, low: Tensor, clip_low: float | None, clip_high: float | None
) -> Tensor:
    if clip_high is not None:
        ratio = torch.where(high, 1 + clip_high, ratio)
    return ratio if clip_low is None else torch.where(low, 1 - clip_low, ratio)


def _sign(advantages: Tensor) -> Tensor:
    return advantages.sign().to(torch.int8)


def _scale(advantages: Tensor, weights: Tensor | None, mask: Tensor) -> Tensor:
    return advantages if weights is None else advantages * masked(weights.detach(), mask)
