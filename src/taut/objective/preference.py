"""Learning from pairs of replies of which one is preferred: Bradley-Terry, DPO, and how well σ(margin) tells."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def bradley_terry_loss(chosen: Tensor, rejected: Tensor, margin: Tensor) -> Tensor:
    """-log σ(r_chosen - r_rejected - margin), [N], of rewards [N] (2203.02155 eq. 1; margin: 2307.09288 eq. 2).

    A margin of 0 is the plain model P(chosen is preferred) = σ(r_chosen - r_rejected).
    """
    return -F.logsigmoid(chosen - rejected - margin)


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, beta: float) -> Tensor:
    """β (log π(y|x) - log π_ref(y|x)), the reward for which π is optimal, up to a term of x alone (2305.18290 eq. 5).

    Both are sums over a reply's tokens, of any one shape; the reference is a constant.
    """
    return beta * (logprobs - ref_logprobs.detach())


def dpo_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """-log σ(r_chosen - r_rejected), [N], of implicit rewards [N] (2305.18290 eq. 7)."""
    return -F.logsigmoid(chosen - rejected)


def preference_statistics(differences: Tensor) -> dict[str, float]:
    """Of r_chosen - r_rejected [N], N > 0: `accuracy`, `margin` and `calibration_error`.

    accuracy is the share above 0 (a tie is wrong), margin the mean.
    """
    differences = differences.detach().cpu().double()
    return {
        "accuracy": (differences > 0).double().mean().item(),
        "margin": differences.mean().item(),
        "calibration_error": calibration_error(differences),
    }


def calibration_error(differences: Tensor, bins: int = 10) -> float:
    """Expected calibration error of σ(r_chosen - r_rejected) against the pairs' labels (1706.04599 eq. 3).

    A pair's confidence is σ(|d|), in [½, 1], and it is right where d > 0. Over equally wide bins of confidence,
    the mean of |share right - mean confidence|, weighted by the pairs in the bin. 0 is calibrated.
    """
    confidence = differences.abs().sigmoid()
    right = (differences > 0).to(confidence.dtype)
    bin_of = ((confidence - 0.5) * 2 * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=confidence.dtype).index_add_(0, bin_of, right - confidence)
    return (gap.abs().sum() / len(differences)).item()
