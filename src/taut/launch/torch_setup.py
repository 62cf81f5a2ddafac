"""Seeds, threads and device: what torch must be told before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from taut.config import RunConfig

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of all cores in a period, or "max", and the period's microseconds."""


def prepare_torch(run: RunConfig) -> str:
    """Seeds torch, sets its threads, and names the device. Raises ValueError where CUDA is asked for and absent."""
    torch.manual_seed(run.seed)
    torch.set_num_threads(run.threads or min(torch.get_num_threads(), usable_cores()))
    available = torch.cuda.is_available()
    if run.device == "cuda" and not available:
        raise ValueError("run.device = cuda, and torch finds no CUDA device here: set it to cpu or auto")
    return "cuda" if available and run.device != "cpu" else "cpu"


def usable_cores(quota: Path = QUOTA) -> int:
    """Cores that this process may keep busy: those it may run on, and no more than its container's quota.

    Torch heeds only the first; threads beyond the quota spend their time halted. How busy the cores are is not asked:
    the number of threads may change the last bits, and the same run would differ from day to day.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quota.is_file():
        microseconds, period = quota.read_text(encoding="ascii").split()
        if microseconds != "max":
            cores = min(cores, max(1, int(microseconds) // int(period)))
    return cores


@contextmanager
def torch_state_kept() -> Iterator[None]:
    """Gives threads and random state back as they were, for work that is done or skipped depending on a cache."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
