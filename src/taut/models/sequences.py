"""Prompt + reply as the model is fed: right-padded, so that under a causal mask no real token ever sees a pad.

Or packed: replies to one prompt in one row behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from taut.models.packing import Packing, pack

PAD_ID = 0
"""Any valid id does: pads are never attended to and never read."""


@dataclass(frozen=True)
class Sequences:
    """b sequences of at most L tokens, whose replies have at most T tokens; r = b rows, fewer where packed."""

    input_ids: Tensor  # [r, L] int64
    prompt_lengths: Tensor  # [b] int64
    reply_lengths: Tensor  # [b] int64
    reply_ids: Tensor  # [b, T] int64
    reply_mask: Tensor  # [b, T] bool, true where a reply's token has a logprob and a value
    packing: Packing | None = None

    def inputs(self) -> dict[str, Tensor]:
        """What a decoder takes."""
        if self.packing is None:
            return {"input_ids": self.input_ids}
        packed = {"position_ids": self.packing.position_ids, "attention_mask": self.packing.attention()}
        return {"input_ids": self.input_ids, **packed}

    def before(self) -> tuple[Tensor, Tensor]:
        """Row and column of the states whose logits sampled the N tokens in `reply_mask`, reply by reply; both [N].

        The first token of a reply was sampled at the prompt's last.
        """
        replies, offsets = self.reply_mask.nonzero(as_tuple=True)
        at_prompt = self.prompt_lengths[replies] - 1
        if self.packing is None:
            return replies, at_prompt + offsets
        behind = self.packing.starts[replies] + offsets - 1
        return self.packing.rows[replies], torch.where(offsets == 0, at_prompt, behind)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Row and column of each reply's last token, which a packing without ends has left out; both [b]."""
        if self.packing is not None:
            return self.packing.rows, self.packing.starts + self.reply_lengths - 1
        rows = torch.arange(len(self.reply_lengths), device=self.reply_lengths.device)
        return rows, self.prompt_lengths + self.reply_lengths - 1


def pad_sequences(
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    device: str,
    reply_mask: Tensor | None = None,
    shared: Sequence[int] | None = None,
    ends: bool = True,
) -> Sequences:
    """Lays out b prompts, each of one token or more, and their replies.

    Without `reply_mask` every token of a reply is in it. The last one always is. With `shared` each row holds the next
    so many replies, all to one prompt, and is without their last tokens where `ends` is false.
    """
    prompt_lengths, reply_lengths = [len(p) for p in prompts], [len(r) for r in replies]
    assert min(prompt_lengths) > 0, (
        "a prompt holds at least one token: its logits sample the first reply token"
    )
    lengths = torch.tensor(reply_lengths, device=device)
    if reply_mask is None:
        reply_mask = torch.arange(max(reply_lengths), device=device) < lengths[:, None]
    packing = None
    if shared is None:
        rows = [[*p, *r] for p, r in zip(prompts, replies, strict=True)]
    else:
        rows, packing = pack(prompts, replies, shared, device, ends)
    return Sequences(
        input_ids=pad_ids(rows, device),
        prompt_lengths=torch.tensor(prompt_lengths, device=device),
        reply_lengths=lengths,
        reply_ids=pad_ids(replies, device),
        reply_mask=reply_mask,
        packing=packing,
    )


def pad_ids(rows: Sequence[Sequence[int]], device: str) -> Tensor:
    """[b, longest] int64, right-padded."""
    width = max(len(row) for row in rows)
    padded = [[*row, *[PAD_ID] * (width - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)
