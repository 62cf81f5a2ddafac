"""Taut's side: `train` as everyone calls it, with its store, metrics and checks, held up between two batches.

python -m peers.taut_side WORK grpo|ppo MODEL-FOLDER SCRATCH-FOLDER
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from ceilings import gemm_rate, matrices_of, pass_operations, read_bandwidth, update_operations

from peers import work as works
from peers.protocol import Answer, Requests
from peers.work import Work
from taut import Run, train
from taut.config import Config, resolve
from taut.models.load import load_model
from taut.store import RunWriter
from taut.store.behind import WriteBehind

NEVER = 1_000_000
RECORDED = {
    "metrics": ("taut.training.ppo.step_metrics", "taut.training.ppo.step_record"),
    "store": ("taut.store.writer.RunWriter.append",),
}
"""What of a step the loop itself doesn't time: what it asks for numbers to keep, and what it keeps."""


def main() -> None:
    name, algorithm, model, scratch = sys.argv[1:]
    work, folder = works.named(name), Path(scratch)
    config = config_of(work, algorithm, model, folder)
    seconds: dict[str, float] = defaultdict(float)
    requests = Requests({"ceilings": lambda: ceilings(work, model, folder / "taut")})

    writers: list[WriteBehind] = []

    def write_behind(writer: RunWriter) -> WriteBehind:
        writers.append(WriteBehind(writer))
        return writers[-1]

    def observe(step: int, metrics: dict[str, float]) -> None:
        writers[-1].wait()  # a batch's seconds hold the writing of its record, and `counted` finds it
        phases = {key.partition("/")[2]: value for key, value in metrics.items() if key.startswith("time/")}
        answer = lambda: {**counted(folder / "taut", step), "phases": {**phases, **seconds}}  # noqa: E731
        if not requests.batch_done(answer):
            sys.exit()
        seconds.clear()

    with ExitStack() as stack:
        # Replies never end by themselves: both sides write all their tokens.
        stack.enter_context(patch("taut.launch.local.end_of_sequence_ids", return_value=()))
        stack.enter_context(patch("taut.launch.local.WriteBehind", write_behind))
        for phase, places in RECORDED.items():
            for place in places:
                stack.enter_context(patch(place, timed(place, phase, seconds)))
        train(config, [observe], reward=works.score)


def config_of(work: Work, algorithm: str, model: str, folder: Path) -> Config:
    settings: dict[str, Any] = {
        "run.root": str(folder),
        "run.name": "taut",
        "run.steps": NEVER,
        "run.device": "cpu",
        "run.threads": work.threads or torch.get_num_threads(),
        "model.path": model,
        "data.path": str(works.write_rows(work, folder)),
        "sampling.max_new_tokens": work.new_tokens,
        "algorithm.preset": algorithm,
        "algorithm.prompts_per_step": work.prompts,
        "algorithm.replies_per_prompt": work.replies,
        "algorithm.epochs": work.epochs,
        "optimizer.learning_rate": works.LEARNING_RATE,
        "checkpoint.every": 0,
        "eval.every": 0,
    }
    if algorithm == "grpo":
        settings["kl.placement"] = "none"
    else:
        settings |= {
            "critic.learning_rate": works.LEARNING_RATE,
            "critic.value_clip": works.VALUE_CLIP,
            "kl.coefficient": works.KL_COEFFICIENT,
            "algorithm.lam": works.LAMBDA,
        }
    return resolve(settings)[0]


def timed(place: str, phase: str, seconds: dict[str, float]) -> Callable[..., Any]:
    """The function at a dotted place, adding what it takes to `seconds[phase]`."""
    module, _, name = place.rpartition(".")
    owner, _, inner = module.rpartition(".")
    holder = getattr(sys.modules[owner], inner) if inner[0].isupper() else sys.modules[module]
    function = getattr(holder, name)

    def call(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            seconds[phase] += time.perf_counter() - started

    return call


def counted(directory: Path, step: int) -> Answer:
    """What the batch was, as the run's store has it."""
    run = Run.open(directory)
    replies = run.replies(step)
    return {
        "replies": len(replies),
        "prompt_tokens": sum(len(reply.prompt_ids) for reply in replies),
        "reply_tokens": sum(len(reply.ids) for reply in replies),
        "optimizer_steps": sum(row["applied"] for row in run.optimizer_steps(step)),
    }


def ceilings(work: Work, model: str, directory: Path) -> Answer:
    """The machine's limits with this process's threads, and the operations that a batch's update takes."""
    run = Run.open(directory)
    prompt_tokens = len(run.replies(run.kept_steps()[-1])[0].prompt_ids)
    matrices = matrices_of(load_model(model))
    forward = pass_operations(matrices, work.prompts, prompt_tokens, work.replies, work.new_tokens)
    tokens = work.prompts * (prompt_tokens + work.replies * (work.new_tokens - 1))
    return {
        "gemm_per_second": gemm_rate(matrices, tokens, work.prompts * work.replies * work.new_tokens),
        "read_bytes_per_second": read_bandwidth(),
        "update_operations": update_operations(forward, work.epochs),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
