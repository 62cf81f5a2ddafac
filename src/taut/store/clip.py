"""Ratio and clip state of a stored batch by NumPy, for what opens without torch.

What trained is `objective/policy.py`; the tests hold this to it, through `training/derive.py`, token by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from taut.store.batch import StoredBatch, StoredUpdate


@dataclass(frozen=True, eq=False)
class TokenClip:
    """What the clip did to each token of one update's b replies: [b, T] arrays, false where not trained.

    The names are those of `objective.policy.ClipState`.
    """

    ratio: np.ndarray
    """ρ; NaN where a token is not trained."""
    high: np.ndarray
    low: np.ndarray
    binding: np.ndarray
    dual: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Tokens that the clip gave no gradient (under CISPO: whose weight it capped)."""
        return self.binding | self.dual


def token_clips(batch: StoredBatch) -> list[TokenClip]:
    """One for each stored update, rows as in `batch.updates[k].rows`.

    Raises ValueError where the batch was stored without old logprobs or advantages.
    """
    return [_token_clip(batch, update) for update in batch.updates]


def _token_clip(batch: StoredBatch, update: StoredUpdate) -> TokenClip:
    constants, rows = batch.constants, update.rows
    mask = batch.response_mask[rows]
    old, advantages = (_array(batch, name)[rows] for name in ("old_logprobs", "advantages"))
    log_ratio = np.where(mask, update.logprobs - np.where(mask, old, 0), 0)
    if constants.get("ratio_level") == "sequence":
        trained = np.maximum(mask.sum(1, keepdims=True), 1)
        log_ratio = np.broadcast_to(log_ratio.sum(1, keepdims=True) / trained, mask.shape)
    with np.errstate(over="ignore"):
        ratio = np.exp(log_ratio).astype(np.float32)
    advantages = np.where(mask, advantages, 0)
    # Bounds in the type of the ratio, as torch compares: a ratio on the edge is inside.
    high = mask & (ratio > np.float32(1 + _bound(constants, "clip_high")))
    low = mask & (ratio < np.float32(1 - _bound(constants, "clip_low")))
    dual = np.zeros_like(mask)
    if constants.get("surrogate") == "cispo":
        binding = (high | low) & (advantages != 0)
    else:
        binding = ((advantages > 0) & high) | ((advantages < 0) & low)
        dual = mask & (advantages < 0) & (ratio > np.float32(_bound(constants, "dual_clip")))
    return TokenClip(np.where(mask, ratio, np.float32(np.nan)), high, low, binding, dual)


def _bound(constants: dict[str, object], name: str) -> float:
    bound = constants.get(name)
    return inf if bound is None else float(bound)  # type: ignore[arg-type]


def _array(batch: StoredBatch, name: str) -> np.ndarray:
    array: np.ndarray | None = getattr(batch, name)
    if array is None:
        raise ValueError(f"step {batch.step} was stored without {name}")
    return array
