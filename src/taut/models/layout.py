"""How replies are laid out in rows, and rows cut into forward passes: whatever takes least time.

Replies to one prompt may share a row behind it (models/packing.py), which computes the prompt once and attends across
replies, masked and so in vain. Rows of one pass are padded to the longest; a pass costs time of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PROVED = frozenset(
    f"{family}Config"
    for family in (
        *("GPT2", "Llama", "Qwen2", "Qwen3", "GPTNeoX", "Phi"),
        *("Mistral", "Gemma", "Cohere", "Granite"),
    )
)
"""Families whose logprobs and gradients the tests hold to the plain layout's, where replies share a row."""

PAIR_COST, CAUSAL_PAIRS = 2, 0.75
"""A product in attention takes as long as two in a matrix, and a kernel that knows that it is causal, as that of a row
with one reply does, takes three quarters of one that is given a mask (measured: benchmarks/LOG.md)."""

PASS_TOKENS, LAYER_COST = 32, 8e6
"""A pass reads the weights and adds to their gradients, which takes as long as so many tokens, and starts each layer's
kernels, as long as so many products (on a CPU, measured: benchmarks/LOG.md)."""

Row = list[int]
"""Replies, by their positions; several are to one prompt."""


@dataclass(frozen=True)
class Costs:
    """What a decoder spends, in the time of a product of two numbers in a matrix."""

    token: float
    """On a token: its matrices."""
    pair: float
    """On a token and one in its row: their score, and adding up its value, in all layers."""
    start: float = 0.0
    """On a pass, whatever it computes."""
    shares: bool = True
    """Whether replies to one prompt may share a row."""

    def of_row(self, width: int, shared: bool) -> float:
        """On a row of so many tokens, in a layout whose rows are shared or not."""
        return width * (self.token + width * self.pair * (1.0 if shared else CAUSAL_PAIRS))


def decoder_costs(model: Any) -> Costs:
    """Rows are not shared where the family is not proved, forgets by a sliding window, or attends by other code than
    torch's."""
    config = model.config
    text = config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    shares = (
        type(config).__name__ in PROVED
        and config._attn_implementation == "sdpa"
        and not getattr(config, "sliding_window", None)
        and set(kinds) == {"full_attention"}
    )
    matrices = (
        sum(p.numel() for p in model.base_model.parameters()) - model.get_input_embeddings().weight.numel()
    )
    layers = text.num_hidden_layers
    pair = PAIR_COST * 2 * layers * text.hidden_size
    return Costs(matrices, pair, PASS_TOKENS * matrices + LAYER_COST * layers, shares)


def lay_out(
    prompts: Sequence[Sequence[int]], reply_lengths: Sequence[int], costs: Costs, max_tokens: int
) -> list[list[Row]]:
    """The rows of each pass, in the cheapest layout. Rows × longest stays within `max_tokens`, pads included.

    Tried are 1, 2, 4, 8 ... and all replies to a prompt a row, the shorter ones together. A reply that is longer than
    `max_tokens` goes alone.
    """
    groups: dict[tuple[int, ...], Row] = {}
    for reply, prompt in enumerate(prompts):
        groups.setdefault(tuple(prompt) if costs.shares else (reply,), []).append(reply)
    for group in groups.values():
        group.sort(key=lambda reply: reply_lengths[reply])
    largest = max(len(group) for group in groups.values())
    best, least = list[list[Row]](), math.inf
    for size in sorted({min(2**power, largest) for power in range(largest.bit_length() + 1)}):
        rows = [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]
        widths = [width_of(row, prompts, reply_lengths) for row in rows]
        if size > 1 and max(widths) > max_tokens:
            break
        passes, cost = cut(widths, costs, max_tokens, shared=size > 1)
        if cost < least:
            best, least = [[rows[i] for i in part] for part in passes], cost
    return best


def width_of(row: Row, prompts: Sequence[Sequence[int]], reply_lengths: Sequence[int]) -> int:
    """Tokens of a row: the prompt once, and its replies."""
    return len(prompts[row[0]]) + sum(reply_lengths[reply] for reply in row)


def cut(widths: Sequence[int], costs: Costs, max_tokens: int, shared: bool) -> tuple[list[list[int]], float]:
    """The quickest cut of rows, sorted by width, into passes, and what it costs.

    best[n], the least for the n narrowest, is the minimum over m of best[m] + a pass over those from m to n, all as
    wide as the widest of them.
    """
    order = sorted(range(len(widths)), key=lambda row: widths[row])
    each = [costs.of_row(widths[row], shared) for row in order]
    whole = len(order) * each[-1]
    if len(order) * widths[order[-1]] <= max_tokens and whole - sum(each) <= costs.start:
        return [
            order
        ], costs.start + whole  # a second pass could save no more than the pads, and costs as much
    best, begins = np.zeros(len(order) + 1), [0] * (len(order) + 1)
    for end, row in enumerate(order, 1):
        first = max(0, end - max(1, max_tokens // widths[row]))
        found = best[first:end] + costs.start + each[end - 1] * np.arange(end - first, 0, -1)
        begins[end] = first + int(found.argmin())
        best[end] = found.min()
    passes, end = list[list[int]](), len(order)
    while end:
        passes.insert(0, order[begins[end] : end])
        end = begins[end]
    return passes, float(best[-1])
