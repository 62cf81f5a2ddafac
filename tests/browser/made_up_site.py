"""A folder of made-up runs for the browser: plain ones, a hostile one, one whose numbers went bad; and the server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from taut.store import ReplyRecord, RunWriter, StepRecord, UpdateRecord

CONFIG = "algorithm:\n  epochs: 2\n  clip_low: 0.2\n  clip_high: 0.2\nrun:\n  seed: {seed}\n"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
"""What a page must show as text: were it ever taken for markup, the document's title would say so."""
REPLIES, EPOCHS, MINIBATCHES = 4, 2, 2


def reply(rng: np.random.Generator, row: int, prompt: str, text: str, term: str) -> ReplyRecord:
    """Reply `row` of its step, a token a character; advantages are its reward less the mean."""
    length = len(text)
    old = -rng.uniform(0.05, 2, length).astype(np.float32)
    reward = float(row % 2)
    return ReplyRecord(
        *(row // 2, row // 2, row % 2, 1, prompt, np.arange(5, dtype=np.int32), text),
        ids=np.array([ord(sign) % 50 for sign in text], np.int32),
        mask=np.ones(length, bool),
        reward=reward,
        finish_reason="stop" if row else "length",
        terms={term: reward},
        behavior_logprobs=old + np.float32(1e-6),
        old_logprobs=old,
        ref_logprobs=old - np.float32(0.01),
        entropy=rng.uniform(0.1, 1, length).astype(np.float32),
        advantages=np.full(length, reward - 0.5, np.float32),
    )


def step_record(step: int, hostile: bool = False, **scalars: float) -> StepRecord:
    """A step of four replies to two prompts and four optimiser steps, in which ratios drift away from 1."""
    rng = np.random.default_rng(step)
    texts = [f"{step}7+{row}= is {step + row}" for row in range(REPLIES)]
    prompt, term = ("12+34=", "exact") if not hostile else (HOSTILE, HOSTILE)
    replies = [
        reply(rng, row, prompt, text + (HOSTILE if hostile else ""), term) for row, text in enumerate(texts)
    ]
    updates = [
        UpdateRecord(
            epoch,
            minibatch,
            rows := np.arange(minibatch, REPLIES, MINIBATCHES),
            [drifted(rng, replies[row], epoch) for row in rows],
            {"loss/policy": 0.1 / (1 + step), "grad/norm": 1.0},
        )
        for epoch in range(EPOCHS)
        for minibatch in range(MINIBATCHES)
    ]
    constants = {"clip_low": 0.2, "clip_high": 0.2, "gamma": 1.0, "lambda": 1.0}
    return StepRecord(step, constants, {**numbers(step), **scalars}, replies, updates)


def drifted(rng: np.random.Generator, record: ReplyRecord, epoch: int) -> np.ndarray:
    assert record.old_logprobs is not None
    return record.old_logprobs + rng.normal(0, 0.2 * epoch, len(record.ids)).astype(np.float32)


def numbers(step: int) -> dict[str, float]:
    return {
        "reward/mean": 1 - np.exp(-step / 8),
        "eval/accuracy": 0.5 + 0.02 * step,
        "clip/binding": 0.07 + 0.01 * np.sin(step),
        "clip/outside": 0.11 + 0.01 * np.sin(step),
        "kl/old_k1": 0.002 * step,
        "entropy": 1.2 - 0.01 * step,
        "reply/length": 12.0 + step % 3,
        "time/sample": 0.2,
        "time/update": 0.4,
    }


def make_run(
    directory: Path, steps: int = 12, seed: int = 0, hostile: bool = False, bad: bool = False
) -> Path:
    """A finished run. `bad` has NaN and infinities among its numbers, `hostile` HOSTILE wherever a text can stand."""
    facts = {"threads": 1, **({HOSTILE: HOSTILE} if hostile else {})}
    with RunWriter.create(directory, CONFIG.format(seed=seed), facts) as writer:
        for step in range(1, steps + 1):
            more = {"loss/policy": {3: np.nan, 5: np.inf, 6: -np.inf}.get(step, 1 / step)} if bad else {}
            writer.append(step_record(step, hostile, **more, **({HOSTILE: 1.0} if hostile else {})))
        if hostile:
            writer.event("check", HOSTILE, HOSTILE, "warning", steps)
    return directory


class Server:
    """`taut web` in a process of its own, at one port however often it is started."""

    def __init__(self, root: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.root = root
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "import sys; from taut.cli import main; sys.exit(main())"
        arguments = ["web", "--root", str(self.root), "--port", str(self.port)]
        self._process = subprocess.Popen([sys.executable, "-c", code, *arguments], env=os.environ)
        deadline = time.monotonic() + 30
        while True:
            assert self._process.poll() is None, "the server ended at once"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the server doesn't answer"
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
