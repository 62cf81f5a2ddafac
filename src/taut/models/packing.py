"""Replies to one prompt in one row, behind the prompt: it is computed once, forward and backward, for all of them.

A row is [prompt, reply, reply, ...]. A reply's tokens attend to the prompt and to their own reply up to themselves, and
have the positions they would have behind the prompt alone, so that what is computed is the same: to 1e-5 in float32,
where only the order of sums differs. A row's last tokens predict nothing that was sampled, and are left out where
`ends` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """b replies in r rows of at most L tokens."""

    position_ids: Tensor  # [r, L] int64
    members: Tensor  # [r, L] int64: 0 for the prompt, n for a row's n-th reply, -1 for a pad
    rows: Tensor  # [b] int64, the row that a reply is in
    starts: Tensor  # [b] int64, where in its row its first token stands

    def attention(self) -> Tensor:
        """[r, 1, L, L] bool, true where a token attends. Made anew for each pass: it is the largest thing here.

        A pad attends to itself alone, since a softmax over nothing is NaN.
        """
        width = self.members.shape[1]
        asks, asked = self.members[:, :, None], self.members[:, None, :]
        causal = torch.ones(width, width, dtype=torch.bool, device=self.members.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=self.members.device)
        seen = ((asked == 0) | (asks == asked)) & causal & (asks >= 0) & (asked >= 0)
        return (seen | itself)[:, None]


def pack(
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    shared: Sequence[int],
    device: str,
    ends: bool,
) -> tuple[list[list[int]], Packing]:
    """The rows' ids, unpadded, and how to read them; each row holds the next so many replies as `shared` says.

    Without `ends` each reply's last token is left out.
    """
    ids: list[list[int]] = []
    positions: list[list[int]] = []
    members: list[list[int]] = []
    row_of, starts = [0] * len(replies), [0] * len(replies)
    first = 0
    for number, size in enumerate(shared):
        prompt = list(prompts[first])
        own, places, belongs = prompt, list(range(len(prompt))), [0] * len(prompt)
        for member, reply in enumerate(range(first, first + size), 1):
            fed = list(replies[reply] if ends else replies[reply][:-1])
            row_of[reply], starts[reply] = number, len(own)
            own = [*own, *fed]
            places += range(len(prompt), len(prompt) + len(fed))
            belongs += [member] * len(fed)
        first += size
        ids.append(own)
        positions.append(places)
        members.append(belongs)
    width = max(len(row) for row in ids)
    padded = torch.tensor([[*row, *[0] * (width - len(row))] for row in positions], device=device)
    belonging = torch.tensor([[*row, *[-1] * (width - len(row))] for row in members], device=device)
    return ids, Packing(
        padded,
        belonging,
        torch.tensor(row_of, device=device),
        torch.tensor(starts, device=device),
    )
