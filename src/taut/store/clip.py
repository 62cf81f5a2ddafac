"""Ratio and clip state of a stored batch by NumPy, for what opens without torch.

What trained is `objective/policy.py`; the tests hold this to it, through `training/derive.py`, token by token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

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
    rows = update.rows
    old, advantages = (_array(batch, name)[rows] for name in ("old_logprobs", "advantages"))
    return clip_of(update.logprobs, old, advantages, batch.response_mask[rows], batch.constants)


def clip_of(
    logprobs: np.ndarray,
    old_logprobs: np.ndarray,
    advantages: np.ndarray,
    mask: np.ndarray,
    constants: Mapping[str, Any],
) -> TokenClip:
    """What the clip of `constants` does to these tokens: arrays of one shape, replies along all axes but the last."""
    surrogate = constants.get("surrogate", "clipped")
    logprobs, old, advantages = (
        np.where(mask, x, np.float32(0)) for x in (logprobs, old_logprobs, advantages)
    )
    log_ratio = logprobs - old
    if constants.get("ratio_level") == "sequence":
        trained = np.maximum(mask.sum(-1, keepdims=True), 1)
        log_ratio = np.broadcast_to(log_ratio.sum(-1, keepdims=True) / trained, mask.shape)
    ratio = _exp(log_ratio)
    # DPPO measures how far the probability moved, the others the ratio. Bounds are in the type of what they bound, as
    # torch compares: a ratio on the edge is inside.
    moved, middle = (_exp(logprobs) - _exp(old), 0) if surrogate == "dppo" else (ratio, 1)
    high = mask & (moved > np.float32(middle + _bound(constants, "clip_high")))
    low = mask & (moved < np.float32(middle - _bound(constants, "clip_low")))
    dual = np.zeros_like(mask)
    if surrogate == "cispo":
        binding = (high | low) & (advantages != 0)
    else:
        binding = ((advantages > 0) & high) | ((advantages < 0) & low)
    if surrogate == "sapo":  # its gate fades, and holds nothing
        binding = np.zeros_like(mask)
    if surrogate == "clipped":
        dual = mask & (advantages < 0) & (ratio > np.float32(_bound(constants, "dual_clip")))
    return TokenClip(np.where(mask, ratio, np.float32(np.nan)), high, low, binding, dual)


def _exp(x: np.ndarray) -> np.ndarray:
    """Rounded once, so that it is within a unit in the last place of torch's."""
    with np.errstate(over="ignore"):
        return np.exp(x.astype(np.float64)).astype(np.float32)


def _bound(constants: Mapping[str, Any], name: str) -> float:
    bound = constants.get(name)
    return inf if bound is None else float(bound)


def _array(batch: StoredBatch, name: str) -> np.ndarray:
    array: np.ndarray | None = getattr(batch, name)
    if array is None:
        raise ValueError(f"step {batch.step} was stored without {name}")
    return array
