"""Whether the loss is connected to what it should be, and to nothing else: the clip, the KL, and the pads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from taut.checks.arithmetic import expected_mask
from taut.checks.finding import Evidence, Finding, judge
from taut.objective.reduce import denominator, masked, reduce_loss
from taut.objective.value import value_loss
from taut.training.advantages import estimate_advantages, token_rewards
from taut.training.batch import part_of
from taut.training.loss import policy_loss
from taut.types import Batch

SHIFT = 0.1
"""Nats by which logprobs are moved where a KL of 0 would show nothing, and beyond the edge of the clip."""


def pads(evidence: Evidence) -> Finding | None:
    """Loss, gradient and advantages read neither what stands where nothing trains, nor how wide the batch is."""
    if evidence.costly is None:
        return None
    batch = as_updated(evidence)
    narrow, wide, spoiled = batch, _padded(batch, 0.0), _padded(batch, torch.nan)
    differing = []
    for name, values_of in (("advantages", _advantages), ("gradient", _gradients), ("loss", _losses)):
        few, more, junk = (values_of(each, evidence) for each in (narrow, wide, spoiled))
        if not torch.equal(more, junk):
            differing.append(f"NaN in the pads changes the {name}")
        elif not torch.allclose(few, more[..., : few.shape[-1]], rtol=1e-5, atol=1e-6):
            differing.append(f"more pads change the {name}")
    measured = (
        " and ".join(differing) or "neither NaN in the pads nor more pads change loss, gradient, advantages"
    )
    return judge(not differing, measured, "a mask covers a pad, or a term or statistic forgets the mask")


def clip(evidence: Evidence) -> Finding | None:
    """Beyond the clip, on the side that its advantage favours, a token has no gradient."""
    if evidence.costly is None or evidence.config.algorithm.surrogate != "clipped":
        return None
    batch, tokens, pushing = as_updated(evidence), 0, 0
    for shift, held in _beyond_the_clip(batch, evidence):
        gradient = _policy_loss(batch, evidence, 0.0, shift)[1]
        tokens += int(held.sum())
        pushing += int((gradient[held] != 0).sum())
    if not tokens:
        return None
    measured = f"of {tokens} tokens moved beyond the clip {pushing or 'none'} {'have' if pushing else 'has'} a gradient"
    advice = "algorithm.clip_low and clip_high are not what the loss does, and nothing holds the policy to its batch"
    return judge(pushing == 0, measured, advice)


def _beyond_the_clip(batch: Batch, evidence: Evidence) -> Iterator[tuple[float, Tensor]]:
    """Of each side that is clipped: nats that move every token beyond its edge, and which tokens [B, T] it holds."""
    low, high = evidence.config.algorithm.clip_low, evidence.config.algorithm.clip_high
    assert batch.advantages is not None
    advantages = masked(batch.advantages, batch.response_mask)
    if high is not None and math.isfinite(high):
        yield math.log1p(high) + SHIFT, advantages > 0
    if low is not None and low < 1:  # at 1 there is nothing below the edge
        yield math.log1p(-low) - SHIFT, advantages < 0


def kl_connected(evidence: Evidence) -> Finding | None:
    """The KL to the reference reaches what is trained, and the reference stays where it was."""
    placement = evidence.config.kl.placement
    if placement == "none" or not evidence.batch.response_mask.any():
        return None
    if _reference_moves(evidence):
        measured = "the policy was updated, and its KL to the reference is exactly 0"
        return Finding(
            "fail", f"{measured}: the reference must be frozen, and the updates large enough to move a weight"
        )
    if evidence.costly is None:
        return None
    change = _reward_change(evidence) if placement == "reward" else _gradient_change(evidence)
    what = "token rewards" if placement == "reward" else "gradient of the loss"
    measured = f"the KL moves the {what} by {change:.1e}"
    return judge(
        change > 0, measured, f"with kl.placement = {placement} it must move them: it is detached or left out"
    )


def as_updated(evidence: Evidence) -> Batch:
    """The batch with what its updates filled in; logprobs that no optimiser step came to are 0."""
    old = evidence.trace.old_logprobs.nan_to_num()
    return replace(evidence.batch, old_logprobs=old, entropy=evidence.trace.entropy.nan_to_num())


def _padded(batch: Batch, junk: float) -> Batch:
    """The batch with two more columns of pads, and `junk` in all that was measured where nothing trains."""
    inert = F.pad(~expected_mask(batch), (0, 2), value=True)
    changed: dict[str, Any] = {}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor) and value.dim() == 2:
            value = F.pad(value, (0, 2))
            changed[field.name] = value.masked_fill(inert, junk) if value.is_floating_point() else value
    return replace(batch, **changed)


def _advantages(batch: Batch, evidence: Evidence) -> Tensor:
    """[B, T], 0 behind the end of a reply."""
    made = estimate_advantages(batch, evidence.config, evidence.schedule.kl_coefficient).advantages
    assert made is not None
    return masked(made, expected_mask(batch))


def _gradients(batch: Batch, evidence: Evidence) -> Tensor:
    return _policy_loss(batch, evidence, evidence.schedule.kl_coefficient)[1]


def _losses(batch: Batch, evidence: Evidence) -> Tensor:
    """[1] the policy's, [2] with the critic's."""
    loss, _ = _policy_loss(batch, evidence, evidence.schedule.kl_coefficient)
    if batch.values is None or batch.returns is None:
        return loss[None]
    old, mask = batch.values, batch.response_mask
    of_values = value_loss(old - SHIFT, old, batch.returns, mask, evidence.config.critic.value_clip).loss
    return torch.stack([loss, reduce_loss(of_values, mask, "token", denominator(mask, "token"))])


def _policy_loss(
    batch: Batch, evidence: Evidence, kl_coefficient: float, shift: float = -SHIFT
) -> tuple[Tensor, Tensor]:
    """The loss on logprobs that are `shift` above the old ones, and its gradient [B, T] with respect to them."""
    config, everyone = evidence.config, list(range(batch.size))
    assert batch.old_logprobs is not None
    assert batch.entropy is not None
    count = denominator(batch.response_mask, config.algorithm.loss_normalization, config.longest_reply)
    logprobs = (batch.old_logprobs + shift).requires_grad_()
    part = part_of(batch, everyone, "cpu")
    loss = policy_loss(logprobs, batch.entropy, batch.old_logprobs, part, config, kl_coefficient, count).loss
    [gradient] = torch.autograd.grad(loss, logprobs)
    return loss.detach(), gradient


def _gradient_change(evidence: Evidence) -> float:
    batch = as_updated(evidence)
    without, with_kl = (_policy_loss(batch, evidence, coefficient)[1] for coefficient in (0.0, 1.0))
    return (with_kl - without).abs().max().item()


def _reward_change(evidence: Evidence) -> float:
    batch = as_updated(evidence)
    assert batch.old_logprobs is not None
    batch = replace(batch, ref_logprobs=batch.old_logprobs - SHIFT)
    without, with_kl = (token_rewards(batch, evidence.config, coefficient) for coefficient in (0.0, 1.0))
    return (with_kl - without).abs().max().item()


def _reference_moves(evidence: Evidence) -> bool:
    """Or the policy does not, as in weights of bfloat16."""
    updated = any(m["update/steps"] and m.get("grad/norm", 0.0) > 0 for m in list(evidence.history)[:-1])
    same = any(name.startswith("kl/ref_") and value == 0 for name, value in evidence.metrics.items())
    return updated and same
