"""Is the plan's memory what real steps take? Both over a grid of models, algorithms, lengths and ways to save memory.

    python benchmarks/memory_plan.py [NAME ...]

Each setting trains for two steps in a process of its own. Measured is the resident memory at its highest from
the first step to the last, less what the process held after two steps of a tiny model, which load every library. The C
library is told to give freed memory back at once (MALLOC_MMAP_THRESHOLD_): left to itself it keeps some for later.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from record import claim, write_record

WITHIN = 0.20
SMOLLM2 = {"path": ".models/smollm2-135m-instruct", "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
LLAMA_11M = {"layers": 6, "hidden": 256, "inner": 688, "heads": 8, "kv_heads": 4, "vocabulary": 8192}
LLAMA_48M = {"layers": 12, "hidden": 512, "inner": 1376, "heads": 8, "kv_heads": 2, "vocabulary": 16384}
LLAMA_110M = {"layers": 12, "hidden": 768, "inner": 2048, "heads": 12, "kv_heads": 12, "vocabulary": 32000}
GPT2_52M = {"layers": 8, "hidden": 512, "heads": 8, "vocabulary": 50257}

Settings = dict[str, Any]
GRID: dict[str, tuple[Settings, Settings]] = {
    "11M, no critic": (LLAMA_11M, {"algorithm.preset": "ppo-batch-mean"}),
    "11M, no critic, long replies": (
        LLAMA_11M,
        {"algorithm.preset": "ppo-batch-mean", "sampling.max_new_tokens": 224},
    ),
    "11M, critic": (LLAMA_11M, {"algorithm.preset": "ppo"}),
    "48M, no critic": (LLAMA_48M, {"algorithm.preset": "dr-grpo"}),
    "48M, GRPO with a reference": (LLAMA_48M, {"algorithm.preset": "grpo"}),
    "48M, critic": (LLAMA_48M, {"algorithm.preset": "ppo"}),
    "48M, LoRA, critic shared": (
        LLAMA_48M,
        {"algorithm.preset": "ppo", "lora.rank": 16, "critic.shared": True},
    ),
    "48M, layers recomputed": (
        LLAMA_48M,
        {"algorithm.preset": "dr-grpo", "model.gradient_checkpointing": True},
    ),
    "48M, bfloat16": (LLAMA_48M, {"algorithm.preset": "dr-grpo", "model.dtype": "bfloat16"}),
    "110M, GRPO with a reference": (LLAMA_110M, {"algorithm.preset": "grpo"}),
    "GPT-2 52M, critic": (GPT2_52M, {"algorithm.preset": "ppo"}),
    "48M, DPO": (LLAMA_48M, {"dpo.batch_size": 8}),
    "SmolLM2, no critic": (SMOLLM2, {"algorithm.preset": "dr-grpo"}),
    "SmolLM2, LoRA": (SMOLLM2, {"algorithm.preset": "grpo", "lora.rank": 16}),
}
"""Name -> model and settings; DPO where there is a dpo.* among them."""
PROMPT_TOKENS = 32
COMMON: Settings = {
    "run.steps": 2,
    "run.threads": 1,
    "run.device": "cpu",
    "data.max_prompt_tokens": PROMPT_TOKENS,
    "learner.micro_batch_tokens": 512,
}
RUN: Settings = {
    "sampling.max_new_tokens": 96,
    "algorithm.prompts_per_step": 4,
    "algorithm.replies_per_prompt": 2,
    "algorithm.epochs": 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="settings of the grid; all when none is named")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(json.loads(options.measure))))
        return
    load = os.getloadavg()[0]
    rows = [row_of(name, *GRID[name]) for name in options.names or GRID]
    claims = [
        claim(
            f"plan / measured, {row['setting']}", row["ratio"], "within 20 %", abs(row["ratio"] - 1) <= WITHIN
        )
        for row in rows
    ]
    if options.names:
        return
    print(write_record("memory_plan", rows, claims, load))


def row_of(name: str, model: Settings, own: Settings) -> Settings:
    from taut.checks.duration import Machine
    from taut.launch.plan import plan

    with tempfile.TemporaryDirectory() as folder:
        settings = {**COMMON, **({} if "dpo.batch_size" in own else RUN), **own}
        settings |= place(Path(folder), model, own)
        planned = plan(config_of(settings), machine=Machine(1e9, 1e9)).memory["learner"]
        command = [sys.executable, __file__, "--measure", json.dumps(settings)]
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
    measured = json.loads(done.stdout.splitlines()[-1])
    row = {
        "setting": name,
        "settings": {**model, **own},
        "planned_bytes": planned.peak,
        "measured_bytes": measured["peak"] - measured["before"],
        "before_bytes": measured["before"],
        "ratio": round(planned.peak / (measured["peak"] - measured["before"]), 3),
        "fullest": planned.fullest.name,
        "dominant": planned.dominant.name,
    }
    print(f"{name:32} plan {planned.peak / 1e6:7.0f} MB  measured {row['measured_bytes'] / 1e6:7.0f} MB"
          f"  {row['ratio']:.2f}  {planned.fullest.name}, {planned.dominant.name}", flush=True)  # fmt: skip
    return row


def place(folder: Path, model: Settings, own: Settings) -> Settings:
    """Writes the data and, unless it is a folder already, the model; the settings that name them."""
    pairs = "dpo.batch_size" in own
    if "path" in model:
        settings = {f"model.{key}": value for key, value in model.items()}
        prompt = "one two three four five six seven"
    else:
        settings = {"model.path": make_model(folder / "model", model)}
        prompt = "1" * PROMPT_TOKENS
    reply = "2" * (PROMPT_TOKENS - 1)  # and the end
    rows = [
        {"prompt": prompt, "answer": "", **({"chosen": reply, "rejected": reply} if pairs else {})}
        for _ in range(16)
    ]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place = {"dpo.output": str(folder / "output")} if pairs else {"run.root": str(folder / "runs")}
    return {**settings, **place, "data.path": str(folder / "data.jsonl")}


def make_model(folder: Path, shape: Settings) -> str:
    """A random model that ends its replies as good as never."""
    import transformers

    from taut.models.save import save_model
    from taut.models.tiny import character_tokenizer
    from taut.tasks.adder import CHARACTERS, END

    common = {"vocab_size": shape["vocabulary"], "bos_token_id": None, "eos_token_id": CHARACTERS.index(END)}
    if "inner" in shape:
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                hidden_size=shape["hidden"],
                intermediate_size=shape["inner"],
                num_hidden_layers=shape["layers"],
                num_attention_heads=shape["heads"],
                num_key_value_heads=shape["kv_heads"],
                **common,
            )
        )
    else:
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                n_embd=shape["hidden"], n_layer=shape["layers"], n_head=shape["heads"], **common
            )
        )
    save_model(model, character_tokenizer(CHARACTERS, END), folder)
    return str(folder)


def config_of(settings: Settings) -> Any:
    from taut.config import Config, DPOConfig, resolve

    return resolve(settings, kind=DPOConfig if "dpo.batch_size" in settings else Config)[0]


def measure(settings: Settings) -> dict[str, int]:
    """Bytes before the model is loaded, and at most while it trains."""
    warm_up(settings)
    gc.collect()
    before, peak = status("VmRSS"), [0]
    train_as(settings, watch(peak))
    return {"before": before, "peak": peak[0]}


def watch(peak: list[int]) -> Any:
    """Hears of each step; forgets what was at most resident before the first."""

    def observe(step: int, metrics: Any) -> None:
        if step == 0:
            Path("/proc/self/clear_refs").write_text("5")
        peak[0] = status("VmHWM")

    return observe


def train_as(settings: Settings, observe: Any) -> None:
    config = config_of(settings)
    if "dpo.batch_size" in settings:
        from taut.launch.preferences import train_dpo

        train_dpo(config, observe)
    else:
        from taut import train

        train(config, [observe])


def warm_up(settings: Settings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tiny = {"layers": 1, "hidden": 16, "inner": 32, "heads": 2, "kv_heads": 1, "vocabulary": 64}
        own = {**settings, **place(Path(folder), tiny, settings)}
        own.pop("model.gguf_file", None)
        train_as(own, lambda step, metrics: None)


def status(name: str) -> int:
    """A number of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


if __name__ == "__main__":
    main()
