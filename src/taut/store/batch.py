"""A stored step as tables of tokens and as the padded arrays it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taut.store.record import ReplyRecord


class StoredUpdate(NamedTuple):
    """One minibatch of b replies, as seen just before its `optimizer.step()`."""

    epoch: int
    minibatch: int
    rows: np.ndarray  # [b] int64, positions in the batch
    logprobs: np.ndarray  # [b, T] float32
    applied: bool
    scalars: dict[str, float]


@dataclass(eq=False)
class StoredBatch:
    """B replies padded to the longest, T tokens, as in `types.Batch`; pads are 0 and False.

    An array is None where the run has no such quantity.
    """

    step: int
    constants: dict[str, Any]
    reply_ids: np.ndarray  # [B, T] int64
    lengths: np.ndarray  # [B] int64
    prompt_lengths: np.ndarray  # [B] int64
    response_mask: np.ndarray  # [B, T] bool
    rewards: np.ndarray  # [B] float32
    groups: np.ndarray  # [B] int64
    truncated: np.ndarray  # [B] bool
    behavior_logprobs: np.ndarray | None  # this and all below but the last two: [B, T] float32
    old_logprobs: np.ndarray | None
    ref_logprobs: np.ndarray | None
    entropy: np.ndarray | None
    values: np.ndarray | None
    token_rewards: np.ndarray | None
    advantages: np.ndarray | None
    returns: np.ndarray | None
    bootstrap_values: np.ndarray | None  # [B] float32
    updates: list[StoredUpdate]


class Sighting(NamedTuple):
    """The logprobs of one reply, as seen just before an optimiser step."""

    optimizer_step: int
    logprobs: np.ndarray  # [L] float32


def pad(arrays: Sequence[np.ndarray], width: int, dtype: Any) -> np.ndarray:
    """b arrays of at most `width` entries as one [b, width], filled up with 0."""
    padded = np.zeros((len(arrays), width), dtype=dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded


def padded_batch(
    step: int, constants: dict[str, Any], replies: Sequence[ReplyRecord], updates: list[StoredUpdate]
) -> StoredBatch:
    lengths = np.array([len(reply.ids) for reply in replies], dtype=np.int64)
    width = int(lengths.max(initial=0))

    def floats(column: str) -> np.ndarray | None:
        arrays = [getattr(reply, column) for reply in replies]
        return None if any(array is None for array in arrays) else pad(arrays, width, np.float32)

    bootstrap = [reply.bootstrap_value for reply in replies]
    return StoredBatch(
        step=step,
        constants=constants,
        reply_ids=pad([reply.ids for reply in replies], width, np.int64),
        lengths=lengths,
        prompt_lengths=np.array([len(reply.prompt_ids) for reply in replies], dtype=np.int64),
        response_mask=pad([reply.mask for reply in replies], width, bool),
        rewards=np.array([reply.reward for reply in replies], dtype=np.float32),
        groups=np.array([reply.group for reply in replies], dtype=np.int64),
        truncated=np.array([reply.finish_reason == "length" for reply in replies], dtype=bool),
        behavior_logprobs=floats("behavior_logprobs"),
        old_logprobs=floats("old_logprobs"),
        ref_logprobs=floats("ref_logprobs"),
        entropy=floats("entropy"),
        values=floats("values"),
        token_rewards=floats("token_rewards"),
        advantages=floats("advantages"),
        returns=floats("returns"),
        bootstrap_values=None if None in bootstrap else np.array(bootstrap, dtype=np.float32),
        updates=updates,
    )


def token_rows(replies: Sequence[ReplyRecord], latest: Mapping[int, Sighting]) -> list[dict[str, Any]]:
    """One row per token of every reply; `latest` holds the sighting to show of each reply that has one.

    Tokens that an environment told the model have an id, and None for every other quantity.
    """
    rows = []
    for number, reply in enumerate(replies):
        seen = latest.get(number)
        length = len(reply.ids)
        quantities = {
            "behavior_logprob": reply.behavior_logprobs,
            "old_logprob": reply.old_logprobs,
            "ref_logprob": reply.ref_logprobs,
            "logprob": seen and seen.logprobs,
            "entropy": reply.entropy,
            "value": reply.values,
            "reward": reply.token_rewards,
            "advantage": reply.advantages,
            "return": reply.returns,
        }
        require_length(number, length, {"mask": reply.mask, **quantities})
        observed = reply.observed
        columns = {
            "reply": [number] * length,
            "position": list(range(length)),
            "id": reply.ids.tolist(),
            "mask": reply.mask.tolist(),
            "seen_at": [seen and seen.optimizer_step] * length,
            **{name: _listed(array, observed) for name, array in quantities.items()},
        }
        rows += [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return rows


def require_length(reply: int, length: int, arrays: Mapping[str, np.ndarray | None]) -> None:
    """Raises ValueError where one of a reply's arrays is not as long as the reply: the store is damaged."""
    for name, array in arrays.items():
        if array is not None and len(array) != length:
            raise ValueError(
                f"reply {reply} has {length} tokens, but {len(array)} entries of {name}: "
                "the store is damaged; restore it from a copy"
            )


def _listed(array: np.ndarray | None, observed: np.ndarray) -> list[float | None]:
    """None at tokens that an environment told the model: they have no such quantity."""
    if array is None:
        return [None] * len(observed)
    return [None if told else value for told, value in zip(observed.tolist(), array.tolist(), strict=True)]
