"""`replay`: a stored step once more, from the nearest checkpoint before it and the recorded replies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from taut.checks.bisect import Culprits, Witness, find_culprits
from taut.checks.recording import Recording
from taut.checks.replay import Difference, ReplayedStep, replay_step
from taut.config import Config
from taut.launch.continued import Start, config_to_replay, start_of_replay, with_threads_of
from taut.launch.data import tokenizer_for
from taut.launch.local import load_policy, wait_for_nothing
from taut.launch.models import policy_and_critic
from taut.launch.quiet import quiet_libraries
from taut.launch.resume import changes_of_machine
from taut.launch.rewards import OnWait
from taut.launch.torch_setup import prepare_torch
from taut.store import Run
from taut.training.learner import LocalLearner
from taut.training.ppo import Parts, kl_controller
from taut.training.progress import restore, snapshot
from taut.training.shaping import RewardShaper

HALT_AT_ONCE = {"checks.skip_non_finite": 0}


@dataclass(frozen=True)
class Replay:
    """What became of a step that was taken once more."""

    last: ReplayedStep
    """The step asked for."""
    start: Start
    differences: list[Difference]
    """Of all steps that were taken as they were recorded: not of the last, where settings were changed for it."""
    settings: Mapping[str, Any]
    """Those changed, by dotted key."""
    changes_of_machine: str
    """What is not as it was when the run was made, and may change its bits; "" if nothing."""
    culprits: Culprits | None = None


def replay(
    directory: Path | str,
    step: int,
    settings: Mapping[str, Any] | None = None,
    bisect: bool = False,
    on_wait: OnWait = wait_for_nothing,
) -> Replay:
    """Takes `step` of the run in `directory` once more, on the replies that were recorded, and writes nothing into it.

    The steps since the nearest whole checkpoint are taken before it, as they were. `settings`, by dotted key, hold in
    `step` alone: it is then what a fork after the step before would have made of the same replies. With `bisect` the
    replies are searched for that bring about a number that is not finite.

    Raises ValueError where batches on the way are not kept, for settings that ask for other replies, and where there
    is nothing to bisect.
    """
    quiet_libraries()
    run = Run.open(directory)
    given = dict(settings or {})
    config, changed = config_to_replay(run, given | HALT_AT_ONCE if bisect else given)
    began = start_of_replay(run, step)
    with TemporaryDirectory(prefix="taut-replay-") as between:
        start, found = began, list[Difference]()
        if changed and start.step < step - 1:
            start, found = _step_before(run, step, start, Path(between), on_wait)
        parts, machine = _parts(run, config, start, on_wait, changed)
        found += _catch_up(run, config, parts, range(start.step + 1, step), on_wait)
    parts.inspector = witness = Witness()
    last = replay_step(config, parts, run.record(step))
    if not changed:
        found += last.differences
    culprits = find_culprits(parts.learner, *witness.seen) if bisect and witness.seen else None
    return Replay(last, began, found, given, machine, culprits)


def replay_object(replay: Replay) -> dict[str, Any]:
    """A replay as one JSON object."""
    last = replay.last
    culprits = replay.culprits
    return {
        "step": last.stored.step,
        "start": replay.start.step,
        "settings": dict(replay.settings),
        "equal": not replay.differences,
        "differences": [asdict(difference) for difference in replay.differences],
        "changes_of_machine": replay.changes_of_machine,
        **{
            name: {"metrics": record.scalars, "optimizer_steps": [u.scalars for u in record.optimizer_steps]}
            for name, record in (("stored", last.stored), ("replayed", last.replayed))
        },
        "stopped": last.stopped,
        "culprits": culprits
        and {
            **asdict(culprits),
            "replies": [
                {"prompt": last.stored.replies[row].prompt_text, "text": last.stored.replies[row].text}
                for row in culprits.rows
            ],
        },
    }


def _step_before(
    run: Run, step: int, start: Start, folder: Path, on_wait: OnWait
) -> tuple[Start, list[Difference]]:
    """Makes a checkpoint in `folder` of where the run, with its own settings, stood before `step`."""
    config, _ = config_to_replay(run, {})
    parts, _ = _parts(run, config, start, on_wait)
    found = _catch_up(run, config, parts, range(start.step + 1, step), on_wait)
    snapshot(parts, step - 1)(folder)
    return Start(step - 1, folder), found


def _parts(
    run: Run, config: Config, start: Start, on_wait: OnWait, changed: Collection[str] = ()
) -> tuple[Parts, str]:
    """The loop's parts as they stood at `start`, on what was recorded; and what of the machine is not as it was."""
    config = with_threads_of(run, config)
    tokenizer, device = tokenizer_for(config.model), prepare_torch(config.run)
    policy, critic = policy_and_critic(load_policy(config, device, on_wait), config)
    recording = Recording(run, start.step + 1)
    parts = Parts(
        source=recording,
        held_out=(),
        sampler=recording,
        scorer=recording,
        learner=LocalLearner(policy, critic, tokenizer, config),
        kl=kl_controller(config),
        shape_rewards=RewardShaper(config),
    )
    if start.folder is not None:
        restore(parts, start.folder, {"data", *start.begun_anew, *changed})
    return parts, changes_of_machine(run, device)


def _catch_up(run: Run, config: Config, parts: Parts, steps: range, on_wait: OnWait) -> list[Difference]:
    found = []
    for done, step in enumerate(steps):
        on_wait("replaying the steps before", done, len(steps))
        found += replay_step(config, parts, run.record(step)).differences
    return found
