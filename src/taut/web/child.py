"""The process that may import torch: `python -m taut.web.child FD PIPE`.

It recomputes stored batches, takes steps once more, and plans memory: one question after the other, as
`web/counterfactual.py` asks. It keeps the newest batches at hand, so that a slider that is dragged waits for
arithmetic alone.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taut.config import Config
from taut.launch.continued import config_of, start_of_replay
from taut.store import Run, StoredBatch
from taut.tasks.process.serve import run as serve_requests

if TYPE_CHECKING:
    from taut.training.derive import Recomputed

KEPT = 3
"""Batches held in memory."""
SHOWN = 5
"""Differences of a replay that are told."""
INSIDE, HELD_HIGH, HELD_LOW, FREE_HIGH, FREE_LOW, DUAL = range(6)
"""The clip states, by the numbers that the page's `maths/microscope.js` gives them."""


class Kept(NamedTuple):
    batch: StoredBatch
    config: Config
    before: Recomputed
    summary: dict[str, Any]
    """Of `before`."""


_kept: OrderedDict[tuple[str, int, int], Kept] = OrderedDict()


def answer(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    """{"error": what to tell the user} where the question is at fault."""
    answers: dict[str, Callable[..., dict[str, Any]]] = {
        "describe": describe,
        "recompute": recompute,
        "replay": replay,
        "plan": plan,
    }
    try:
        return answers[kind](**content)
    except ValueError as error:
        return {"error": str(error)}


def describe(directory: str, step: int) -> dict[str, Any]:
    """What a step's panel begins with: the settings in force, why some cannot be changed, and what was measured."""
    from taut.training.derive import why_fixed

    run = Run.open(directory)
    kept = _batch(run, step)
    return {
        "settings": kept.before.settings,
        "fixed": why_fixed(kept.batch, kept.config),
        "before": kept.summary,
        "not_replayed": _why_not_replayed(run, step),
        "process": os.getpid(),
    }


def recompute(directory: str, step: int, changes: dict[str, Any], replies: list[int]) -> dict[str, Any]:
    """{"header", "columns"}: the batch's numbers before and after, and of `replies` the tokens' arrays.

    Columns are over the tokens of those replies in one row: `advantages` float32; and `states` uint8, where each reply
    has its sightings one behind the other.
    """
    from taut.training.derive import recompute as derive

    kept = _batch(Run.open(directory), step)
    if missing := [reply for reply in replies if not 0 <= reply < len(kept.batch.lengths)]:
        raise ValueError(
            f"step {step} has {len(kept.batch.lengths)} replies, counted from 0: there is no {missing[0]}"
        )
    after = derive(kept.batch, kept.config, changes)
    lengths = kept.batch.lengths
    advantages = after.batch.advantages
    assert advantages is not None
    columns = {
        "advantages": [advantages[reply, : lengths[reply]].numpy() for reply in replies],
        "states": _sightings(after, replies, lengths),
    }
    header = {
        "step": step,
        "replies": replies,
        "settings": after.settings,
        "before": kept.summary,
        "after": summary(after),
        "moved": _moved(kept.before, after),
    }
    empty = {"advantages": np.zeros(0, np.float32), "states": np.zeros(0, np.uint8)}
    return {
        "header": header,
        "columns": {name: np.concatenate([empty[name], *parts]) for name, parts in columns.items()},
    }


def replay(directory: str, step: int) -> dict[str, Any]:
    """The step taken once more as it was: whether every number came out bit for bit, and how many did not.

    Of the `differences` the first `SHOWN`.
    """
    from taut.launch.replay import replay as take_again
    from taut.launch.replay import replay_object

    found = replay_object(take_again(directory, step))
    return {**found, "different": len(found["differences"]), "differences": found["differences"][:SHOWN]}


def plan(**settings: Any) -> dict[str, Any]:
    """The memory of a run of a well-known shape."""
    from taut.launch.textbook import whole_plan

    return whole_plan(**settings)


def summary(found: Recomputed) -> dict[str, Any]:
    """The metrics of the batch, and of each optimiser step its loss and its shares of tokens."""
    from taut.objective.policy import clip_statistics

    names = ("clip/binding", "clip/high", "clip/low", "clip/dual", "clip/outside")
    return {
        "metrics": found.metrics,
        "optimizer_steps": [
            {
                "epoch": step.epoch,
                "minibatch": step.minibatch,
                "applied": step.applied,
                **step.scalars,
                **{name: value for name, value in clip_statistics(step.clip).items() if name in names},
            }
            for step in found.trace.steps
        ],
    }


def _batch(run: Run, step: int) -> Kept:
    """Read again where the run's files changed since: a resume may have taken the step anew."""
    from taut.launch.continued import with_threads_of
    from taut.launch.torch_setup import prepare_torch
    from taut.training.derive import recompute as derive

    files = (run.directory / name for name in ("run.db", "run.db-wal", "config.yaml"))
    changed = max(file.stat().st_mtime_ns for file in files if file.exists())
    key = str(Path(run.directory).resolve()), step, changed
    config = with_threads_of(run, config_of(run)) if key not in _kept else _kept[key].config
    prepare_torch(config.run)
    if key not in _kept:
        batch = run.batch(step)
        before = derive(batch, config)
        _kept[key] = Kept(batch, config, before, summary(before))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def _sightings(found: Recomputed, replies: list[int], lengths: np.ndarray) -> list[np.ndarray]:
    """Reply by reply, the codes of its tokens at each optimiser step that saw it."""
    seen = [(step.rows, _codes(step.clip)) for step in found.trace.steps]
    return [
        codes[rows.index(reply), : lengths[reply]]
        for reply in replies
        for rows, codes in seen
        if reply in rows
    ]


def _codes(clip: Any) -> np.ndarray:
    """[b, T] uint8 from a clip state."""
    codes = np.full(clip.mask.shape, INSIDE, np.uint8)
    codes[clip.high.numpy()], codes[clip.low.numpy()] = FREE_HIGH, FREE_LOW
    codes[(clip.high & clip.binding).numpy()] = HELD_HIGH
    codes[(clip.low & clip.binding).numpy()] = HELD_LOW
    codes[clip.dual.numpy()] = DUAL
    return codes


def _moved(before: Recomputed, after: Recomputed) -> dict[str, int]:
    """Of all `sightings` of tokens over the batch's optimiser steps: how many are newly held, and how many freed."""
    held = freed = sightings = 0
    for was, now in zip(before.trace.steps, after.trace.steps, strict=True):
        old, new = (step.clip.binding | step.clip.dual for step in (was, now))
        held += int((new & ~old).sum())
        freed += int((old & ~new).sum())
        sightings += int(was.clip.mask.sum())
    return {"held": held, "freed": freed, "sightings": sightings}


def _why_not_replayed(run: Run, step: int) -> str:
    try:
        start_of_replay(run, step)
    except ValueError as error:
        return str(error)
    return ""


def _handle(code: Any, name: str, request: tuple[str, Any], runner: asyncio.Runner) -> Any:
    return code(*request)


if __name__ == "__main__":
    serve_requests(_handle, "what if")
