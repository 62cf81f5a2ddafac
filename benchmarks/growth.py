"""How time and memory grow: reply length, batch, vocabulary and group size doubled, one at a time.

    python benchmarks/growth.py [--only reply batch vocabulary group]

A random model of 4 layers and width 256 is trained for three steps without a critic, one optimiser step each, every
point in a process of its own; the first step doesn't count. Beside the seconds and bytes a reply token takes stand the
operations it needs (`ceilings.pass_operations`): what grows faster than those grows faster than the work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ceilings import matrices_of, pass_operations
from record import RECORDS, claim, write_record

BASE = {"layers": 4, "width": 256, "prompt": 64, "reply": 64, "batch": 4, "group": 4, "vocabulary": 8192}
"""`batch` counts prompts, `group` the replies to each."""
SWEEPS = {
    "reply": (32, 64, 128, 256),
    "batch": (2, 4, 8, 16),
    "vocabulary": (4096, 8192, 16384, 32768),
    "group": (2, 4, 8, 16, 32),
}
STEPS = 3
FASTER = 1.25
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(SWEEPS))
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(point(json.loads(options.point))))
        return
    load = os.getloadavg()[0]
    rows = [
        measured(swept, {**BASE, swept: value}) for swept in options.only or SWEEPS for value in SWEEPS[swept]
    ]
    print(as_table(rows))
    claims = claims_of(rows)
    if not options.no_record:
        draw(rows, RECORDS / "growth.svg")
        print(write_record("growth", rows, claims, load))


def measured(swept: str, sizes: dict[str, int]) -> Row:
    command = [sys.executable, __file__, "--point", json.dumps(sizes)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    row = {"swept": swept, "value": sizes[swept], **json.loads(done.stdout.splitlines()[-1])}
    print(row, flush=True)
    return row


def point(sizes: dict[str, int]) -> Row:
    """Trains at these sizes; what a reply token took and needed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from taut import train
    from taut.config import resolve
    from taut.models.save import save_model
    from taut.models.tiny import character_tokenizer
    from taut.tasks.adder import CHARACTERS, END

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=sizes["vocabulary"],
            hidden_size=sizes["width"],
            intermediate_size=4 * sizes["width"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=4,
            bos_token_id=None,
            eos_token_id=CHARACTERS.index(END),
        )
    )
    phases: list[dict[str, float]] = []
    before, peak = 0, 0

    def observe(step: int, metrics: dict[str, float]) -> None:
        nonlocal before, peak
        if step < 2:  # what a first step holds for good is no part of a step
            Path("/proc/self/clear_refs").write_text("5")
            before = status("VmRSS")
            return
        phases.append(metrics)
        peak = status("VmHWM")

    with (
        tempfile.TemporaryDirectory() as folder,
        patch("taut.launch.local.end_of_sequence_ids", return_value=()),
    ):
        save_model(model, character_tokenizer(CHARACTERS, END), Path(folder, "model"))
        row = json.dumps({"prompt": "1" * sizes["prompt"]})
        Path(folder, "prompts.jsonl").write_text("\n".join([row] * sizes["batch"]))
        settings = {
            "run.root": folder,
            "run.steps": STEPS,
            "run.device": "cpu",
            "model.path": str(Path(folder, "model")),
            "data.path": str(Path(folder, "prompts.jsonl")),
            "sampling.max_new_tokens": sizes["reply"],
            "algorithm.preset": "dr-grpo",
            "algorithm.prompts_per_step": sizes["batch"],
            "algorithm.replies_per_prompt": sizes["group"],
            "algorithm.epochs": 1,
        }
        train(resolve(settings)[0], [observe], reward=length)
    tokens = sizes["batch"] * sizes["group"] * sizes["reply"]
    forward = pass_operations(
        matrices_of(model), sizes["batch"], sizes["prompt"], sizes["group"], sizes["reply"]
    )
    return {
        **sizes,
        "sample_seconds": statistics.median(row["time/sample"] for row in phases) / tokens,
        "update_seconds": statistics.median(row["time/update"] for row in phases) / tokens,
        "extra_bytes": (peak - before) / tokens,
        "operations": forward / tokens,
    }


def length(prompts: Sequence[Any], completions: Sequence[str], **columns: Any) -> list[float]:
    return [float(len(set(completion))) for completion in completions]


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


QUANTITIES = {"sample_seconds": "sampling, s", "update_seconds": "update, s", "extra_bytes": "memory, bytes"}


def growth(rows: Sequence[Row], swept: str, quantity: str) -> float:
    """How much faster than the operations a quantity grew from the smallest point to the largest; 1 is as fast."""
    own = [row for row in rows if row["swept"] == swept]
    return (own[-1][quantity] / own[0][quantity]) / (own[-1]["operations"] / own[0]["operations"])


def claims_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    claims = []
    for swept in dict.fromkeys(row["swept"] for row in rows):
        for quantity, name in QUANTITIES.items():
            times = growth(rows, swept, quantity)
            what = f"{name.partition(',')[0]} a token over the operations it needs, as {swept} grows"
            claims.append(claim(what, round(times, 3), f"at most {FASTER}", times <= FASTER))
    return claims


def as_table(rows: Sequence[Row]) -> str:
    lines = ["swept       value  sampling µs  update µs  memory kB  MFLOP   (each a reply token)"]
    for row in rows:
        lines.append(
            f"{row['swept']:10} {row['value']:6} {1e6 * row['sample_seconds']:12.1f} "
            f"{1e6 * row['update_seconds']:10.1f} {row['extra_bytes'] / 1e3:10.1f} {row['operations'] / 1e6:6.2f}"
        )
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    swept = list(dict.fromkeys(row["swept"] for row in rows))
    figure, axes = plt.subplots(1, len(swept), figsize=(3.2 * len(swept), 3), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], swept, strict=True):
        own = [row for row in rows if row["swept"] == name]
        values = [row["value"] for row in own]
        for quantity, label in {**QUANTITIES, "operations": "operations"}.items():
            style = "k--" if quantity == "operations" else "o-"
            axis.plot(
                values, [row[quantity] / own[0][quantity] for row in own], style, label=label.split(",")[0]
            )
        axis.set(xscale="log", yscale="log", xlabel=name, xticks=values, xticklabels=values)
        axis.minorticks_off()
    axes[0][0].set_ylabel("of a reply token, smallest = 1")
    axes[0][-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
