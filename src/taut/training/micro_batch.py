"""How a batch is cut: minibatches, each one optimiser step, and micro-batches, each one forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taut.models.layout import Costs, Row, lay_out, width_of
from taut.types import Batch, MicroBatch, Rows


def cut_minibatches(size: int, epochs: int, minibatches: int, key: Sequence[int]) -> list[list[Rows]]:
    """`size` rows in equal minibatches, shuffled anew each epoch; `key` (seed, step) fixes the shuffles."""
    assert size % minibatches == 0, f"{size} rows do not cut into {minibatches} equal minibatches"
    if minibatches == 1:
        return [[list(range(size))] for _ in range(epochs)]
    rng = np.random.default_rng([*key, 1])
    return [
        [part.tolist() for part in np.split(rng.permutation(size), minibatches)] for _ in range(epochs)
    ]  # fmt: skip


def cut_micro_batches(batch: Batch, rows: Rows, costs: Costs, max_tokens: int) -> list[MicroBatch]:
    """Cuts rows of the batch as a decoder of these costs computes them quickest, with at most `max_tokens` a pass.

    Replies to one prompt are together where that is cheaper, and those of like length. A reply longer than
    `max_tokens` goes alone.
    """
    rollouts = [batch.rollouts[row] for row in rows]
    prompts, lengths = (
        [rollout.prompt.ids for rollout in rollouts],
        [len(rollout.ids) for rollout in rollouts],
    )

    def micro_batch(fed: list[Row]) -> MicroBatch:
        widths, sizes = [width_of(row, prompts, lengths) for row in fed], tuple(len(row) for row in fed)
        shared = sizes if max(sizes) > 1 else None
        own = [rows[reply] for row in fed for reply in row]
        return MicroBatch(own, shared, sum(widths), len(widths) * max(widths))

    return [micro_batch(fed) for fed in lay_out(prompts, lengths, costs, max_tokens)]


def micro_batches(rows: Rows, lengths: Sequence[int], max_tokens: int) -> list[Rows]:
    """Cuts rows, sorted by length, so that rows × longest stays within `max_tokens`.

    `lengths[row]` counts prompt and reply. A row longer than `max_tokens` goes alone.
    """
    parts: list[Rows] = []
    for row in sorted(rows, key=lambda r: (lengths[r], r)):
        # Sorted, so that the new row is the longest of its part.
        if parts and (len(parts[-1]) + 1) * lengths[row] <= max_tokens:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts
