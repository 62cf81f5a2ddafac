"""The RLHF chain in the careless adder: preference pairs, a reward model, PPO against it at several β.

A judge compares two of the fine-tuned model's replies and mislabels one pair in ten. The reward model that learns from
him is right about most held-out pairs and wrong about the rest; PPO finds where it is wrong. The less the KL holds the
policy back, the more the proxy reward rises, and below some β the true accuracy falls: over-optimisation
(2210.10760).

    python examples/rlhf_chain/chain.py [--seed 100] [--steps 60]

A few minutes on one CPU core. Writes benchmarks/records/rlhf_chain.json and rlhf_chain.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from taut import Config, Run, train
from taut.config import RewardModelConfig
from taut.launch.preferences import train_reward_model
from taut.launch.sft import world_model_folder
from taut.launch.use import config_of_run, evaluate_model, sample_replies
from taut.tasks.adder import END, adder_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from record import RECORDS, claim, write_record

BETAS = (3.0, 1.0, 0.3, 0.1, 0.0)
PAIRS, HELD_OUT_PAIRS, MISLABELLED = 3000, 500, 0.1

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60, help="of PPO, for each β")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder, options.seed)
        judged = learn_rewards(folder, options.seed)
        print("reward model:", ", ".join(f"{key} {value:.3f}" for key, value in judged.items()), flush=True)
        rows = [{"seed": options.seed, **judged}, start(folder, options.seed)]
        for beta in BETAS:
            rows.append(optimize(folder, options.seed, beta, options.steps))
            print(rows[-1], flush=True)
    draw(rows[1:])
    print(write_record("rlhf_chain", rows, make_claims(rows[1:]), load))


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


def reward_model(folder: Path) -> Callable[..., list[float]]:
    """A reward function over the reward model's folder, through transformers alone; loaded where it first runs."""
    loaded: list[Any] = []

    def proxy(prompts: list[str], completions: list[str], completion_ids: list[list[int]]) -> list[float]:
        if not loaded:
            path = folder / "reward-model"
            loaded.append(AutoTokenizer.from_pretrained(path))
            loaded.append(AutoModelForSequenceClassification.from_pretrained(path).requires_grad_(False))
        tokenizer, model = loaded
        ends = [END if ids[-1] == tokenizer.eos_token_id else "" for ids in completion_ids]
        texts = [prompt + reply + end for prompt, reply, end in zip(prompts, completions, ends, strict=True)]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        return logits[:, 0].tolist()

    return proxy


def settings(folder: Path, seed: int, beta: float, steps: int) -> Config:
    return Config.model_validate(
        {
            "run": {"root": str(folder / "runs"), "name": f"beta {beta}", "seed": seed, "steps": steps},
            "algorithm": {"preset": "rloo"},
            "kl": {"coefficient": beta},
            "eval": {"every": steps},
        }
    )


def start(folder: Path, seed: int) -> Row:
    """The fine-tuned model, before PPO."""
    run = train(settings(folder, seed, beta=100.0, steps=1), reward=reward_model(folder))
    exact = evaluate_model(Config.model_validate({"run": {"seed": seed}}))
    return {
        "seed": seed,
        "beta": None,
        "kl": 0.0,
        "proxy_reward": run.scalars()[0]["eval/accuracy"],
        "true_accuracy": exact["eval/accuracy"],
    }


def optimize(folder: Path, seed: int, beta: float, steps: int) -> Row:
    """PPO's clipped update with a leave-one-out baseline, against the reward model, on the world's 80 prompts."""
    run: Run = train(settings(folder, seed, beta, steps), reward=reward_model(folder))
    exact = evaluate_model(config_of_run(run).model_copy(update={"reward": "exact-match"}))
    return {
        "seed": seed,
        "beta": beta,
        "kl": float(np.mean([step["kl/ref_k1_reply"] for step in run.scalars()[1:][-5:]])),
        "proxy_reward": run.last("eval/accuracy"),
        "true_accuracy": exact["eval/accuracy"],
    }


def make_claims(rows: list[Row]) -> list[dict[str, Any]]:
    before, *trained = rows
    best, last = max(trained, key=lambda row: row["true_accuracy"]), trained[-1]
    gains = [round(row["proxy_reward"] - before["proxy_reward"], 3) for row in trained]
    accuracies = [round(row["true_accuracy"], 3) for row in rows]
    return [
        claim("proxy reward gained on held-out prompts, each β", gains, "all above 0", min(gains) > 0),
        claim(
            "the best β improves the true accuracy",
            accuracies,
            "above the first",
            best["true_accuracy"] > before["true_accuracy"],
        ),
        claim(
            "without a KL the true accuracy ends below the best β's",
            round(best["true_accuracy"] - last["true_accuracy"], 3),
            "above 0.1",
            best["true_accuracy"] - last["true_accuracy"] > 0.1,
        ),
    ]


def draw(rows: list[Row]) -> None:
    """Proxy and truth over the KL that was spent."""
    ordered = sorted(rows, key=lambda row: row["kl"])
    figure, left = plt.subplots(figsize=(7, 4.2), layout="constrained")
    right = left.twinx()
    spent = [row["kl"] for row in ordered]
    for axis, key, color in ((left, "proxy_reward", "tab:orange"), (right, "true_accuracy", "tab:blue")):
        axis.plot(spent, [row[key] for row in ordered], "o-", color=color)
        axis.set_ylabel(key.replace("_", " ") + ", held-out", color=color)
    for row in ordered:
        name = "before PPO" if row["beta"] is None else f"β = {row['beta']:g}"
        right.annotate(name, (row["kl"], row["true_accuracy"]), xytext=(4, 6), textcoords="offset points")
    left.set_xlabel("KL to the fine-tuned model, nats a reply")
    left.set_title("The weaker the leash, the better the proxy, and not the policy")
    RECORDS.mkdir(exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "taut"
    figure.savefig(RECORDS / "rlhf_chain.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
