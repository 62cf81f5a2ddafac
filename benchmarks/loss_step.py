"""The loss step alone, from hidden states to the gradients of states and head: memory and time, three ways.

    python benchmarks/loss_step.py [--vocabulary 151936] [--tokens 4096] [--pairs 3] [--liger]

Clipped surrogate with advantages, forward and backward, float32, in a process for each way, in turn:
- `taut`: chunks over tokens, logits computed again in the backward pass. 8 units of product for each logit (forward,
  again, and the gradients of states and of head; a unit is a multiplication or an addition with one weight);
- `plain`: all logits at once, 6 units, kept by autograd;
- `liger`: Liger's fused linear GRPO loss, a sequence at a time, gradients made in its forward pass, 6 units. It
  installs itself into an environment of its own; `--liger` asks for it.
Peak extra memory is what is resident at most during the step, less what is resident before: the states, the head
and the gradients of a step before are no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from peers.protocol import Answer, Requests, Side

BENCHMARKS = Path(__file__).resolve().parent
LIGER = "liger-kernel==0.8.5"
MEMORY_GOAL, TIME_GOAL = 1 / 5, 1.4
SEQUENCE = 256
CLIP = 0.2

Row = dict[str, Any]
Step = Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--liger", action="store_true", help="against Liger too")
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = options.vocabulary, options.hidden, options.tokens
    if options.side:
        serve(WAYS[options.side](*sizes))
        return
    load = os.getloadavg()[0]
    rows = measure(sizes, ("plain", "liger") if options.liger else ("plain",), options.pairs)
    claims = claims_of(rows)
    for each in claims:
        print(f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} ({each['goal']})")
    if not options.no_record:
        from record import write_record

        print(write_record("loss_step", rows, claims, load))


def measure(sizes: tuple[int, int, int], others: Sequence[str], rounds: int) -> list[Row]:
    rows = []
    with ExitStack() as stack:
        sides = {name: stack.enter_context(side(name, sizes)) for name in ("taut", *others)}
        for number in range(-1, rounds):
            for name, each in sides.items():
                row = {
                    "way": name,
                    "round": number,
                    **dict(zip(SIZES, sizes, strict=True)),
                    **each.ask("batch"),
                }
                print(json.dumps(row), flush=True)
                if number >= 0:
                    rows.append(row)
    return rows


SIZES = ("vocabulary", "hidden", "tokens")


def side(name: str, sizes: tuple[int, int, int]) -> Side:
    from peers.venvs import python_of

    python = str(python_of(LIGER, "transformers==5.24.0")) if name == "liger" else sys.executable
    paths = [str(BENCHMARKS)] + ([] if name == "liger" else [str(BENCHMARKS.parent / "src")])
    numbers = [part for key, size in zip(SIZES, sizes, strict=True) for part in (f"--{key}", str(size))]
    command = [python, str(BENCHMARKS / "loss_step.py"), "--side", name, *numbers]
    # Freed memory goes back at once: what is resident is then what is held.
    environment = {"PYTHONPATH": os.pathsep.join(paths), "MALLOC_MMAP_THRESHOLD_": "65536"}
    return Side(name, command, environment)


def claims_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    from record import claim

    def median(way: str, key: str) -> float:
        return statistics.median(row[key] for row in rows if row["way"] == way)

    memory = median("taut", "extra_bytes") / median("plain", "extra_bytes")
    seconds = median("taut", "seconds") / median("plain", "seconds")
    norms = [row["gradient_norm"] for row in rows]
    return [
        claim("extra memory, as a share of the plain way's", round(memory, 3), "at most 0.2", memory <= MEMORY_GOAL),
        claim("time, as a multiple of the plain way's", round(seconds, 3), "at most 1.4", seconds <= TIME_GOAL),
        claim(
            "norms of all ways' gradients, largest over smallest",
            max(norms) / min(norms),
            "within 0.1 % of 1",
            max(norms) / min(norms) < 1.001,
        ),
    ]  # fmt: skip


def serve(step: Step) -> None:
    """Does a step on each request; its memory is looked at from without Python's own counting."""
    done: list[Answer] = [{}]
    requests = Requests()
    while requests.batch_done(lambda: done[-1]):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the highest so far
        before = status("VmRSS")
        norm = step()
        done.append({"extra_bytes": status("VmHWM") - before, "gradient_norm": norm})


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def inputs(vocabulary: int, hidden: int, tokens: int) -> tuple[Any, ...]:
    """States, head, targets, old logprobs near what the head will say, advantages."""
    import torch

    torch.manual_seed(0)
    states = torch.randn(tokens, hidden).requires_grad_()
    head = (torch.randn(vocabulary, hidden) / hidden**0.5).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,))
    old = torch.cat([
        (rows @ head.T).log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        for rows, ids in zip(states.detach().split(64), targets.split(64), strict=True)
    ]).detach()  # fmt: skip
    # No ratio is at an edge: 1 ± 0.1 takes gradient, 1 ± 0.5 takes it on one side.
    old += torch.tensor([0.1, -0.1, 0.5, -0.5]).repeat(tokens // 4 + 1)[:tokens]
    return states, head, targets, old, torch.randn(tokens // SEQUENCE or 1)


def per_token(advantages: Any, tokens: int) -> Any:
    return advantages.repeat_interleave(-(-tokens // len(advantages)))[:tokens]


def stepping(states: Any, head: Any, loss: Callable[[], Any]) -> Step:
    def step() -> float:
        loss().backward()
        norm = float((states.grad.square().sum() + head.grad.square().sum()).sqrt())
        states.grad = head.grad = None
        return norm

    return step


def clipped_loss(logprobs: Any, old: Any, advantages: Any) -> Any:
    import torch

    ratio = (logprobs - old).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()


def taut_way(*sizes: int) -> Step:
    from taut.objective.logprobs import token_logprobs

    states, head, targets, old, advantages = inputs(*sizes)
    spread = per_token(advantages, len(states))
    return stepping(states, head, lambda: clipped_loss(token_logprobs(states, head, targets)[0], old, spread))


def plain_way(*sizes: int) -> Step:
    states, head, targets, old, advantages = inputs(*sizes)
    spread = per_token(advantages, len(states))

    def loss() -> Any:
        logprobs = (states @ head.T).log_softmax(-1).gather(-1, targets[:, None])[:, 0]
        return clipped_loss(logprobs, old, spread)

    return stepping(states, head, loss)


def liger_way(*sizes: int) -> Step:
    import torch
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss

    states, head, targets, old, advantages = inputs(*sizes)
    fused = LigerFusedLinearGRPOLoss(
        beta=0.0, compiled=False, use_ref_model=False, epsilon_low=CLIP, epsilon_high=CLIP, loss_type="bnpo"
    )
    rows = len(advantages)
    shape = rows, len(states) // rows

    def loss() -> Any:
        return fused(
            states.view(*shape, -1),
            head,
            targets.view(shape),
            torch.ones(shape),
            advantages,
            old_per_token_logps=old.view(shape),
        )[0]

    return stepping(states, head, loss)


WAYS: dict[str, Callable[..., Step]] = {"taut": taut_way, "plain": plain_way, "liger": liger_way}


if __name__ == "__main__":
    main()
