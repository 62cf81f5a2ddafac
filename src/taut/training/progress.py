"""A run's state as a checkpoint holds it: what was learned, and where the loop stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from taut.training.ppo import Parts
from taut.training.shaping import RunningMoments

LOOP = Path("training/loop.json")
LAGGING = Path("training/lagging.pt")
"""The weights that the next batches are sampled from, where sampling runs ahead."""


def snapshot(parts: Parts, step: int) -> Callable[[Path], None]:
    """Copies the state after `step`; calling the result, from any thread, writes it into a folder."""
    write_learner, ahead = parts.learner.snapshot(), parts.ahead
    lagging = [] if ahead is None else ahead.lagging()
    # As text now: the loop goes on changing what this is made of.
    state = json.dumps(
        {
            "step": step,
            "prompts": parts.source.state() if ahead is None else ahead.prompts(),
            "kl": parts.kl.state_dict(),
            "reward_moments": asdict(parts.shape_rewards.moments),
        }
    )

    def write(folder: Path) -> None:
        write_learner(folder)
        (folder / LOOP).write_text(state, encoding="utf-8")
        if lagging:
            torch.save(lagging, folder / LAGGING)

    return write


def restore(parts: Parts, folder: Path, changed: Collection[str] = ()) -> int:
    """Takes over the state in a checkpoint and returns the step after which it was made.

    What belongs to a `changed` section of the settings starts anew: with other data the passes over the prompts, with
    another `kl` its coefficient, with another reward the moments that rewards are normalised by. Sampling that runs
    ahead by another number of steps than it did begins with the weights of the checkpoint.
    """
    state: dict[str, Any] = json.loads((folder / LOOP).read_text(encoding="utf-8"))
    parts.learner.restore(folder)
    weights = parts.learner.weights()
    parts.sampler.load_weights(weights, version=state["step"])
    if "data" not in changed:
        parts.source.restore(state["prompts"])
    if "kl" not in changed:
        parts.kl.load_state_dict(state["kl"])
    if not {"reward", "scoring"} & set(changed):
        parts.shape_rewards.moments = RunningMoments(**state["reward_moments"])
    if parts.ahead is not None and (folder / LAGGING).is_file():
        device = next(iter(weights.values())).device
        lagging = torch.load(folder / LAGGING, map_location=device, weights_only=True)
        parts.ahead.restore(state["step"], lagging)
    return int(state["step"])
