"""How a batch is cut: minibatches, each one optimiser step, and micro-batches, each one forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taut.types import Rows


def cut_minibatches(size: int, epochs: int, minibatches: int, key: Sequence[int]) -> list[list[Rows]]:
    """`size` rows in equal minibatches, shuffled anew each epoch; `key` (seed, step) fixes the shuffles."""
    assert size % minibatches == 0, f"{size} rows do not cut into {minibatches} equal minibatches"
    if minibatches == 1:
        return [[list(range(size))] for _ in range(epochs)]
    rng = np.random.default_rng([*key, 1])
    return [
        [part.tolist() for part in np.split(rng.permutation(size), minibatches)] for _ in range(epochs)
    ]  # fmt: skip


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
