"""What a step takes of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from taut.training.timing import Stopwatch

STATM = Path("/proc/self/statm")
GB = 1e9


def system_metrics(watch: Stopwatch) -> dict[str, float]:
    """`system/*` of the step that `watch` measures; what this machine doesn't tell is absent."""
    metrics = {"system/cores": watch.cpu_seconds / watch.total}
    resident = resident_bytes()
    if resident is not None:
        metrics["system/memory"] = resident / GB
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        metrics["system/gpu_memory"] = torch.cuda.max_memory_allocated() / GB
    return metrics


def resident_bytes() -> int | None:
    """What of this process is in memory now; None where the system has no /proc."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
