"""Sampling while the learner updates, against both in turn, on two cores.

    python benchmarks/overlap.py [--layers 4] [--width 576] [--tokens 32] [--rounds 5] [--no-record]

A random Llama, 8 prompts × 8 replies, two epochs, no critic. Ahead by one step, each has one thread; in turn they share
two, or take one. Runs alternate; a round's ratio is that of the medians of `time/step`, the quicker way in turn against
ahead. Only an idle machine says anything.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from record import claim, write_record

from taut import Config, train
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer
from taut.tasks.adder import CHARACTERS, END

STEPS, WARM_UP = 8, 3
WAYS = {"in turn, 2 threads": (2, 0), "in turn, 1 thread": (1, 0), "ahead, 1 thread each": (1, 1)}
TIMES = ("time/step", "time/sample", "time/update", "time/wait", "system/cores")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("layers", 4), ("width", 576), ("tokens", 32), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-record", action="store_true")
    options, load = parser.parse_args(), os.getloadavg()[0]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_parts(root, options.layers, options.width)
        for number in range(options.rounds):
            for way, (threads, ahead) in WAYS.items():
                rows.append(
                    {
                        "round": number,
                        "way": way,
                        **take(root, f"{number}-{threads}-{ahead}", threads, ahead, options.tokens),
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    seconds = {way: [row["time/step"] for row in rows if row["way"] == way] for way in WAYS}
    ratios = sorted(min(two, one) / ahead for two, one, ahead in zip(*seconds.values(), strict=True))
    middle = statistics.median(ratios)
    what = f"times the steps a second ({ratios[0]:.2f} to {ratios[-1]:.2f} of {len(ratios)} rounds)"
    claims = [claim(what, round(middle, 2), "above 1", middle > 1)]
    print(claims[0])
    if not options.no_record:
        print(write_record("overlap", rows, claims, load))


def make_parts(root: Path, layers: int, width: int) -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(CHARACTERS),
        hidden_size=width,
        intermediate_size=8 * width // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        eos_token_id=CHARACTERS.index(END),
        pad_token_id=CHARACTERS.index(END),
    )
    save_model(transformers.LlamaForCausalLM(config), character_tokenizer(CHARACTERS, END), root / "model")
    sums = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(40) for b in range(5)]
    (root / "sums.jsonl").write_text("\n".join(map(json.dumps, sums)))


def take(root: Path, name: str, threads: int, ahead: int, tokens: int) -> Row:
    config = Config.model_validate(
        {
            "run": {"root": str(root), "name": name, "steps": STEPS, "threads": threads},
            "model": {"path": str(root / "model")},
            "data": {"path": str(root / "sums.jsonl")},
            "sampling": {"max_new_tokens": tokens},
            "algorithm": {"preset": "ppo-batch-mean", "epochs": 2, "max_staleness": ahead},
            "optimizer": {"learning_rate": 1e-7},  # replies stay as long as they are
            "checkpoint": {"every": 0},
            "eval": {"every": 0},
        }
    )
    # Neither what is made at first use nor the last step, beside which nothing is sampled any more.
    rows = train(config).scalars()[1 + WARM_UP : -1]
    return {key: round(statistics.median(row.get(key, 0.0) for row in rows), 4) for key in TIMES}


if __name__ == "__main__":
    main()
