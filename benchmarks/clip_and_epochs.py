"""Repeats the published comparison of epochs and clip ranges in the careless adder, over ten seeds.

The recipe was settled on seeds 100 to 104 and then left alone; seeds 0 to 9 are run once. Each seed has its own
fine-tuned model, and the four settings are paired on it. Beside them stands the variant that keeps one Adam over the
run instead of starting every batch with a fresh one.

    python benchmarks/clip_and_epochs.py [--seeds 10] [--jobs 2]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

from record import RECORDS, claim, write_record

from taut.launch.sweep import run_sweep
from taut.store import Run
from taut.store.compare import summary_rows
from taut.store.plot import plot_runs

SETTINGS: dict[str, dict[str, Any]] = {
    "1 epoch": {"algorithm.epochs": 1},
    "4 epochs": {"algorithm.epochs": 4},
    "8 epochs": {"algorithm.epochs": 8},
    "4 epochs, clip 0.5": {"algorithm.epochs": 4, "algorithm.clip_low": 0.5, "algorithm.clip_high": 0.5},
}
KEPT_ADAM = "one Adam"
PUBLISHED = {  # clipped share, training reward, held-out accuracy, where they were told
    "1 epoch": (0.0, None, None),
    "4 epochs": (0.071, 0.89, 0.70),
    "8 epochs": (0.149, None, None),
    "4 epochs, clip 0.5": (0.049, None, None),
}

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    load, seeds = os.getloadavg()[0], list(range(options.seeds))
    rows: list[Row] = []
    pictured: list[Run] = []
    with tempfile.TemporaryDirectory() as root:
        for adam, reset in (("fresh Adam", "batch"), (KEPT_ADAM, "never")):
            for name, settings in SETTINGS.items():
                base = {
                    **settings,
                    "optimizer.reset": reset,
                    "run.name": f"{name}, {adam}".replace(", ", "-"),
                }
                runs = run_sweep(base, {"run.seed": seeds}, root, options.jobs)
                rows += [row_of(name, adam, seed, run) for seed, run in zip(seeds, runs, strict=True)]
                pictured += runs[:1] if adam != KEPT_ADAM else []
                print_setting(name, adam, rows)
        plot_runs(pictured, RECORDS / "clip_and_epochs.svg")
    claims = make_claims(rows)
    for each in claims:
        print(
            f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} (goal: {each['goal']})"
        )
    print(write_record("clip_and_epochs", rows, claims, load))


def row_of(name: str, adam: str, seed: int, run: Run) -> Row:
    (summary,) = summary_rows([run])
    before = run.scalars()[0]
    return {
        "setting": name,
        "optimizer": adam,
        "seed": seed,
        "clipped_share": summary["clip/binding"],
        "training_reward": summary["reward/mean"],
        "held_out_accuracy": summary["eval/accuracy"],
        "held_out_greedy": run.last("eval/greedy"),
        "held_out_accuracy_before": before["eval/accuracy"],
        "held_out_greedy_before": before["eval/greedy"],
    }


def column(rows: Sequence[Row], setting: str, key: str, adam: str = "fresh Adam") -> list[float]:
    """One number a seed, in the order of the seeds."""
    return [row[key] for row in rows if (row["setting"], row["optimizer"]) == (setting, adam)]


def make_claims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    share = {name: column(rows, name, "clipped_share") for name in SETTINGS}
    seeds = len(share["4 epochs"])
    most = round(0.9 * seeds)
    more = sum(a > b for a, b in zip(share["8 epochs"], share["4 epochs"], strict=True))
    less = sum(a < b for a, b in zip(share["4 epochs, clip 0.5"], share["4 epochs"], strict=True))
    claims = [
        claim(
            "1 epoch clips nothing: the largest share", max(share["1 epoch"]), "0", max(share["1 epoch"]) == 0
        ),
        claim(f"8 epochs clip more than 4, paired seeds of {seeds}", more, f"at least {most}", more >= most),
        claim(f"0.5 clips less than 0.2, paired seeds of {seeds}", less, f"at least {most}", less >= most),
    ]
    for name, low, high in (("4 epochs", 5, 10), ("8 epochs", 10, 20), ("4 epochs, clip 0.5", 3, 7)):
        mean = 100 * statistics.fmean(share[name])
        what = f"mean clipped share in %, {name} (published {100 * PUBLISHED[name][0]:.1f})"
        claims.append(
            claim(what, spread([100 * x for x in share[name]]), f"{low} to {high}", low <= mean <= high)
        )
    for key, published, width in (("training_reward", 0.89, 0.07), ("held_out_accuracy", 0.70, 0.08)):
        values = column(rows, "4 epochs", key)
        holds = abs(statistics.fmean(values) - published) <= width
        what = f"{key.replace('_', ' ')}, 4 epochs (published {published})"
        claims.append(claim(what, spread(values), f"{published} ± {width}", holds))
    return claims


def spread(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"


def print_setting(name: str, adam: str, rows: Sequence[Row]) -> None:
    keys = ("clipped_share", "training_reward", "held_out_accuracy", "held_out_greedy")
    numbers = ", ".join(f"{key.replace('_', ' ')} {spread(column(rows, name, key, adam))}" for key in keys)
    print(f"{name}, {adam}: {numbers}", flush=True)


if __name__ == "__main__":
    main()
