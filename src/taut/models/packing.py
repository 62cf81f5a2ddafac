"""Replies to one prompt in one row, behind the prompt: it is computed once, forward and backward, for all of them.

A row is [prompt, reply, reply, ...]. A reply's tokens attend to the prompt and to their own reply up to themselves, and
have the positions they would have behind the prompt alone, so that what is computed is the same: to 1e-5 in float32,
where only the order of sums differs. A row's last tokens predict nothing that was sampled, and are left out where
`ends` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PROVED = frozenset(
    f"{family}Config"
    for family in (
        *("GPT2", "Llama", "Qwen2", "Qwen3", "GPTNeoX", "Phi"),
        *("Mistral", "Gemma", "Cohere", "Granite"),
    )
)
"""Families whose logprobs and gradients the tests hold to the plain layout's."""

PAIR_COST, CAUSAL_PAIRS = 2, 0.75
"""A product in attention takes as long as two in a matrix, and a kernel that knows that it is causal, as that of a row
with one reply does, takes three quarters of one that is given a mask (measured: benchmarks/LOG.md)."""

Row = list[int]
"""Positions of replies in their micro-batch, all to one prompt."""


@dataclass(frozen=True)
class Packing:
    """b replies in r rows of at most L tokens."""

    position_ids: Tensor  # [r, L] int64
    attention: Tensor  # [r, 1, L, L] bool, true where a token attends
    rows: Tensor  # [b] int64, the row that a reply is in
    starts: Tensor  # [b] int64, where in its row its first token stands


@dataclass(frozen=True)
class Costs:
    """What a decoder spends, in the time of a product of two numbers in a matrix."""

    token: float
    """On a token: its matrices."""
    pair: float
    """On a token and one in its row: their score, and adding up its value, in all layers."""


def packing_costs(model: Any) -> Costs | None:
    """None where the family is not proved, forgets by a sliding window, or attends by other code than torch's."""
    config = model.config
    if type(config).__name__ not in PROVED or config._attn_implementation != "sdpa":
        return None
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    if getattr(config, "sliding_window", None) or set(kinds) != {"full_attention"}:
        return None
    matrices = (
        sum(p.numel() for p in model.base_model.parameters()) - model.get_input_embeddings().weight.numel()
    )
    products = 2 * config.num_hidden_layers * config.hidden_size
    return Costs(matrices, PAIR_COST * products)


def choose_rows(
    prompts: Sequence[Sequence[int]], reply_lengths: Sequence[int], costs: Costs
) -> list[Row] | None:
    """The rows of the cheapest layout; None where that is the plain one, a reply a row.

    A row of L tokens costs L · `token` + L² · `pair`, with one reply CAUSAL_PAIRS of the pairs. Tried are 2, 4, 8 ...
    and all replies to a prompt a row.
    """
    groups: dict[tuple[int, ...], Row] = {}
    for number, prompt in enumerate(prompts):
        groups.setdefault(tuple(prompt), []).append(number)
    largest = max(len(group) for group in groups.values())
    widest = max(len(prompt) + length for prompt, length in zip(prompts, reply_lengths, strict=True))
    best, cheapest = None, len(prompts) * widest * (costs.token + CAUSAL_PAIRS * widest * costs.pair)
    sizes = sorted({min(2**power, largest) for power in range(1, largest.bit_length() + 1)})
    for size in sizes if largest > 1 else []:
        rows = [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]
        width = max(len(prompts[row[0]]) + sum(reply_lengths[n] for n in row) for row in rows)
        cost = len(rows) * width * (costs.token + width * costs.pair)
        if cost < cheapest:
            best, cheapest = rows, cost
    return best


def pack(
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    rows: Sequence[Row],
    device: str,
    ends: bool,
) -> tuple[list[list[int]], Packing]:
    """The rows' ids, unpadded, and how to read them. Without `ends` each reply's last token is left out."""
    ids: list[list[int]] = []
    positions: list[list[int]] = []
    members: list[list[int]] = []  # 0 for the prompt, n for a row's n-th reply
    row_of, starts = [0] * len(replies), [0] * len(replies)
    for number, row in enumerate(rows):
        prompt = list(prompts[row[0]])
        own, places, belongs = prompt, list(range(len(prompt))), [0] * len(prompt)
        for member, reply in enumerate(row, 1):
            fed = list(replies[reply] if ends else replies[reply][:-1])
            row_of[reply], starts[reply] = number, len(own)
            own = [*own, *fed]
            places += range(len(prompt), len(prompt) + len(fed))
            belongs += [member] * len(fed)
        ids.append(own)
        positions.append(places)
        members.append(belongs)
    width = max(len(row) for row in ids)
    padded = torch.tensor([[*row, *[0] * (width - len(row))] for row in positions], device=device)
    belonging = torch.tensor([[*row, *[-1] * (width - len(row))] for row in members], device=device)
    return ids, Packing(
        padded,
        _attention(belonging),
        torch.tensor(row_of, device=device),
        torch.tensor(starts, device=device),
    )


def _attention(member: Tensor) -> Tensor:
    """A pad attends to itself alone, since a softmax over nothing is NaN."""
    width = member.shape[1]
    asks, asked = member[:, :, None], member[:, None, :]
    causal = torch.ones(width, width, dtype=torch.bool, device=member.device).tril()
    itself = torch.eye(width, dtype=torch.bool, device=member.device)
    seen = ((asked == 0) | (asks == asked)) & causal & (asks >= 0) & (asked >= 0)
    return (seen | itself)[:, None]
