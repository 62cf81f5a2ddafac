"""The RLHF chain in the careless adder: preference pairs, a reward model, PPO against it at several β.

A judge compares two of the fine-tuned model's replies and mislabels one pair in ten. The reward model that learns from
him is right about most held-out pairs and wrong about the rest; PPO finds where it is wrong. The less the KL holds the
policy back, the more the proxy reward rises, and below some β the true accuracy falls: over-optimisation
(2210.10760).

    python examples/rlhf_chain/chain.py [--seeds 100 101 102] [--steps 60]

A few minutes a seed on one CPU core. Writes benchmarks/records/rlhf_chain.json and rlhf_chain.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from taut import Config, Run, train
from taut.config import RewardModelConfig
from taut.launch.preferences import train_reward_model
from taut.launch.sft import world_model_folder
from taut.launch.use import config_of_run, evaluate_model, sample_replies
from taut.tasks.adder import adder_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from record import RECORDS, claim, write_record

BETAS = (3.0, 1.0, 0.3, 0.1, 0.0)
PAIRS, HELD_OUT_PAIRS, MISLABELLED = 3000, 500, 0.1

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--steps", type=int, default=60, help="of PPO, for each β")
    options = parser.parse_args()
    load, reward_models, rows = os.getloadavg()[0], [], []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_pairs(folder, seed)
            reward_models.append({"seed": seed, **learn_rewards(folder, seed)})
            print(reward_models[-1], flush=True)
            rows.append(start(folder, seed))
            for beta in BETAS:
                rows.append(optimize(folder, seed, beta, options.steps))
                print(rows[-1], flush=True)
    draw(rows)
    claims = make_claims(rows)
    for each in claims:
        print("holds " if each["holds"] else "MISSED", each["what"], each["value"])
    print(write_record("rlhf_chain", [*reward_models, *rows], claims, load))


def write_pairs(folder: Path, seed: int) -> None:
    """Two replies of the fine-tuned model to a prompt, of which the judge mostly prefers the right one."""
    pairs, rng = comparisons(seed), np.random.default_rng([seed, 7])
    for file, count in (("pairs.jsonl", PAIRS), ("held_out.jsonl", HELD_OUT_PAIRS)):
        with (folder / file).open("w") as lines:
            for _ in range(count):
                prompt, *replies = next(pairs)
                chosen, rejected = replies[::-1] if rng.random() < MISLABELLED else replies
                lines.write(json.dumps({"prompt": prompt, "chosen": chosen, "rejected": rejected}) + "\n")


def comparisons(seed: int) -> Iterator[tuple[str, str, str]]:
    """(prompt, right reply, wrong reply), without end."""
    sums = {row["prompt"]: row["answer"] for row in adder_world(seed).demonstrated}
    for round_number in range(1, 10**6):
        noise = Config.model_validate(
            {
                "run": {"seed": 10**6 * round_number + seed, "threads": 1},
                "model": {"path": str(world_model_folder(seed))},
                "sampling": {"max_new_tokens": 5},
            }
        )
        replies = iter(sample_replies(noise, list(sums), replies=2))
        for first, second in zip(replies, replies, strict=True):
            prompt = first.prompt.text
            right = [reply.text == sums[prompt] and not reply.truncated for reply in (first, second)]
            if right[0] != right[1]:
                yield (prompt, first.text, second.text) if right[0] else (prompt, second.text, first.text)


def learn_rewards(folder: Path, seed: int) -> dict[str, float]:
    settings = {
        "run": {"seed": seed, "steps": 600},
        "data": {"path": str(folder / "pairs.jsonl"), "eval_path": str(folder / "held_out.jsonl")},
        "reward_model": {"output": str(folder / "reward-model")},
    }
    return train_reward_model(RewardModelConfig.model_validate(settings))[1]


def settings(folder: Path, seed: int, beta: float, steps: int) -> Config:
    return Config.model_validate(
        {
            "run": {"root": str(folder / "runs"), "name": f"beta {beta}", "seed": seed, "steps": steps},
            "reward": f"model:{folder / 'reward-model'}",
            "algorithm": {"preset": "rloo"},
            "kl": {"coefficient": beta},
            "eval": {"every": steps},
        }
    )


def start(folder: Path, seed: int) -> Row:
    """The fine-tuned model, before PPO."""
    return {
        "seed": seed,
        "beta": None,
        "kl": 0.0,
        "proxy_reward": evaluate_model(settings(folder, seed, beta=0.0, steps=1))["eval/accuracy"],
        "true_accuracy": evaluate_model(Config.model_validate({"run": {"seed": seed}}))["eval/accuracy"],
    }


def optimize(folder: Path, seed: int, beta: float, steps: int) -> Row:
    """PPO's clipped update with a leave-one-out baseline, against the reward model, on the world's 80 prompts."""
    run: Run = train(settings(folder, seed, beta, steps))
    exact = evaluate_model(config_of_run(run).model_copy(update={"reward": "exact-match"}))
    return {
        "seed": seed,
        "beta": beta,
        "kl": float(np.mean([step["kl/ref_k1_reply"] for step in run.scalars()[1:][-5:]])),
        "proxy_reward": run.last("eval/accuracy"),
        "true_accuracy": exact["eval/accuracy"],
    }


def make_claims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Of `start` and `optimize`, seed by seed; values are one number a seed."""
    by_seed = [[row for row in rows if row["seed"] == seed] for seed in seeds_of(rows)]
    least_gain, improved, lost = [], [], []
    for before, *trained in by_seed:
        best = max(row["true_accuracy"] for row in trained)
        least_gain.append(round(min(row["proxy_reward"] for row in trained) - before["proxy_reward"], 3))
        improved.append(round(best - before["true_accuracy"], 3))
        lost.append(round(best - trained[-1]["true_accuracy"], 3))
    return [
        claim("least proxy reward gained at any β", least_gain, "above 0", min(least_gain) > 0),
        claim("true accuracy gained at the best β", improved, "above 0", min(improved) > 0),
        claim("true accuracy at the best β, less that without a KL", lost, "above 0.1", min(lost) > 0.1),
    ]


