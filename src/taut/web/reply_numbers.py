"""What the clip did to each reply, and how far it moved, from stored arrays: NumPy, for lists of replies.

The same numbers as `taut.training.derive` and `taut.objective` give with torch, which the server does not load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taut.store.clip import clip_of
from taut.store.part import ReplyTokens

Numbers = dict[str, float | None]


def reply_numbers(tokens: ReplyTokens, constants: Mapping[str, Any], applied: Sequence[bool]) -> Numbers:
    """Of one reply; None where there is nothing to measure.

    clip/binding   share of its trained tokens that the clip held, over the applied optimiser steps that saw it
    kl/ref_k3      mean over its trained tokens of k3 between the policy before the batch and the reference, nats
    kl/old_k3      mean over its trained tokens of ρ - 1 - log ρ as last seen in the batch, nats: how far the batch
                   moved it
    ratio/max      the largest and
    ratio/min      the smallest ratio that an applied optimiser step saw
    """
    mask, old = tokens.mask, tokens.arrays.get("old_logprobs")
    found: Numbers = dict.fromkeys(("clip/binding", "kl/ref_k3", "kl/old_k3", "ratio/max", "ratio/min"))
    if old is None or not mask.any():
        return found
    if "ref_logprobs" in tokens.arrays:
        x = (tokens.arrays["ref_logprobs"] - old)[mask]
        found["kl/ref_k3"] = float(np.mean(np.expm1(x.astype(np.float64)) - x))
    if tokens.sightings:
        moved = (tokens.sightings[-1].logprobs - old)[mask].astype(np.float64)
        found["kl/old_k3"] = float(np.mean(np.expm1(moved) - moved))
    seen = [seen.logprobs for seen in tokens.sightings if applied[seen.optimizer_step]]
    if seen:
        advantages = tokens.arrays.get("advantages", np.zeros_like(old))
        clip = clip_of(
            np.stack(seen), old, advantages, np.broadcast_to(mask, (len(seen), len(mask))), constants
        )
        found["ratio/max"], found["ratio/min"] = float(np.nanmax(clip.ratio)), float(np.nanmin(clip.ratio))
        if "advantages" in tokens.arrays:
            found["clip/binding"] = float(clip.binding.sum() / (len(seen) * mask.sum()))
    return found
