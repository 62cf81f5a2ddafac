"""A made-up run whose numbers are known, with hostile text in it, and consoles that keep what is printed."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from taut.store import ReplyRecord, Run, RunWriter, StepRecord, UpdateRecord

HOSTILE = "latvec[0] [/INST] [red]\x1b[31m\u202ebad\n"
CONFIG = {
    "algorithm": {
        "preset": "grpo",
        "epochs": 2,
        "minibatches": 2,
        "surrogate": "clipped",
        "ratio_level": "token",
    },
    "model": {"path": "[bold]some/model"},
}
CONSTANTS = {"clip_low": 0.2, "clip_high": 0.2, "surrogate": "clipped"}
RATIOS = {0: [[1.0, 1.0, 1.0], [1.0, 1.5, 0.5]], 1: [[1.0, 1.0, 1.0], [1.0, 1.5, 0.5]]}
"""Of each reply, in each epoch: its advantages are +1 in reply 0 and -1 in reply 1."""


def made_up_reply(row: int) -> ReplyRecord:
    zeros = np.zeros(3, dtype=np.float32)
    return ReplyRecord(
        prompt_index=0,
        group=0,
        sample=row,
        version=0,
        prompt_text=HOSTILE,
        prompt_ids=np.array([1, 2], dtype=np.int32),
        text=HOSTILE,
        ids=np.array([7, 8, 9], dtype=np.int32),
        mask=np.array([True, True, True]),
        reward=float(row),
        finish_reason="length" if row else "stop",
        behavior_logprobs=zeros,
        old_logprobs=zeros,
        advantages=np.full(3, 1.0 - 2.0 * row, dtype=np.float32),
    )


def made_up_step(step: int) -> StepRecord:
    updates = [
        UpdateRecord(
            epoch=epoch,
            minibatch=row,
            rows=np.array([row]),
            logprobs=[np.log(np.array(RATIOS[row][epoch], dtype=np.float32))],
        )
        for epoch in range(2)
        for row in range(2)
    ]
    scalars = {
        "reward/mean": step / 10,
        "eval/accuracy": 0.5,
        "clip/binding": 0.05,
        "entropy": 1.0,
        "rate/tokens": 1234.0,
        "time/step": 2.0,
    }
    return StepRecord(step, CONSTANTS, scalars, [made_up_reply(0), made_up_reply(1)], updates)


@pytest.fixture
def made_up_run(tmp_path: Path) -> Run:
    """Three steps of two replies, one a minibatch, over two epochs."""
    with RunWriter.create(tmp_path / "runs" / "[red]made-up", json.dumps(CONFIG), {}) as writer:
        writer.append(StepRecord(0, {}, {"eval/accuracy": 0.25}))
        for step in (1, 2, 3):
            writer.append(made_up_step(step))
        writer.event("check", "mismatch", HOSTILE, level="warning", step=2)
    return Run.open(tmp_path / "runs" / "[red]made-up")


@pytest.fixture
def two_clipped_run(tmp_path: Path) -> Run:
    """As `made_up_run`, a step, and the clip holds two tokens of reply 1 in the last optimiser step."""
    record = made_up_step(1)
    record.optimizer_steps[3].logprobs = [np.log(np.array([0.5, 1.0, 0.5], dtype=np.float32))]
    with RunWriter.create(tmp_path / "two-clipped", json.dumps(CONFIG), {}) as writer:
        writer.append(record)
    return Run.open(tmp_path / "two-clipped")


@pytest.fixture
def told_run(tmp_path: Path) -> Run:
    """As `made_up_run`, a step, and an environment told token 1 of reply 0; the store holds zeros for it."""
    record = made_up_step(1)
    reply = record.replies[0]
    reply.mask = np.array([True, False, True])
    reply.behavior_logprobs = np.array([0.0, np.nan, 0.0], dtype=np.float32)
    reply.entropy = np.zeros(3, dtype=np.float32)
    with RunWriter.create(tmp_path / "told", json.dumps(CONFIG), {}) as writer:
        writer.append(record)
    return Run.open(tmp_path / "told")


@pytest.fixture
def make_console() -> Callable[..., Console]:
    """A console that prints into memory, plain; `console.file.getvalue()` is what it printed."""

    def make(width: int = 80, encoding: str = "utf-8", **options: object) -> Console:
        file = KeptText(encoding)
        return Console(width=width, file=file, highlight=False, markup=False, emoji=False, **options)

    return make


class KeptText(io.StringIO):
    """Text that an encoding must be able to hold."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:
        return self._encoding

    def write(self, text: str) -> int:
        text.encode(self._encoding)
        return super().write(text)
