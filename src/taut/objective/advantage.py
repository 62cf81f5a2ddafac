"""Advantages: baselines over replies, and generalised advantage estimation over tokens.

A baseline takes rewards [B] (float), groups [B] (int64, equal for replies to one prompt) and valid [B]
(bool), and gives advantages [B]. A reply that is not valid (its reward failed, say) counts in no baseline and
gets 0, and so does one that is left without another to compare with. Equal rewards give exactly 0, whatever
their rounding.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from taut.objective.reduce import masked


def batch_mean(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """A_i = r_i - mean(r) over the batch; `groups` is not looked at."""
    return group_mean(rewards, torch.zeros_like(groups), valid)


def group_mean(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """A_i = r_i - mean(r) over the replies to one prompt (Dr.GRPO, 2503.20783)."""
    return _center(rewards, groups, valid)[0].to(rewards)


def group_standardized(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """A_i = (r_i - mean(r)) / std(r) over the replies to one prompt (GRPO, 2402.03300).

    The sample std (n - 1). Departs from common code in having no epsilon in the denominator: a group without
    spread is 0 by rule, and any other has a std.
    """
    centered, index, count = _center(rewards, groups, valid)
    var = torch.zeros_like(count).index_add(0, index, centered.square()) / (count - 1).clamp(min=1)
    std = var.sqrt()[index]
    return torch.where(std > 0, centered / std, 0).to(rewards)


def leave_one_out(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """A_i = r_i - mean of the prompt's other replies = G / (G - 1) · (r_i - mean(r)) (RLOO, 2402.14740)."""
    centered, index, count = _center(rewards, groups, valid)
    return (centered * (count / (count - 1).clamp(min=1))[index]).to(rewards)


def global_normalized(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """A_i = (r_i - mean(r)) / std(r) over the batch (REINFORCE++, 2501.03262); `groups` is not looked at.

    The paper normalises over tokens of the batch; with one reward a reply this weighs each reply the same,
    however long it is. No epsilon, as in `group_standardized`.
    """
    return group_standardized(rewards, torch.zeros_like(groups), valid)


def _center(rewards: Tensor, groups: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(r_i - mean of its group [B], index of its group [B], valid replies per group), float64 on the CPU."""
    valid = valid.cpu()
    rewards = masked(rewards.detach().cpu().double(), valid)
    names, index = torch.unique(groups.cpu(), return_inverse=True)
    zeros = rewards.new_zeros(len(names))
    count = zeros.index_add(0, index, valid.double())
    mean = zeros.index_add(0, index, rewards) / count.clamp(min=1)
    centered = masked(rewards - mean[index], valid)
    deviation = zeros.scatter_reduce(0, index, centered.abs(), "amax")
    size = zeros.scatter_reduce(0, index, rewards.abs(), "amax")
    # Equal rewards that were summed in another order differ by units in the last place of a float32.
    equal = deviation <= 4 * torch.finfo(torch.float32).eps * size
    return torch.where(equal[index], 0, centered), index, count


def broadcast(advantages: Tensor, mask: Tensor) -> Tensor:
    """A reply's advantage [B] at each of its trained tokens [B, T]."""
    return masked(advantages[:, None], mask)


def place_rewards(rewards: Tensor, mask: Tensor) -> Tensor:
    """A reply's reward [B] at its last trained token [B, T], 0 elsewhere."""
    last = mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))
    return masked(rewards.detach()[:, None], last)


def gae(
    token_rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    gamma: float,
    lam: float | Tensor,
    bootstrap_values: Tensor | None = None,
    critic_lam: float | Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (1506.02438): (advantages, returns), both [B, T], constants.

    δ_t = r_t + γ V_{t+1} - V_t,   A_t = δ_t + γ λ A_{t+1},   R_t = A_t + V_t

    t runs over a reply's trained tokens only: what stands between two of them (a tool's output, say) costs no
    γ and no λ. After the last one V is `bootstrap_values` [B], which the caller leaves 0 where the reply
    ended of itself, and A is 0. λ is one number or one per reply [B]. With `critic_lam` the returns, which
    the critic learns, use that λ in place of the policy's (VC-PPO, 2503.01491: critic_lam = 1). Rewards at
    masked slots are not seen.
    """
    rewards, values = masked(token_rewards.detach(), mask), masked(values.detach(), mask)
    bootstrap = values.new_zeros(len(values)) if bootstrap_values is None else bootstrap_values.detach()
    advantages = _gae(rewards, values, mask, gamma, lam, bootstrap)
    critic = advantages if critic_lam is None else _gae(rewards, values, mask, gamma, critic_lam, bootstrap)
    return advantages, critic + values


def _gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float | Tensor, bootstrap: Tensor
) -> Tensor:
    advantages = torch.zeros_like(values)
    next_value, next_advantage = bootstrap, torch.zeros_like(bootstrap)
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantages[:, t] = delta + gamma * lam * next_advantage
        next_advantage = torch.where(mask[:, t], advantages[:, t], next_advantage)
        next_value = torch.where(mask[:, t], values[:, t], next_value)
    return masked(advantages, mask)


def length_adaptive_lambda(lengths: Tensor, alpha: float) -> Tensor:
    """λ = 1 - 1 / (α l) per reply, clamped to [0, 1] (VAPO, 2504.05118); [B] from trained tokens l [B].

    The longer the reply, the further credit reaches. A reply of at most 1/α tokens gets λ = 0, one-step TD;
    where that is most replies a UserWarning says so. Raises ValueError unless alpha > 0.
    """
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, got {alpha}")
    trained = lengths[lengths > 0]
    short = int((trained <= 1 / alpha).sum())
    if 2 * short > len(trained):
        warnings.warn(
            f"{short} of {len(trained)} replies have at most 1/alpha = {1 / alpha:g} tokens, "
            "so their lambda is 0: raise alpha",
            stacklevel=2,
        )
    return (1 - 1 / (alpha * lengths)).clamp(0, 1)
