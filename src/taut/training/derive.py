"""Recomputes, from a stored batch, what the update saw: by the very code that trained, so exactly.

Other settings than the run's may be given: the result is then a counterfactual of the objective on the recorded
updates, not of the run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from taut.config import AlgorithmConfig, Config, resolve
from taut.config.resolve import flatten
from taut.objective.advantage import gae, length_adaptive_lambda
from taut.objective.policy import ClipState, cat_clip_states
from taut.objective.reduce import denominator
from taut.store import StoredBatch
from taut.store.batch import StoredUpdate
from taut.training.advantages import token_rewards, with_advantages
from taut.training.batch import part_of
from taut.training.loss import policy_loss, surrogate
from taut.training.metrics import advantage_metrics, clip_metrics, mean_of_steps
from taut.training.shaping import RewardShaper
from taut.types import Batch, OptimizerStep, Trace

OF_THE_OBJECTIVE = (
    *("algorithm.clip_low", "algorithm.clip_high", "algorithm.dual_clip", "algorithm.surrogate"),
    *(
        "algorithm.ratio_level",
        "algorithm.loss_normalization",
        "algorithm.importance",
        "algorithm.importance_cap",
    ),
    *("algorithm.advantage", "algorithm.whiten_advantages", "algorithm.gamma", "algorithm.lam"),
    *("algorithm.lam_critic", "algorithm.lam_length_alpha", "kl.coefficient"),
)
"""The settings whose effect on a recorded batch can be computed; the others decided which updates there were."""
OF_GAE = ("algorithm.gamma", "algorithm.lam", "algorithm.lam_critic", "algorithm.lam_length_alpha")


@dataclass(frozen=True)
class Recomputed:
    """What the objective says of the updates of a stored batch."""

    batch: Batch
    """With the token rewards, advantages and returns that it gives."""
    trace: Trace
    """Of each stored update the logprobs as recorded, and of the objective the clip state and the loss's terms."""
    settings: dict[str, Any]
    """Those in force, by dotted key of `OF_THE_OBJECTIVE`; β as it stood in this batch."""

    @property
    def metrics(self) -> dict[str, float]:
        """Of those that `training/metrics.py` makes of a step the ones that the objective decides."""
        names = dict.fromkeys(name for step in self.trace.steps for name in step.scalars)
        losses = {name: mean_of_steps(name, self.trace.steps) for name in names}
        found = losses | clip_metrics(self.trace) | advantage_metrics(self.batch)
        return {name: value for name, value in found.items() if value is not None}


def recompute(batch: StoredBatch, config: Config, changes: Mapping[str, Any] | None = None) -> Recomputed:
    """Advantages, clip states and the policy's loss of a stored batch of a run with `config`, under `changes`.

    `changes` are settings by dotted key, of `OF_THE_OBJECTIVE`. Without any, all is what was trained on, to the last
    bit on the machine of the run: the same functions give both, in the same micro-batches. Raises ValueError for a
    change whose effect the stored batch cannot tell, with the reason.
    """
    before = _as_trained(batch, config)
    after, _ = resolve(before.model_dump(), changes or {})
    old, new = flatten(before.model_dump()), flatten(after.model_dump())
    changed = {key for key, value in new.items() if old.get(key) != value}
    _refuse(before, after, changed)
    whole = batch_of(batch)
    if "kl.coefficient" in changed and after.kl.placement == "reward":
        shaped = RewardShaper(after)(whole)
        whole = replace(shaped, token_rewards=token_rewards(shaped, after, after.kl.coefficient))
    if after.algorithm.advantage == "gae":
        _tensor(batch, "values")  # says that they are missing
    whole = with_advantages(whole, after)
    cuts = list(batch.constants.get("micro_batches", []))
    cuts += [[len(update.rows)] for update in batch.updates[len(cuts) :]]  # the final pass had no loss
    steps = [_optimizer_step(whole, *each, after) for each in zip(batch.updates, cuts, strict=True)]
    assert whole.old_logprobs is not None
    trace = Trace(steps, whole.old_logprobs, torch.zeros(whole.old_logprobs.shape))
    return Recomputed(whole, trace, {key: new[key] for key in OF_THE_OBJECTIVE})


def why_fixed(batch: StoredBatch, config: Config) -> dict[str, str]:
    """Of `OF_THE_OBJECTIVE` those that the stored batch cannot be asked about, and why not."""
    found = {}
    trained = _as_trained(batch, config)
    for key in OF_THE_OBJECTIVE:
        try:
            _refuse(trained, trained, {key})
        except ValueError as error:
            found[key] = str(error)
    return found


def _as_trained(batch: StoredBatch, config: Config) -> Config:
    """The run's settings as they stood in this batch."""
    weighed = config.kl.model_copy(update={"coefficient": batch.constants.get("kl_coefficient", 0.0)})
    return config.model_copy(update={"algorithm": algorithm_of(batch), "kl": weighed})


def _refuse(before: Config, after: Config, changed: set[str]) -> None:
    """Raises ValueError where what was stored does not tell what a change would have done."""
    algorithm = after.algorithm
    for key in sorted(changed):
        if key not in OF_THE_OBJECTIVE:
            raise ValueError(
                f"{key} decides which updates there were, and those are recorded: taut replay takes a step again with "
                "another one"
            )
        if key in OF_GAE and algorithm.advantage != "gae":
            raise ValueError(
                f"{key} is GAE's, and this run has no critic: its advantages come from {algorithm.advantage}"
            )
    if algorithm.advantage == "gae" != before.algorithm.advantage:
        raise ValueError("GAE needs a critic's values, and this run had no critic")
    if "algorithm.lam" in changed and algorithm.lam_length_alpha is not None:
        raise ValueError(
            "algorithm.lam is replaced by a λ for each length in this run: set lam_length_alpha to null beside it"
        )
    if "kl.coefficient" in changed and after.kl.placement == "none":
        raise ValueError("kl.coefficient has no KL to weigh: this run held no reference")
    if "kl.coefficient" in changed and after.kl.placement == "reward" and after.scoring.normalize:
        raise ValueError(
            "kl.coefficient acts on rewards that were normalised by moments that are not stored: taut replay takes the "
            "step again with another one"
        )
    if algorithm.dual_clip is not None and algorithm.surrogate != "clipped":
        raise ValueError(
            f"algorithm.dual_clip bounds the clipped surrogate: with {algorithm.surrogate} set it to null"
        )


