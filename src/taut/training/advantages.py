"""From a batch's rewards to the advantage of every token, as the config says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from taut.config import Config
from taut.objective import advantage
from taut.objective.kl import kl_penalized_rewards, token_kl
from taut.objective.reduce import whiten
from taut.types import Batch

Baseline = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(rewards [B], groups [B], valid [B]) -> advantages [B]"""

BASELINES: dict[str, Baseline] = {
    "batch-mean": advantage.batch_mean,
    "group-mean": advantage.group_mean,
    "group-standardized": advantage.group_standardized,
    "leave-one-out": advantage.leave_one_out,
    "global-normalized": advantage.global_normalized,
    "reward": lambda rewards, groups, valid: torch.where(valid, rewards, 0.0),
}


def estimate_advantages(batch: Batch, config: Config, kl_coefficient: float) -> Batch:
    """The batch with `token_rewards`, `advantages` and, with a critic, `returns`.

    Without a critic a reply's reward is the sum of its token rewards, so that a KL in the reward counts.
    """
    return with_advantages(replace(batch, token_rewards=token_rewards(batch, config, kl_coefficient)), config)


def with_advantages(batch: Batch, config: Config) -> Batch:
    """The batch with `advantages` and, with a critic, `returns`, from the token rewards that it has."""
    mask, rewards = batch.response_mask, batch.token_rewards
    assert rewards is not None, "token rewards come before the advantages"
    if config.algorithm.advantage == "gae":
        advantages, returns = _gae(batch, rewards, config)
    else:
        baseline = BASELINES[config.algorithm.advantage]
        per_reply = baseline(rewards.sum(1), batch.groups, mask.any(1))
        advantages, returns = advantage.broadcast(per_reply, mask), None
    if config.algorithm.whiten_advantages:
        advantages = whiten(advantages, mask)
    return replace(batch, advantages=advantages, returns=returns)


def token_rewards(batch: Batch, config: Config, kl_coefficient: float) -> Tensor:
    """[B, T]: the reply's reward at its last trained token, less β · KL at each where the KL is in the reward.

    Whitened, where the config says so, with the mean kept.
    """
    mask = batch.response_mask
    if config.kl.placement == "reward":
        assert batch.old_logprobs is not None
        assert batch.ref_logprobs is not None
        kl = token_kl(batch.old_logprobs, batch.ref_logprobs, mask, config.kl.estimator)
        rewards = kl_penalized_rewards(batch.rewards, kl, mask, kl_coefficient)
    else:
        rewards = advantage.place_rewards(batch.rewards, mask)
    return whiten(rewards, mask, shift_mean=False) if config.algorithm.whiten_rewards else rewards


def _gae(batch: Batch, rewards: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    algorithm = config.algorithm
    assert batch.values is not None, "GAE needs the critic's values"
    lam: float | Tensor = algorithm.lam
    critic_lam = algorithm.lam_critic
    if algorithm.lam_length_alpha is not None:
        lam = advantage.length_adaptive_lambda(batch.response_mask.sum(1), algorithm.lam_length_alpha)
    return advantage.gae(
        rewards, batch.values, batch.response_mask, algorithm.gamma, lam, batch.bootstrap_values, critic_lam
    )
