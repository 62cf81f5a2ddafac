"""The settings of a run that goes on: those it was begun with, or a fork's. Answers before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taut.config import Config, check, resolve
from taut.config.resolve import flatten
from taut.config.reward import ENVIRONMENT
from taut.store import Run
from taut.store.compare import PLACE
from taut.store.run import as_ranges
from taut.training.checkpoint import CHECKPOINTS, checkpoint_folder, checkpoint_steps, damage

SHAPES = ("model.path", "model.gguf_file", "lora.", "critic.shared", "critic.normalize_values")
"""Settings that decide what the weights in a checkpoint are."""
OF_AN_UPDATE = ("algorithm.", "kl.", "optimizer.", "critic.", "learner.", "scoring.", "checks.")
"""Sections that say what becomes of replies once they are there."""
OF_REPLIES = ("algorithm.prompts_per_step", "algorithm.replies_per_prompt", "algorithm.dynamic_sampling")
"""Settings of those sections that say which replies there are."""


def config_to_resume(run: Run, settings: Mapping[str, Any]) -> Config:
    """The run's settings, where `settings`, by dotted key, change nothing but `run.steps`.

    Raises ValueError where they do, and where the run has taken all its steps.
    """
    before = config_of(run)
    config, _ = resolve(before.model_dump(), settings)
    changed = [key for key in _differing(before, config) if key != "run.steps"]
    if changed:
        raise ValueError(
            f"a resumed run keeps its settings but run.steps, and {', '.join(changed)} would change: taut fork "
            f"{run.name} --step N makes a run of its own with other ones"
        )
    newest = max(checkpoint_steps(run.directory / CHECKPOINTS), default=0)
    if newest >= config.run.steps:
        newest = start_of_resume(run).step
    if newest > config.run.steps or (newest == config.run.steps and run.status == "finished"):
        raise ValueError(
            f"run {run.name!r} has taken all its {newest} steps: --run.steps {2 * newest}, for one, lets it go on"
        )
    return config


def config_to_fork(parent: Run, step: int, settings: Mapping[str, Any]) -> tuple[Config, set[str]]:
    """The parent's settings with these, by dotted key, over them, and the sections that this changes.

    Raises ValueError where one decides what the weights of a checkpoint are, and where no step is left.
    """
    before = config_of(parent)
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
    sections = {key.partition(".")[0] for key in changed}
    return config, sections | begun_anew(parent, step) | ({"data"} if "run.seed" in changed else set())


def config_to_replay(run: Run, settings: Mapping[str, Any]) -> tuple[Config, set[str]]:
    """The run's settings with these, by dotted key, over them, and the sections that this changes.

    Raises ValueError where one asks for other replies than the recorded ones, or decides what the weights are.
    """
    before = config_of(run)
    config, _ = resolve(before.model_dump(), settings)
    changed = _differing(before, config)
    for key in changed:
        if not key.startswith(OF_AN_UPDATE) or key.startswith((*OF_REPLIES, *SHAPES)):
            raise ValueError(
                f"a replay keeps the replies and weights that there were, and {key} is about those: taut fork "
                f"{run.name} --step N makes a run of its own"
            )
    if changed:  # no reward function is called, and there may be none to find
        own = ENVIRONMENT if config.environment.path else Config().reward
        check(config.model_copy(update={"reward": own}))
    return config, {key.partition(".")[0] for key in changed}


@dataclass(frozen=True)
class Start:
    """Where a replay or a resumed run begins."""

    step: int
    """The step after which it does."""
    folder: Path | None
    """The checkpoint made there; None is before step 1, where models are made anew."""
    begun_anew: frozenset[str] = frozenset()
    """Sections of the settings whose state in that checkpoint the run, a fork, did not take over."""
    passed_over: Mapping[int, str] = field(default_factory=dict)
    """What is wrong with newer checkpoints, by step."""


def start_of_resume(run: Run) -> Start:
    """The newest whole checkpoint of a step that the store holds, or the beginning where there is none.

    Raises ValueError where there is none and the run cannot begin again: as a fork, or as run.db is not the one that
    belongs to its whole checkpoints.
    """
    directory = run.directory / CHECKPOINTS
    forked_at = run.facts.get("parent_step")
    stored = {row["step"] for row in run.scalars()} | {forked_at}
    passed_over: dict[int, str] = {}
    behind: list[int] = []
    for step in reversed(checkpoint_steps(directory)):
        folder = checkpoint_folder(directory, step)
        problem = damage(folder)
        if problem is None and step in stored:
            return Start(step, folder, begun_anew(run, step), passed_over)
        if problem is None:
            behind.append(step)
        passed_over[step] = problem or "run.db lacks the step"
    if behind:
        raise ValueError(
            f"run {run.name!r} has checkpoints of steps {as_ranges(sorted(behind))}, and its run.db holds none of "
            f"them: restore the run.db that belongs to it; taut fork {run.name} --step {behind[0]} goes on without"
        )
    if forked_at is not None:
        raise ValueError(
            f"run {run.name!r} was forked after step {forked_at} of {run.facts['parent']} and holds no whole "
            f"checkpoint: fork it again"
        )
    return Start(0, None, passed_over=passed_over)


def start_of_replay(run: Run, step: int) -> Start:
    """The nearest whole checkpoint before `step`, from which every step up to it is stored.

    Raises ValueError naming the steps that are not.
    """
    directory = run.directory / CHECKPOINTS
    kept = run.kept_steps()
    if not 1 <= step <= max(kept, default=0):
        raise ValueError(
            f"run {run.name!r} has no step {step}; those whose replies are kept: {as_ranges(kept) or 'none'}"
        )
    forked_at = run.facts.get("parent_step", 0)
    before = [s for s in checkpoint_steps(directory) if s < step]
    nearest = next((s for s in reversed(before) if damage(checkpoint_folder(directory, s)) is None), None)
    if nearest is None and forked_at:
        raise ValueError(
            f"run {run.name!r} was forked after step {forked_at} and holds no whole checkpoint before step {step}"
        )
    first = (nearest or 0) + 1
    missing = sorted(set(range(first, step + 1)) - set(kept))
    if missing:
        since = (
            f"the checkpoint of step {nearest}" if nearest else "the beginning: there is no checkpoint before"
        )
        raise ValueError(
            f"step {step} of run {run.name!r} cannot be replayed: that needs the replies of every step since {since}, "
            f"and those of steps {as_ranges(missing)} are not kept; kept are {as_ranges(kept)}. "
            "A smaller checkpoint.every or a larger store.keep_newest keeps both together"
        )
    folder = checkpoint_folder(directory, nearest) if nearest else None
    return Start(nearest or 0, folder, begun_anew(run, nearest or 0))


def begun_anew(run: Run, step: int) -> frozenset[str]:
    """The sections of the settings whose state in the checkpoint of `step` is the parent's, where `run` is a fork."""
    return frozenset(run.facts.get("begun_anew", ()) if step == run.facts.get("parent_step") else ())


def with_threads_of(run: Run, config: Config) -> Config:
    """With the number of threads that the run was begun with: its numbers depend on it to the last bit."""
    threads = run.facts.get("threads", config.run.threads)
    return config.model_copy(update={"run": config.run.model_copy(update={"threads": threads})})


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


def config_of(run: Run) -> Config:
    """As it was resolved, wherever the run's directory is now."""
    directory = run.directory
    return resolve(run.config, {"run.root": str(directory.parent), "run.name": directory.resolve().name})[0]


def _differing(before: Config, after: Config) -> list[str]:
    old = flatten(before.model_dump())
    return [key for key, value in flatten(after.model_dump()).items() if old.get(key) != value]
