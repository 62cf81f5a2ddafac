"""What benchmarks/gpu.sh runs: sampler, loss step, learner and a whole PPO step with a critic, as JSON.

Each part is written to the output as soon as it is measured, so that a run that ends early leaves what it has.
Without a GPU it runs on the CPU, which only `--shape tiny` is meant for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from ceilings import (
    gemm_rate,
    matrices_of,
    median_seconds,
    pass_operations,
    read_bandwidth,
    update_operations,
)
from record import machine

Sizes = dict[str, int]
SHAPES: dict[str, Sizes] = {
    "half-billion": {
        "vocabulary": 151_936, "width": 896, "inner": 4864, "layers": 24, "heads": 14, "kv_heads": 2,
        "prompts": 8, "replies": 8, "prompt": 256, "reply": 256, "loss_tokens": 8192,
    },
    "tiny": {
        "vocabulary": 64, "width": 16, "inner": 32, "layers": 1, "heads": 2, "kv_heads": 1,
        "prompts": 2, "replies": 2, "prompt": 8, "reply": 4, "loss_tokens": 16,
    },
}  # fmt: skip
"""`half-billion` is Qwen2.5-0.5B's."""
STEPS = 3
EPOCHS = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=list(SHAPES), default="half-billion")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    options = parser.parse_args()
    sizes = SHAPES[options.shape]
    cuda = torch.cuda.is_available()
    result: dict[str, Any] = {
        "shape": options.shape,
        "sizes": sizes,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "machine": machine(load=0.0),
    }
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(sizes, Path(folder))
        parts: dict[str, Callable[[], dict[str, float]]] = {
            "ceilings": lambda: ceilings(model, sizes),
            "sampler": lambda: sampler(model, sizes),
            "loss_step": lambda: loss_step(sizes),
            "learner": lambda: steps(sizes, Path(folder), "dr-grpo"),
            "ppo": lambda: steps(sizes, Path(folder), "ppo"),
        }
        for name, part in parts.items():
            started = time.perf_counter()
            result[name] = {**part(), "took_seconds": time.perf_counter() - started}
            if name == "learner":
                rate = result["ceilings"]["gemm_per_second"]
                result[name]["share_of_gemm"] = result[name]["operations_per_second"] / rate
            options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def compute() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def make_model(sizes: Sizes, folder: Path) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from taut.models.save import save_model
    from taut.models.tiny import character_tokenizer
    from taut.tasks.adder import CHARACTERS, END

    with torch.device(device()):
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=sizes["vocabulary"],
                hidden_size=sizes["width"],
                intermediate_size=sizes["inner"],
                num_hidden_layers=sizes["layers"],
                num_attention_heads=sizes["heads"],
                num_key_value_heads=sizes["kv_heads"],
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=CHARACTERS.index(END),
            )
        )
    save_model(model, character_tokenizer(CHARACTERS, END), folder / "model")
    rows = [json.dumps({"prompt": "1" * sizes["prompt"]})] * sizes["prompts"]
    (folder / "prompts.jsonl").write_text("\n".join(rows))
    return model


def ceilings(model: Any, sizes: Sizes) -> dict[str, float]:
    fed = sizes["prompts"] * (sizes["prompt"] + sizes["replies"] * (sizes["reply"] - 1))
    at_head = sizes["prompts"] * sizes["replies"] * sizes["reply"]
    with torch.device(device()):
        torch.set_default_dtype(compute())
        rate = gemm_rate(matrices_of(model), fed, at_head)
        torch.set_default_dtype(torch.float32)
        return {"gemm_per_second": rate, "read_bytes_per_second": read_bandwidth()}


def sampler(model: Any, sizes: Sizes) -> dict[str, float]:
    """Tokens a second of whole generations, by batch: one prompt a reply, and whole groups."""
    from taut.models.policy import Policy
    from taut.models.tiny import character_tokenizer
    from taut.rollout.local import LocalSampler
    from taut.rollout.sampling import Sampling
    from taut.tasks.adder import CHARACTERS, END
    from taut.types import Prompt

    policy = Policy(model, autocast=torch.cuda.is_available())
    local = LocalSampler(policy, character_tokenizer(CHARACTERS, END), (), max_sequences=512)
    found = {}
    for prompts, replies in ((1, 1), (1, sizes["replies"]), (sizes["prompts"], sizes["replies"])):
        asked = [Prompt(index=i, text="", ids=(1,) * sizes["prompt"]) for i in range(prompts)]
        sampling = Sampling(replies_per_prompt=replies, max_new_tokens=sizes["reply"])
        seconds = median_seconds(lambda asked=asked, sampling=sampling: local.generate(asked, sampling), 2)
        found[f"tokens_per_second_{prompts}x{replies}"] = prompts * replies * sizes["reply"] / seconds
    return found


def loss_step(sizes: Sizes) -> dict[str, float]:
    """Seconds and extra bytes of the loss step, chunked and plain, in float32."""
    from loss_step import plain_way, taut_way

    found = {}
    for name, way in (("taut", taut_way), ("plain", plain_way)):
        with torch.device(device()):
            step = way(sizes["vocabulary"], sizes["width"], sizes["loss_tokens"])
            step()
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                step()
                found[f"{name}_extra_bytes"] = float(torch.cuda.max_memory_allocated() - before)
            found[f"{name}_seconds"] = median_seconds(step, 3)
    return found


def steps(sizes: Sizes, folder: Path, preset: str) -> dict[str, float]:
    """Seconds of each phase of a step of `train`, the median of all but the first, and memory."""
    from transformers import AutoModelForCausalLM

    from taut import train
    from taut.config import resolve

    seen: list[dict[str, float]] = []
    config = resolve({
        "run.root": str(folder / "runs"),
        "run.name": preset,
        "run.steps": STEPS,
        "model.path": str(folder / "model"),
        "model.dtype": "bfloat16" if torch.cuda.is_available() else "float32",
        "data.path": str(folder / "prompts.jsonl"),
        "sampling.max_new_tokens": sizes["reply"],
        "algorithm.preset": preset,
        "algorithm.prompts_per_step": sizes["prompts"],
        "algorithm.replies_per_prompt": sizes["replies"],
        "algorithm.epochs": EPOCHS,
        "checkpoint.every": 0,
        "eval.every": 0,
    })[0]  # fmt: skip
    with patch("taut.launch.local.end_of_sequence_ids", return_value=()):
        train(config, [lambda step, metrics: seen.append(metrics)], reward=characters)
    seconds = {
        key.replace("/", "_"): statistics.median(row[key] for row in seen[2:])
        for key in seen[-1]
        if key.startswith(("time/", "system/"))
    }
    with torch.device("meta"):
        meta = AutoModelForCausalLM.from_config(transformers_config(folder))
    forward = pass_operations(
        matrices_of(meta), sizes["prompts"], sizes["prompt"], sizes["replies"], sizes["reply"]
    )
    learner = seconds["time_update"] + seconds["time_score"]
    return {**seconds, "operations_per_second": update_operations(forward, EPOCHS) / learner}


def transformers_config(folder: Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder / "model")


def characters(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    return [float(len(set(completion))) for completion in completions]


if __name__ == "__main__":
    main()
