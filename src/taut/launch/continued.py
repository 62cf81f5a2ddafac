"""The settings of a run that goes on: those it was begun with, or a fork's. Answers before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taut.config import Config, resolve
from taut.config.resolve import flatten
from taut.store import Run
from taut.training.checkpoint import CHECKPOINTS, checkpoint_folder, checkpoint_steps, damage

SHAPES = ("model.path", "model.gguf_file", "lora.", "critic.shared", "critic.normalize_values")
"""Settings that decide what the weights in a checkpoint are."""
PLACE = ("run.root", "run.name")


def config_to_resume(run: Run, settings: Mapping[str, Any]) -> Config:
    """The run's settings, where `settings`, by dotted key, change nothing but `run.steps`.

    Raises ValueError where they do, and where the run has taken all its steps.
    """
    before = _config_of(run)
    config, _ = resolve(before.model_dump(), settings)
    changed = [key for key in _differing(before, config) if key != "run.steps"]
    if changed:
        raise ValueError(
            f"a resumed run keeps its settings but run.steps, and {', '.join(changed)} would change: taut fork "
            f"{run.name} --step N makes a run of its own with other ones"
        )
    newest = max(checkpoint_steps(run.directory / CHECKPOINTS), default=0)
    if newest > config.run.steps or (newest == config.run.steps and run.status == "finished"):
        raise ValueError(
            f"run {run.name!r} has taken all its {newest} steps: --run.steps {2 * newest}, for one, lets it go on"
        )
    return config


def config_to_fork(parent: Run, step: int, settings: Mapping[str, Any]) -> tuple[Config, set[str]]:
    """The parent's settings with these, by dotted key, over them, and the sections that this changes.

    Raises ValueError where one decides what the weights of a checkpoint are, and where no step is left.
    """
    before = _config_of(parent)
    config, _ = resolve(before.model_dump(), {"run.name": None}, settings)
    changed = [key for key in _differing(before, config) if key not in PLACE]
    if shapes := [key for key in changed if key.startswith(SHAPES)]:
        folder = checkpoint_folder(parent.directory / CHECKPOINTS, step)
        raise ValueError(
            f"{shapes[0]} decides what the weights of a checkpoint are, and a fork keeps it: taut train --model.path "
            f"{folder} starts from the policy alone"
        )
    if config.run.steps <= step:
        raise ValueError(
            f"run.steps = {config.run.steps} leaves nothing to do after step {step}: set it to {step + 1} or more"
        )
    return config, {key.partition(".")[0] for key in changed}


def whole_checkpoint(run: Run, step: int) -> Path:
    """Raises ValueError where there is none of that step, naming those there are, or it is damaged."""
    directory = run.directory / CHECKPOINTS
    steps = checkpoint_steps(directory)
    if step not in steps:
        there = ", ".join(map(str, steps)) or "none"
        raise ValueError(f"run {run.name!r} has no checkpoint of step {step}; it has those of steps: {there}")
    folder = checkpoint_folder(directory, step)
    if problem := damage(folder):
        raise ValueError(f"the checkpoint {folder} is damaged: {problem}")
    return folder


def _config_of(run: Run) -> Config:
    """As it was resolved, wherever the run's directory is now."""
    directory = run.directory
    return resolve(run.config, {"run.root": str(directory.parent), "run.name": directory.resolve().name})[0]


def _differing(before: Config, after: Config) -> list[str]:
    old = flatten(before.model_dump())
    return [key for key, value in flatten(after.model_dump()).items() if old.get(key) != value]
