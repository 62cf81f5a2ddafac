"""Recomputes, from a stored batch, what the update saw: by the very code that trained, so exactly.

Other settings than the run's may be given: the result is then a counterfactual of the objective on the recorded
updates, not of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from taut.config import AlgorithmConfig
from taut.objective.advantage import gae, length_adaptive_lambda
from taut.objective.policy import ClipState
from taut.store import StoredBatch
from taut.training.loss import surrogate


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
