"""The policy's loss on some rows of a minibatch, as the config says."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from taut.config import AlgorithmConfig, Config
from taut.objective.kl import token_kl
from taut.objective.policy import (
    ClipState,
    Surrogate,
    cispo,
    clipped_surrogate,
    dppo,
    importance_weights,
    log_ratio,
    sapo,
    sequence_log_ratio,
)
from taut.objective.reduce import reduce_loss
from taut.training.batch import Part


@dataclass(frozen=True)
class PolicyLoss:
    loss: Tensor
    """Scalar with gradient: these rows' share of the minibatch's loss."""
    terms: dict[str, float]
    """The same share of each term, by metric name."""
    clip: ClipState


def surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    behavior_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    algorithm: AlgorithmConfig,
) -> Surrogate:
    """The config's member of the clipped family; all [b, T]. What was trained and what is derived come from here."""
    ratio = log_ratio(logprobs, old_logprobs, mask)
    if algorithm.ratio_level == "sequence":
        ratio = sequence_log_ratio(ratio, mask)
    low, high = algorithm.clip_low, algorithm.clip_high
    weights = None
    if algorithm.importance != "none":
        weights = importance_weights(
            old_logprobs, behavior_logprobs, mask, algorithm.importance, algorithm.importance_cap
        )
    if algorithm.surrogate == "cispo":
        return cispo(logprobs, ratio, advantages, mask, low, high, weights)
    if algorithm.surrogate == "sapo":
        return sapo(ratio, advantages, mask, low, high, weights)
    if algorithm.surrogate == "dppo":
        return dppo(logprobs, old_logprobs, advantages, mask, low, high, weights)
    return clipped_surrogate(ratio, advantages, mask, low, high, algorithm.dual_clip, weights)


def policy_loss(
    logprobs: Tensor,
    entropy: Tensor,
    old_logprobs: Tensor,
    part: Part,
    config: Config,
    kl_coefficient: float,
    denominator: float,
) -> PolicyLoss:
    """Surrogate + β · KL to the reference - coefficient · entropy, reduced over these rows."""
    algorithm, mask = config.algorithm, part.mask

    def reduce(x: Tensor) -> Tensor:
        return reduce_loss(x, mask, algorithm.loss_normalization, denominator)

    clipped = surrogate(logprobs, old_logprobs, part.behavior_logprobs, part.advantages, mask, algorithm)
    loss = reduce(clipped.loss)
    terms = {"loss/policy": loss.item()}
    if config.kl.placement == "loss":
        assert part.ref_logprobs is not None
        ratio = log_ratio(logprobs, old_logprobs, mask)
        kl = reduce(token_kl(logprobs, part.ref_logprobs, mask, config.kl.estimator, ratio))
        loss = loss + kl_coefficient * kl
        terms["loss/kl"] = kl.item()
    if algorithm.entropy_coefficient:
        bonus = reduce(entropy)
        loss = loss - algorithm.entropy_coefficient * bonus
        terms["loss/entropy"] = bonus.item()
    return PolicyLoss(loss, terms, clipped.clip)
