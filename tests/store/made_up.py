"""Made-up steps for the store's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from taut.store import ReplyRecord, RunWriter, StepRecord, UpdateRecord

CONFIG = "algorithm:\n  epochs: 2\nrun:\n  seed: 0\n"
NAN_WITH_PAYLOAD = np.array([0x7FC00001], dtype="<u4").view("<f4")[0]


def make_reply(rng: np.random.Generator, length: int, **changes: object) -> ReplyRecord:
    def floats() -> np.ndarray:
        return rng.standard_normal(length).astype(np.float32)

    reply = ReplyRecord(
        prompt_index=7,
        group=1,
        sample=3,
        version=5,
        prompt_text="12+34=",
        prompt_ids=np.array([1, 2, 10, 3, 4, 11], dtype=np.int32),
        text="46;",
        ids=rng.integers(0, 150_000, length).astype(np.int32),
        mask=rng.random(length) < 0.9,
        reward=0.1,
        finish_reason="stop",
        terms={"exact": 0.1, "format": 1.0},
        behavior_logprobs=floats(),
        old_logprobs=floats(),
        entropy=floats(),
        advantages=floats(),
    )
    for name, value in changes.items():
        setattr(reply, name, value)
    return reply


def make_step(step: int, lengths: tuple[int, ...] = (3, 5, 1, 4), epochs: int = 2) -> StepRecord:
    """`epochs` epochs of two minibatches: the even replies, then the odd ones."""
    rng = np.random.default_rng(step)
    replies = [make_reply(rng, length, reward=float(row)) for row, length in enumerate(lengths)]
    updates = [
        UpdateRecord(
            epoch=epoch,
            minibatch=minibatch,
            rows=(rows := np.arange(minibatch, len(lengths), 2)),
            logprobs=[rng.standard_normal(lengths[row]).astype(np.float32) for row in rows],
            scalars={"loss/policy": 0.5 - epoch, "grad/norm": 1.25},
            applied=epoch == 0,
        )
        for epoch in range(epochs)
        for minibatch in range(2)
    ]
    scalars = {"reward/mean": step / 100, "clip/binding": 0.07}
    return StepRecord(step, {"clip_low": 0.2, "gamma": 1.0}, scalars, replies, updates)


def make_run(directory: Path, steps: range = range(1, 4), config: str = CONFIG) -> Path:
    with RunWriter.create(directory, config, facts={"threads": 1}) as writer:
        for step in steps:
            writer.append(make_step(step))
    return directory


def write_until_killed(directory: Path) -> None:
    with RunWriter.create(directory, CONFIG, facts={}) as writer:
        for step in range(1_000_000):
            writer.append(make_step(step, lengths=(200, 300, 100, 250)))


if __name__ == "__main__":
    write_until_killed(Path(sys.argv[1]))
