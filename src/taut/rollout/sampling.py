"""From next-token logits to a token and its logprob under the distribution that drew it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 256
"""Tokens whose probabilities are added up before any is looked at alone."""


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled, and the key of their noise."""

    replies_per_prompt: int
    max_new_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    greedy: bool = False
    """Take the likeliest token; its logprob is still that at `temperature`."""
    seed: int = 0
    step: int = 0


def truncate_logits(logits: Tensor, sampling: Sampling) -> Tensor:
    """[b, V] logits at the sampling temperature, -inf outside the tokens that may be drawn.

    Filters act in the order top-k, top-p, min-p, each on the distribution as it stands: the k likeliest (and any
    as likely as the k-th), the smallest set of likeliest tokens that holds mass p, those at least min_p times as
    likely as the likeliest. The likeliest token always stays.
    """
    if 0 < sampling.top_k < logits.shape[-1]:
        smallest = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if sampling.top_p < 1:
        ranked, order = logits.sort(dim=-1, descending=True, stable=True)
        probabilities = ranked.softmax(-1)
        # A token goes where the mass above it already reaches p.
        beyond = probabilities.cumsum(-1) - probabilities >= sampling.top_p
        logits = logits.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), -torch.inf)
    if sampling.min_p > 0:
        lowest = logits.max(-1, keepdim=True).values + math.log(sampling.min_p)
        logits = logits.masked_fill(logits < lowest, -torch.inf)
    return logits


def draw_tokens(logits: Tensor, noise: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens [b] and their logprobs [b] float32, from logits [b, V] and uniform noise [b] in [0, 1)."""
    if sampling.temperature != 1:
        logits = logits / sampling.temperature
    probabilities = truncate_logits(logits, sampling).softmax(-1)
    tokens = logits.argmax(-1) if sampling.greedy else _invert(probabilities, noise)
    return tokens, probabilities.gather(-1, tokens[:, None])[:, 0].log()


def _invert(probabilities: Tensor, noise: Tensor) -> Tensor:
    """One number draws a token by inverting the cumulative distribution, summed in float64.

    It finds a block of tokens by the blocks' sums, then the token within: the rest is not added up token by token.
    """
    vocabulary = probabilities.shape[1]
    if vocabulary <= BLOCK:
        weights = probabilities.double()
        return _find(weights, noise * weights.sum(-1))[0]
    whole = vocabulary // BLOCK
    head, tail = probabilities[:, : whole * BLOCK], probabilities[:, whole * BLOCK :]
    sums = head.unflatten(1, (whole, BLOCK)).sum(-1, dtype=torch.float64)
    sums = torch.cat([sums, tail.sum(-1, keepdim=True, dtype=torch.float64)], 1)
    block, left = _find(sums, noise * sums.sum(-1))
    columns = block[:, None] * BLOCK + torch.arange(BLOCK, device=noise.device)
    within = probabilities.gather(1, columns.clamp(max=vocabulary - 1)).double()
    place, _ = _find(within.masked_fill(columns >= vocabulary, 0), left)
    return block * BLOCK + place


def _find(weights: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Where `target` [b] falls as `weights` [b, n] are laid end to end, and how far behind the start of that one."""
    ends = weights.cumsum(-1)
    # Rounding must not carry the target beyond the last end or before 0, where tokens of probability 0 may lie.
    target = torch.minimum(target.clamp(min=0), torch.nextafter(ends[:, -1], torch.zeros_like(target)))
    found = torch.searchsorted(ends, target[:, None], right=True)
    return found[:, 0], target - (ends - weights).gather(1, found)[:, 0]
