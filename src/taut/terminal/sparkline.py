"""A row of numbers as a row of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def sparkline(values: Sequence[float], width: int, bars: str, floor: float | None = None) -> str:
    """At most `width` bars; where there are more values, each bar is the mean of its share of them.

    The lowest bar stands for `floor`, or the smallest value, the highest for the largest. Values that are not
    finite are left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    count = min(width, len(finite))
    edges = [round(i * len(finite) / count) for i in range(count + 1)] if count > 0 else [0]
    means = [math.fsum(finite[start:end]) / (end - start) for start, end in pairwise(edges)]
    if not means:
        return ""
    low, high = min(means) if floor is None else min(floor, *means), max(means)
    if high == low:
        return bars[0] * count
    return "".join(bars[min(len(bars) - 1, int(len(bars) * (mean - low) / (high - low)))] for mean in means)
