"""GRPO without a reference against TRL 1.16's GRPOTrainer: the same batches in turn, on this machine.

    python benchmarks/trl_grpo.py [--only a b c] [--pairs 5]

A batch is sampled, scored and trained on for 4 optimiser steps, in float32: (a) a model of 2 layers and width 64,
8 prompts × 8 replies × 6 tokens; (b) SmolLM2-135M, 4 × 4 × 32 after a chat prompt; (c) SmolLM2-135M, 8 × 8 × 5
after three shots. Both sides are long-lived processes and take turns batch by batch. TRL installs itself into an
environment of its own the first time. With all three, half an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from peers.against_trl import Claim, arguments, at_least, at_most, run, summaries
from peers.pairs import Row
from peers.venvs import python_of
from peers.work import GRPO

TIMES = {"a": 3.0, "b": 2.2, "c": 3.5}


def main() -> None:
    options = arguments(__doc__, GRPO)
    run(options, "trl_grpo", "grpo", GRPO, python_of("trl==1.16.0"), claims_of)


def claims_of(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for name, row in summaries(rows).items():
        claims.append(at_least(row, "times as many batches a second as TRL", "ratio", TIMES[name]))
        if name == "b":
            claims += [
                at_least(
                    row, "learner's operations over the GEMM rate at its shapes", "learner_share_of_gemm", 0.6
                ),
                at_most(row, "metrics and store, as a share of the batch", "recorded_share", 0.03),
                at_most(row, "peak memory, as a share of TRL's", "memory_share", 0.6),
            ]
    return claims


if __name__ == "__main__":
    main()
