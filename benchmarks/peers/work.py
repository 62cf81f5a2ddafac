"""The batches that are compared, and what both sides read: model folder, prompts, reward. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Message = dict[str, str]
Prompt = str | list[Message]


@dataclass(frozen=True)
class Work:
    """One batch: `prompts` × `replies` replies of exactly `new_tokens` tokens, and `epochs` optimiser steps."""

    name: str
    model: str
    """`world` (2 layers, width 64), `smollm2`, or `tiny` for tests."""
    prompts: int
    replies: int
    new_tokens: int
    epochs: int = 4
    style: str = "plain"
    """`plain` sums, a `chat` of about 46 tokens, or `three-shot` sums."""
    threads: int | None = None
    """None: as many as the machine has cores."""


GRPO = (
    Work("a", "world", 8, 8, 6, threads=1),
    Work("b", "smollm2", 4, 4, 32, style="chat"),
    Work("c", "smollm2", 8, 8, 5, style="three-shot"),
)
PPO = GRPO[:2]
TINY = Work("tiny", "tiny", 2, 2, 3, epochs=2, threads=1)

LEARNING_RATE = 1e-6
CLIP = 0.2
KL_COEFFICIENT = 0.05
VALUE_CLIP = 0.2
LAMBDA = 0.95


def named(name: str) -> Work:
    return {work.name: work for work in (*GRPO, TINY)}[name]


def prompts_of(work: Work, count: int = 64) -> list[Prompt]:
    """As many prompts of one length each, all different."""
    sums = [(a, b) for a in range(1, 9) for b in range(1, 9)][:count]
    if work.style == "chat":
        return [
            [{"role": "user", "content": f"What is {a} + {b}? Explain your answer in one short line."}]
            for a, b in sums
        ]
    if work.style == "three-shot":
        return [f"1 + 2 = 3\n4 + 5 = 9\n2 + 6 = 8\n{a} + {b} =" for a, b in sums]
    return [f"{a + 10}+{b + 20}=" for a, b in sums]


def score(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
    """Something that differs between replies and costs nothing: how many characters each uses."""
    return [float(len(set(_text(completion)))) for completion in completions]


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


def write_rows(work: Work, folder: Path) -> Path:
    """The prompts as JSON lines, for both sides."""
    path = folder / f"prompts-{work.name}.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts_of(work)))
    return path


def as_row(work: Work) -> dict[str, Any]:
    return asdict(work)
