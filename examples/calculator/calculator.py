"""A model that adds badly learns to ask its calculator: replies of several turns, end to end.

A teacher shows sums of three-digit numbers. In four demonstrations of five he answers himself, replacing each digit by
a random one with probability 0.3; in the fifth he types `?`, is told the sum, and copies it. What the calculator says
is never learned: a demonstration of two turns is two rows, each with all that came before as its prompt. The model
that is fine-tuned on them calls as often as its teacher. PPO, paid for right answers alone, makes it call.

    python examples/calculator/calculator.py [--seeds 2]

Minutes on one CPU core. Writes benchmarks/records/calculator.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from taut import Run, train
from taut.config import SFTConfig, read_yaml, resolve
from taut.launch.sft import fine_tune_model
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from record import claim, write_record

HERE = Path(__file__).parent
CHARACTERS, END = "0123456789+=?;", ";"
DEMONSTRATIONS, PROMPTS, HELD_OUT = 4000, 400, 200
CALLS, SLIP = 0.2, 0.3

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    load, rows = os.getloadavg()[0], []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(learn(Path(folder), seed))
        print(rows[-1], flush=True)
    print(write_record("calculator", rows, make_claims(rows), load))


def learn(folder: Path, seed: int, sft_steps: int = 1000, ppo_steps: int = 30) -> Row:
    """From an untrained model to one that calls; what it does before PPO and after."""
    started = time.perf_counter()
    write_data(folder, seed)
    policy = fine_tune(folder, seed, sft_steps)
    run = reinforce(folder, policy, seed, ppo_steps)
    steps = run.scalars()
    return {
        "seed": seed,
        "held_out_accuracy_before": steps[0]["eval/accuracy"],
        "held_out_accuracy": run.last("eval/accuracy"),
        "calls_at_first": steps[1]["reward/environment/called"],
        "calls": float(np.mean([step["reward/environment/called"] for step in steps[-5:]])),
        "seconds": time.perf_counter() - started,
    }


def write_data(folder: Path, seed: int) -> None:
    """An untrained model, demonstrations, and sums to train on and to hold out, which share none."""
    model = tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed)
    save_model(model, character_tokenizer(CHARACTERS, END), folder / "untrained")
    rng = np.random.default_rng([seed, 0])
    drawn = rng.choice(900 * 900, DEMONSTRATIONS + HELD_OUT, replace=False)
    sums = [f"{100 + number // 900}+{100 + number % 900}=" for number in drawn]
    held_out, shown = sums[:HELD_OUT], sums[HELD_OUT:]
    write_rows(folder / "demonstrations.jsonl", [row for prompt in shown for row in demonstrate(prompt, rng)])
    write_rows(folder / "prompts.jsonl", [{"prompt": prompt} for prompt in shown[:PROMPTS]])
    write_rows(folder / "held_out.jsonl", [{"prompt": prompt} for prompt in held_out])


def demonstrate(prompt: str, rng: np.random.Generator) -> list[Row]:
    """The teacher's turns, each with what came before it as its prompt."""
    answer = str(sum(map(int, prompt.rstrip("=").split("+"))))
    if rng.random() < CALLS:
        return [
            {"prompt": prompt, "completion": "?"},
            {"prompt": f"{prompt}?{END}{answer}=", "completion": answer},
        ]
    digits = [str(rng.integers(10)) if rng.random() < SLIP else digit for digit in answer]
    return [{"prompt": prompt, "completion": "".join(digits)}]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def fine_tune(folder: Path, seed: int, steps: int) -> Path:
    settings = {
        "run": {"seed": seed, "steps": steps, "threads": 1},
        "model": {"path": str(folder / "untrained")},
        "data": {"path": str(folder / "demonstrations.jsonl")},
        "sft": {"output": str(folder / "policy"), "batch_size": 64},
        "optimizer": {"learning_rate": 2e-3, "weight_decay": 0.01, "warmup_steps": 20},
    }
    return fine_tune_model(resolve(settings, kind=SFTConfig)[0])


def reinforce(folder: Path, policy: Path, seed: int, steps: int) -> Run:
    own = {
        "run": {"root": str(folder / "runs"), "name": "calculator", "seed": seed, "steps": steps},
        "model": {"path": str(policy)},
        "data": {"path": str(folder / "prompts.jsonl"), "eval_path": str(folder / "held_out.jsonl")},
        "environment": {"path": f"{HERE / 'environment.py'}:Calculator"},
    }
    return train(resolve(read_yaml(HERE / "config.yaml"), own)[0])


def make_claims(rows: list[Row]) -> list[dict[str, Any]]:
    gains = [round(row["held_out_accuracy"] - row["held_out_accuracy_before"], 3) for row in rows]
    calls = [[round(row["calls_at_first"], 3), round(row["calls"], 3)] for row in rows]
    return [
        claim("held-out accuracy gained, each seed", gains, "all above 0.4", min(gains) > 0.4),
        claim(
            "share of replies that call, at the first step and over the last five, each seed",
            calls,
            "below 0.4, then above 0.9",
            all(first < 0.4 and last > 0.9 for first, last in calls),
        ),
    ]


if __name__ == "__main__":
    main()
