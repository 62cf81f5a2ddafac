"""The sampler alone against `transformers.generate`, and against what the machine can do at most.

    python benchmarks/sampler_speed.py [--tokens 64] [--pairs 5]

SmolLM2-135M (a random model of its shape where it was not fetched), float32, at batch 1, 8 and 64: different prompts,
and 8 prompts with 8 replies each. Both sample every token at temperature 1, none ends early, in turn in one process.
`generate` doesn't return logprobs as it is asked here; Taut's sampler does.

A decode step reads every weight once, and multiplies each with every reply: it takes no less than weights / reading
speed, and no less than operations / GEMM rate. Its own seconds are those of a whole generation less those of its
first token.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from ceilings import Matrices, gemm_rate, matrices_of, read_bandwidth
from peers.models import MODELS, model_for
from peers.work import Work, prompts_of
from record import claim, write_record

from taut.models.load import load_model, load_tokenizer
from taut.models.policy import Policy
from taut.rollout.local import LocalSampler
from taut.rollout.sampling import Sampling
from taut.types import Prompt

BATCHES = ((1, 1), (8, 1), (64, 1), (8, 8))
"""Prompts and replies to each."""
GEMM_TOKENS = 512
"""Rows at which the arithmetic ceiling is measured: enough of them that reading weights doesn't bind."""
DECODE_GOAL = 0.6

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["smollm2", "world", "tiny"], default="smollm2")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    work = Work(
        "sampler",
        options.model,
        8,
        8,
        options.tokens,
        style="chat" if options.model == "smollm2" else "plain",
    )
    rows = measure(work, options.pairs)
    claims = claims_of(rows)
    for each in claims:
        print(f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} ({each['goal']})")
    if not options.no_record:
        print(write_record("sampler", rows, claims, load))


def measure(work: Work, pairs: int, models: Path = MODELS) -> list[Row]:
    folder, weights = model_for(work, models)
    model, tokenizer = load_model(str(folder)), load_tokenizer(str(folder))
    prompts = as_prompts(work, tokenizer)
    matrices = matrices_of(model)
    limits = {
        "gemm_per_second": gemm_rate(matrices, GEMM_TOKENS, GEMM_TOKENS),
        "read_bytes_per_second": read_bandwidth(),
    }
    rows = []
    for count, replies in BATCHES:
        ours = taut_way(model, tokenizer, prompts[:count], replies)
        theirs = generate_way(model, tokenizer, prompts[:count], replies)
        taken = in_turn({"ours": ours, "peer": theirs}, work.new_tokens, pairs)
        rows.append(row_of(matrices, limits, weights, work.new_tokens, (count, replies), taken))
        print({key: value for key, value in rows[-1].items() if key != "seconds"}, flush=True)
    return rows


def as_prompts(work: Work, tokenizer: Any) -> list[Prompt]:
    made = []
    for index, prompt in enumerate(prompts_of(work)):
        text = prompt if isinstance(prompt, str) else tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, tokenize=False
        )  # fmt: skip
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        made.append(Prompt(index=index, text=text, ids=tuple(ids)))
    return made


Generate = Callable[[int], int]
"""Samples so many tokens a reply; returns how many there are in all."""


def taut_way(model: Any, tokenizer: Any, prompts: Sequence[Prompt], replies: int) -> Generate:
    sampler = LocalSampler(Policy(model), tokenizer, (), max_sequences=256)

    def generate(new_tokens: int) -> int:
        rollouts = sampler.generate(prompts, Sampling(replies_per_prompt=replies, max_new_tokens=new_tokens))
        return sum(len(rollout.ids) for rollout in rollouts)

    return generate


def generate_way(model: Any, tokenizer: Any, prompts: Sequence[Prompt], replies: int) -> Generate:
    ids = torch.tensor([prompt.ids for prompt in prompts]).repeat_interleave(replies, 0)

    def generate(new_tokens: int) -> int:
        with torch.no_grad():
            written = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                min_new_tokens=new_tokens,
                max_new_tokens=new_tokens,
                pad_token_id=tokenizer.pad_token_id,
            )
        return int(written[:, ids.shape[1] :].numel())

    return generate


Seconds = tuple[float, float]
"""Of a whole generation, and of one that stops at its first token."""


def in_turn(ways: dict[str, Generate], new_tokens: int, pairs: int) -> dict[str, list[Seconds]]:
    """Raises ValueError where the ways don't sample as many tokens. The first pair doesn't count."""
    taken: dict[str, list[Seconds]] = {name: [] for name in ways}
    for number in range(-1, pairs):
        counts = set()
        for name, generate in ways.items():
            whole, count = timed(generate, new_tokens)
            first, _ = timed(generate, 1)
            counts.add(count)
            if number >= 0:
                taken[name].append((whole, first))
        if len(counts) > 1:
            raise ValueError(f"not the same work: {sorted(counts)} tokens")
    return taken


def timed(generate: Generate, new_tokens: int) -> tuple[float, int]:
    started = time.perf_counter()
    count = generate(new_tokens)
    return time.perf_counter() - started, count


def row_of(
    matrices: Matrices,
    limits: dict[str, float],
    weights: str,
    new_tokens: int,
    shape: tuple[int, int],
    taken: dict[str, list[Seconds]],
) -> Row:
    prompts, replies = shape
    batch = prompts * replies
    row: Row = {
        "weights": weights,
        "prompts": prompts,
        "replies": replies,
        "batch": batch,
        "new_tokens": new_tokens,
        "seconds": taken,
        "threads": torch.get_num_threads(),
        **limits,
    }
    all_weights = matrices.body_weights + matrices.head_weights
    row["least_seconds_reading"] = 4 * all_weights / row["read_bytes_per_second"]
    row["least_seconds_multiplying"] = 2 * all_weights * batch / row["gemm_per_second"]
    least = max(row["least_seconds_reading"], row["least_seconds_multiplying"])
    for side, seconds in taken.items():
        whole = statistics.median(each[0] for each in seconds)
        decode = statistics.median(each[0] - each[1] for each in seconds) / (new_tokens - 1)
        row[f"{side}_tokens_per_second"] = batch * new_tokens / whole
        row[f"{side}_decode_seconds"] = decode
        row[f"{side}_share_of_ceiling"] = least / decode
    row["ratio"] = row["ours_tokens_per_second"] / row["peer_tokens_per_second"]
    return row


def claims_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        claim(
            f"decode at batch 8, as a share of what bounds it ({row['weights']})",
            round(row["ours_share_of_ceiling"], 3),
            "at least 0.6",
            row["ours_share_of_ceiling"] >= DECODE_GOAL,
        )
        for row in rows
        if row["batch"] == 8
    ]


if __name__ == "__main__":
    main()
