"""Prompt + reply as the model is fed: right-padded, so that under a causal mask no real token ever sees a pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PAD_ID = 0
"""Any valid id does: pads are never attended to and never read."""


@dataclass(frozen=True)
class Sequences:
    """b sequences of at most L tokens, whose replies have at most T tokens."""

    input_ids: Tensor  # [b, L] int64
    prompt_lengths: Tensor  # [b] int64
    reply_lengths: Tensor  # [b] int64
    reply_ids: Tensor  # [b, T] int64
    reply_mask: Tensor  # [b, T] bool, true where a reply's token has a logprob and a value


def pad_sequences(
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    device: str,
    reply_mask: Tensor | None = None,
) -> Sequences:
    """Lays out b prompts, each of one token or more, and their replies.

    Without `reply_mask` every token of a reply is in it. The last one always is.
    """
    prompt_lengths, reply_lengths = [len(p) for p in prompts], [len(r) for r in replies]
    assert min(prompt_lengths) > 0, (
        "a prompt holds at least one token: its logits sample the first reply token"
    )
    lengths = torch.tensor(reply_lengths, device=device)
    if reply_mask is None:
        reply_mask = torch.arange(max(reply_lengths), device=device) < lengths[:, None]
    return Sequences(
        input_ids=pad_ids([[*p, *r] for p, r in zip(prompts, replies, strict=True)], device),
        prompt_lengths=torch.tensor(prompt_lengths, device=device),
        reply_lengths=lengths,
        reply_ids=pad_ids(replies, device),
        reply_mask=reply_mask,
    )


def pad_ids(rows: Sequence[Sequence[int]], device: str) -> Tensor:
    """[b, longest] int64, right-padded."""
    width = max(len(row) for row in rows)
    padded = [[*row, *[PAD_ID] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)