def _optimizer_step(
    batch: Batch, update: StoredUpdate, micro_batches: list[int], config: Config
) -> OptimizerStep:
    """As `training/update.py` accumulates it: each micro-batch's loss in float32, their sum in float64."""
    assert batch.old_logprobs is not None
    # The entropy at each optimiser step is not stored, and its bonus no part of what is asked.
    algorithm = config.algorithm.model_copy(update={"entropy_coefficient": 0.0})
    config = config.model_copy(update={"algorithm": algorithm})
    everyone, logprobs = torch.from_numpy(update.rows), torch.from_numpy(update.logprobs)
    count = denominator(batch.response_mask[everyone], algorithm.loss_normalization, config.longest_reply)
    scalars: dict[str, float] = defaultdict(float)
    clips = []
    for rows, seen in zip(everyone.split(micro_batches), logprobs.split(micro_batches), strict=True):
        part, old, beta = (
            part_of(batch, rows.tolist(), "cpu"),
            batch.old_logprobs[rows],
            config.kl.coefficient,
        )
        found = policy_loss(seen, torch.zeros_like(seen), old, part, config, beta, count)
        clips.append(found.clip)
        for name, value in found.terms.items():
            scalars[name] += value
    return OptimizerStep(
        rows=everyone.tolist(),
        logprobs=logprobs,
        clip=cat_clip_states(clips),
        scalars=dict(scalars) if update.scalars else {},  # the final pass had no loss
        epoch=update.epoch,
        minibatch=update.minibatch,
        applied=update.applied,
        not_finite="" if all(map(math.isfinite, scalars.values())) else "the policy's loss",
    )


def batch_of(stored: StoredBatch) -> Batch:
    """The arrays of a stored batch as the loop's: without the replies' texts, and with rewards as earned."""
    mask, behavior = torch.from_numpy(stored.response_mask), _tensor(stored, "behavior_logprobs")
    lengths = torch.from_numpy(stored.lengths)
    own = torch.arange(mask.shape[1]) < lengths[:, None]
    names = ("ref_logprobs", "values", "bootstrap_values", "returns")
    optional: dict[str, Any] = {
        name: None if getattr(stored, name) is None else _tensor(stored, name) for name in names
    }
    return Batch(
        rollouts=(),
        scores=(),
        reply_ids=torch.from_numpy(stored.reply_ids),
        reply_lengths=lengths,
        sampled=mask | (own & ~behavior.isnan()),
        response_mask=mask,
        behavior_logprobs=behavior,
        rewards=torch.from_numpy(stored.rewards),
        groups=torch.from_numpy(stored.groups),
        truncated=torch.from_numpy(stored.truncated),
        old_logprobs=_tensor(stored, "old_logprobs"),
        token_rewards=_tensor(stored, "token_rewards"),
        advantages=_tensor(stored, "advantages"),
        **optional,
    )


def clip_states(batch: StoredBatch, changes: Mapping[str, Any] | None = None) -> list[ClipState]:
    """Ratio and clip state [b, T] of each stored update, rows as in `batch.updates[k].rows`.

    `changes` are keys of the `algorithm` section, such as {"clip_low": 0.1}. Raises ValueError where the batch lacks
    what the ratio needs.
    """
    algorithm = algorithm_of(batch, changes)
    old, behavior = _tensor(batch, "old_logprobs"), _tensor(batch, "behavior_logprobs")
    advantages, mask = _tensor(batch, "advantages"), torch.from_numpy(batch.response_mask)
    return [
        surrogate(
            torch.from_numpy(update.logprobs),
            old[update.rows],
            behavior[update.rows],
            advantages[update.rows],
            mask[update.rows],
            algorithm,
        ).clip
        for update in batch.updates
    ]


def gae_advantages(batch: StoredBatch, changes: Mapping[str, Any] | None = None) -> tuple[Tensor, Tensor]:
    """Advantages (before whitening) and returns [B, T] of a batch that a critic valued, under the given γ and λ."""
    algorithm = algorithm_of(batch, changes)
    mask = torch.from_numpy(batch.response_mask)
    lam: float | Tensor = algorithm.lam
    if algorithm.lam_length_alpha is not None:
        lam = length_adaptive_lambda(mask.sum(1), algorithm.lam_length_alpha)
    return gae(
        _tensor(batch, "token_rewards"),
        _tensor(batch, "values"),
        mask,
        algorithm.gamma,
        lam,
        _tensor(batch, "bootstrap_values"),
        algorithm.lam_critic,
    )


def algorithm_of(batch: StoredBatch, changes: Mapping[str, Any] | None = None) -> AlgorithmConfig:
    """The algorithm section the batch was trained with, and `changes` over it."""
    known = AlgorithmConfig.model_fields
    stored = {key: value for key, value in batch.constants.items() if key in known}
    return AlgorithmConfig.model_validate({**stored, **(changes or {})})


def _tensor(batch: StoredBatch, name: str) -> Tensor:
    array: np.ndarray | None = getattr(batch, name)
    if array is None:
        raise ValueError(f"step {batch.step} was stored without {name}")
    return torch.from_numpy(array)
