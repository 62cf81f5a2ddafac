"""Seeds, threads and device: what torch must be told before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from taut.config import RunConfig


def prepare_torch(run: RunConfig) -> str:
    """Seeds torch, sets its threads, and names the device. Raises ValueError where CUDA is asked for and absent."""
    torch.manual_seed(run.seed)
    if run.threads:
        torch.set_num_threads(run.threads)
    available = torch.cuda.is_available()
    if run.device == "cuda" and not available:
        raise ValueError("run.device = cuda, and torch finds no CUDA device here: set it to cpu or auto")
    return "cuda" if available and run.device != "cpu" else "cpu"


@contextmanager
def torch_state_kept() -> Iterator[None]:
    """Gives threads and random state back as they were, for work that is done or skipped depending on a cache."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
