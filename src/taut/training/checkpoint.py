"""Checkpoints: written beside and renamed into place, so that a half one never has a valid name."""

from __future__ import annotations

import shutil
from pathlib import Path

from taut.training.learner import Learner


def save_checkpoint(learner: Learner, directory: Path, step: int) -> Path:
    """Writes `step_000040` into `directory` and returns its path."""
    folder = directory / f"step_{step:06d}"
    beside = directory / f".{folder.name}.writing"
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir(parents=True)
    learner.save(beside)
    return beside.rename(folder)


def newest_checkpoint(directory: Path) -> Path:
    """Raises ValueError where there is none."""
    found = sorted(directory.glob("step_*"), key=lambda folder: int(folder.name.removeprefix("step_")))
    if not found:
        raise ValueError(f"{directory} holds no checkpoint")
    return found[-1]
