"""From next-token logits to a token and its logprob under the distribution that drew it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


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
    """Tokens [b] and their logprobs [b] float32, from logits [b, V] and uniform noise [b] in [0, 1).

    One number draws a token by inverting the cumulative distribution, summed in float64.
    """
    log_p = truncate_logits(logits / sampling.temperature, sampling).log_softmax(-1)
    if sampling.greedy:
        tokens = log_p.argmax(-1)
    else:
        cumulative = log_p.double().exp().cumsum(-1)
        total = cumulative[:, -1]
        # Rounding must not carry the noise to the end of the line, where tokens of probability 0 may lie.
        noise = torch.minimum(noise * total, torch.nextafter(total, torch.zeros_like(total)))
        tokens = torch.searchsorted(cumulative, noise[:, None], right=True)[:, 0]
    return tokens, log_p.gather(-1, tokens[:, None])[:, 0]
