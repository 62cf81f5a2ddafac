"""A run's state as a checkpoint holds it: what was learned, and where the loop stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from taut.training.ppo import Parts
from taut.training.shaping import RunningMoments

LOOP = Path("training/loop.json")


def snapshot(parts: Parts, step: int) -> Callable[[Path], None]:
    """Copies the state after `step`; calling the result, from any thread, writes it into a folder."""
    write_learner = parts.learner.snapshot()
    # As text now: the loop goes on changing what this is made of.
    state = json.dumps(
        {
            "step": step,
            "prompts": parts.source.state(),
            "kl": parts.kl.state_dict(),
            "reward_moments": asdict(parts.shape_rewards.moments),
        }
    )

    def write(folder: Path) -> None:
        write_learner(folder)
        (folder / LOOP).write_text(state, encoding="utf-8")

    return write


def restore(parts: Parts, folder: Path, changed: Collection[str] = ()) -> int:
    """Takes over the state in a checkpoint and returns the step after which it was made.

    What belongs to a `changed` section of the settings starts anew: with other data the passes over the prompts, with
    another `kl` its coefficient, with another reward the moments that rewards are normalised by.
    """
    state: dict[str, Any] = json.loads((folder / LOOP).read_text(encoding="utf-8"))
    parts.learner.restore(folder)
    parts.sampler.load_weights(parts.learner.weights(), version=state["step"])
    if "data" not in changed:
        parts.source.restore(state["prompts"])
    if "kl" not in changed:
        parts.kl.load_state_dict(state["kl"])
    if not {"reward", "scoring"} & set(changed):
        parts.shape_rewards.moments = RunningMoments(**state["reward_moments"])
    return int(state["step"])
