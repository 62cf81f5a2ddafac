"""A run taken up again after its newest whole checkpoint, and a new one that goes on from any of its checkpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from taut.config import Config, check, to_yaml
from taut.config.reward import ENVIRONMENT
from taut.launch.continued import (
    Start,
    config_to_fork,
    config_to_resume,
    start_of_resume,
    whole_checkpoint,
    with_threads_of,
)
from taut.launch.environments import with_environment
from taut.launch.local import (
    Prepared,
    machine_facts,
    prepare,
    retention_of,
    run_loop,
    tell_nobody,
    wait_for_nothing,
)
from taut.launch.rewards import OnWait, Reward, describe
from taut.store import Run, RunWriter
from taut.store.lock import refuse_if_driven
from taut.store.runs import new_run_directory
from taut.store.writer import EventListener
from taut.tasks.environments.protocol import EnvironmentFactory
from taut.training.checkpoint import (
    CHECKPOINTS,
    checkpoint_folder,
    clean_up,
    set_aside,
)
from taut.training.ppo import Observer
from taut.training.progress import restore

FOR_BITS = ("taut", "python", "torch", "transformers", "platform", "threads", "device")
"""The facts of a run on which its numbers depend to the last bit."""


def resume(
    directory: Path | str,
    steps: int | None = None,
    observers: Sequence[Observer] = (),
    on_wait: OnWait = wait_for_nothing,
    reward: Reward | None = None,
    on_event: EventListener = tell_nobody,
    environment: EnvironmentFactory | None = None,
) -> Run:
    """Goes on with the run in `directory` after its newest whole checkpoint, and returns it finished.

    Its settings are those it was begun with, but for `run.steps`, where `steps` is given; a `reward` or an
    `environment` that was given as code must be given again. Steps that were taken after the checkpoint are taken
    again, and the old ones are superseded. Raises ValueError where all steps are taken, or another process trains
    the run, or no checkpoint fits its store.
    """
    directory = Path(directory)
    run = Run.open(directory)
    refuse_if_driven(directory)
    config = config_to_resume(run, {} if steps is None else {"run.steps": steps})
    _check(config, reward)
    start = start_of_resume(run)
    prepared = prepare(with_threads_of(run, config), on_wait, reward, environment)
    with RunWriter.resume(directory, retention_of(config), to_yaml(config)) as store:
        store.listeners.append(on_event)
        _tell_of_differences(store, run, prepared.device)
        first_step = _take_up(prepared, store, run, start)
        store.supersede_after(first_step - 1)
        run_loop(prepared, store, observers, on_wait, first_step)
    return Run.open(directory)


def fork(
    directory: Path | str,
    step: int,
    settings: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    on_wait: OnWait = wait_for_nothing,
    reward: Reward | None = None,
    on_event: EventListener = tell_nobody,
    environment: EnvironmentFactory | None = None,
) -> Run:
    """A new run that goes on after `step` of the run in `directory`, with other `settings`, by dotted key.

    It needs nothing of the other run afterwards. What belongs to a section of settings that changes starts anew: see
    `training.progress.restore`. Raises ValueError where there is no whole checkpoint of that step, or where a setting
    decides what its weights are.
    """
    parent = Run.open(directory)
    config, changed = config_to_fork(parent, step, settings or {})
    config = with_environment(config, environment)
    _check(config, reward)
    folder = whole_checkpoint(parent, step)
    if reward is not None:
        described = describe(reward, config.environment.path is not None)
        config, changed = config.model_copy(update={"reward": described}), changed | {"reward"}
    own = new_run_directory(config.run.root, config.run.name)
    prepared = prepare(config, on_wait, reward, environment)
    restore(prepared.parts, folder, changed)
    origin = {"parent": parent.name, "parent_step": step, "begun_anew": sorted(changed)}
    facts = {**machine_facts(prepared.device), **origin}
    with RunWriter.create(own, to_yaml(config), facts, retention_of(config)) as store:
        _link(folder, own / CHECKPOINTS / folder.name)
        store.listeners.append(on_event)
        prepared.tell(store)
        run_loop(prepared, store, observers, on_wait, first_step=step + 1)
    return Run.open(own)


def _check(config: Config, reward: Reward | None) -> None:
    """What describes functions at hand in a config names none that could be found."""
    plain = Config().reward if config.environment.path is None else ENVIRONMENT
    check(config if reward is None else config.model_copy(update={"reward": plain}))


def _take_up(prepared: Prepared, store: RunWriter, run: Run, start: Start) -> int:
    """Restores the checkpoint to start from and returns the next step; without one the run begins again, at 0."""
    directory, last = store.directory / CHECKPOINTS, max((row["step"] for row in run.scalars()), default=0)
    clean_up(directory)
    for step, problem in start.passed_over.items():
        aside = set_aside(checkpoint_folder(directory, step))
        message = f"the checkpoint of step {step} is passed over ({problem}) and now called {aside.name}"
        store.event("resume", "damaged", message, "warning", step)
    if start.folder is None:
        store.event("resume", "from", f"begins again: there is no whole checkpoint{_taken_again(1, last)}")
        return 0
    store.event("resume", "from", goes_on(start.step, last), step=start.step)
    return 1 + restore(prepared.parts, start.folder, start.begun_anew)


def goes_on(step: int, last: int) -> str:
    return f"goes on after step {step}, from its newest checkpoint{_taken_again(step + 1, last)}"


def _taken_again(first: int, last: int) -> str:
    if last < first:
        return ""
    return f"; step {first} is taken again" if first == last else f"; steps {first} to {last} are taken again"


def _tell_of_differences(store: RunWriter, run: Run, device: str) -> None:
    if changes := changes_of_machine(run, device):
        message = f"the run does not go on bit for bit as it would have: {changes}"
        store.event("resume", "machine", message, "warning")


def changes_of_machine(run: Run, device: str) -> str:
    """What of this machine is not as it was when the run was made, and may change its bits; "" if nothing."""
    here, then = machine_facts(device), run.facts
    differing = [name for name in FOR_BITS if here[name] != then.get(name)]
    return ", ".join(f"{name} is {here[name]} and was {then.get(name)}" for name in differing)


def _link(folder: Path, place: Path) -> None:
    """The same files under another name: either can be removed without the other. Copies where a disk has no links."""
    try:
        shutil.copytree(folder, place, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