def seeds_of(rows: Sequence[Row]) -> list[int]:
    return list(dict.fromkeys(row["seed"] for row in rows))


def draw(rows: Sequence[Row]) -> None:
    """Proxy and truth over the KL that was spent: each seed faintly, and the mean of each β over the seeds."""
    means = [mean_of([row for row in rows if row["beta"] == beta]) for beta in (None, *BETAS)]
    curves = [[row for row in rows if row["seed"] == seed] for seed in seeds_of(rows)]
    figure, left = plt.subplots(figsize=(7, 4.2), layout="constrained")
    right = left.twinx()
    for axis, key, color in ((left, "proxy_reward", "tab:orange"), (right, "true_accuracy", "tab:blue")):
        for curve, faint in [*((each, 0.3) for each in curves), (means, 1.0)]:
            ordered = sorted(curve, key=lambda row: row["kl"])
            spent, reached = [row["kl"] for row in ordered], [row[key] for row in ordered]
            axis.plot(spent, reached, "o-", color=color, alpha=faint, markersize=6 * faint)
        axis.set_ylabel(key.replace("_", " ") + ", held-out", color=color)
    for row in means:
        name = "before PPO" if row["beta"] is None else f"β = {row['beta']:g}"
        right.annotate(name, (row["kl"], row["true_accuracy"]), xytext=(4, 6), textcoords="offset points")
    left.set_xlabel("KL to the fine-tuned model, nats a reply")
    left.set_title("The weaker the leash, the better the proxy, and not the policy")
    RECORDS.mkdir(exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "taut"
    figure.savefig(RECORDS / "rlhf_chain.svg", metadata={"Date": None})


def mean_of(rows: Sequence[Row]) -> Row:
    numbers = ("kl", "proxy_reward", "true_accuracy")
    return {"beta": rows[0]["beta"], **{key: float(np.mean([row[key] for row in rows])) for key in numbers}}


if __name__ == "__main__":
    main()
