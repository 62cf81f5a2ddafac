"""PPO on a pretrained model: SmolLM2-135M-Instruct on one-digit sums, with a critic and without, on CPU cores.

    bash scripts/fetch_smollm2.sh
    python benchmarks/smollm2_addition.py [--seeds 2] [--steps 20]

The thirty held-out sums are scored by 16 samples each, before and after. A run takes about seven minutes
without a critic and sixteen with one, on two cores.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from record import RECORDS, claim, write_record

from taut import Run, train
from taut.config import read_yaml, resolve
from taut.store.plot import plot_runs

CONFIG = Path(__file__).parents[1] / "configs" / "smollm2-addition.yaml"
VARIANTS: dict[str, dict[str, Any]] = {
    "critic-free": {},
    "critic": {"algorithm.preset": "ppo", "kl.placement": "reward"},
}
GAIN, LONGEST = 0.20, 30 * 60  # in held-out accuracy, and in seconds

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--root", default="runs/smollm2-addition")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    runs, rows = [], []
    for name, settings in VARIANTS.items():
        for seed in range(options.seeds):
            own = {"run.root": options.root, "run.name": f"{name}, seed {seed}", "run.seed": seed}
            started = time.perf_counter()
            run = train(
                resolve(read_yaml(CONFIG), settings, own, {"run.steps": options.steps})[0], [print_step]
            )
            runs.append(run)
            rows.append(row_of(name, seed, run, time.perf_counter() - started))
            print(rows[-1], flush=True)
    plot_runs(runs, RECORDS / "smollm2_addition.svg")
    claims = [each for row in rows for each in claims_of(row)]
    for each in claims:
        print(
            f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} (goal: {each['goal']})"
        )
    print(write_record("smollm2_addition", rows, claims, load))


def print_step(step: int, metrics: dict[str, float]) -> None:
    shown = ("reward/mean", "clip/binding", "eval/accuracy", "time/step")
    print(step, {name: round(metrics[name], 3) for name in shown if name in metrics}, flush=True)


def row_of(name: str, seed: int, run: Run, seconds: float) -> Row:
    scalars = run.scalars()
    return {
        "variant": name,
        "seed": seed,
        "steps": run.step_count,
        "seconds": seconds,
        "held_out_accuracy_before": scalars[0]["eval/accuracy"],
        "held_out_accuracy": scalars[-1]["eval/accuracy"],
        "held_out_greedy_before": scalars[0]["eval/greedy"],
        "held_out_greedy": scalars[-1]["eval/greedy"],
        "clipped_share": sum(row["clip/binding"] for row in scalars[1:]) / run.step_count,
    }


def claims_of(row: Row) -> list[dict[str, Any]]:
    which = f"{row['variant']}, seed {row['seed']}"
    gain = row["held_out_accuracy"] - row["held_out_accuracy_before"]
    minutes = row["seconds"] / 60
    return [
        claim(f"gain in held-out accuracy, {which}", round(gain, 3), f"at least {GAIN}", gain >= GAIN),
        claim(f"minutes, {which}", round(minutes, 1), f"at most {LONGEST / 60:g}", row["seconds"] <= LONGEST),
    ]


if __name__ == "__main__":
    main()
