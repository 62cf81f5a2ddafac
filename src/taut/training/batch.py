"""From scored replies to the [B, T] tensors of a batch, and from a batch to the rows of one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from taut.models.sequences import Sequences, pad_ids, pad_sequences
from taut.types import Batch, Rollout, Rows, Score


def collate(rollouts: Sequence[Rollout], scores: Sequence[Score]) -> Batch:
    """Lays the replies out right-padded, on the CPU. Every sampled token of a reply with a reward is trained on."""
    lengths = torch.tensor([len(rollout.ids) for rollout in rollouts])
    reply_ids = pad_ids([rollout.ids for rollout in rollouts], "cpu")
    real = torch.arange(reply_ids.shape[1]) < lengths[:, None]
    behavior = torch.zeros(reply_ids.shape)
    behavior[real] = torch.cat([torch.as_tensor(rollout.behavior_logprobs) for rollout in rollouts])
    sampled = real.clone()
    for row, rollout in zip(sampled, rollouts, strict=True):
        if rollout.sampled is not None:
            row[: len(rollout.ids)] = torch.as_tensor(rollout.sampled)
    numbers: dict[int, int] = {}
    groups = [numbers.setdefault(rollout.prompt.index, len(numbers)) for rollout in rollouts]
    return Batch(
        rollouts=rollouts,
        scores=scores,
        reply_ids=reply_ids,
        reply_lengths=lengths,
        sampled=sampled,
        response_mask=sampled & torch.tensor([score.scored for score in scores])[:, None],
        behavior_logprobs=behavior,
        rewards=torch.tensor([score.reward for score in scores]),
        groups=torch.tensor(groups),
        truncated=torch.tensor([rollout.truncated for rollout in rollouts]),
    )


def sequence_lengths(batch: Batch) -> list[int]:
    """[B] tokens of prompt and reply together."""
    return [len(rollout.prompt.ids) + len(rollout.ids) for rollout in batch.rollouts]


def sequences_of(
    batch: Batch, rows: Rows, device: str, shared: Sequence[int] | None = None, ends: bool = True
) -> Sequences:
    """What the model is fed for these rows, padded to the longest of them alone; `shared` and `ends` as there."""
    layout = tuple(rows), device, None if shared is None else tuple(shared), ends
    if layout not in batch.layouts:
        batch.layouts[layout] = _lay_out(batch, rows, device, shared, ends)
    return batch.layouts[layout]


def _lay_out(batch: Batch, rows: Rows, device: str, shared: Sequence[int] | None, ends: bool) -> Sequences:
    chosen = [batch.rollouts[row] for row in rows]
    sampled = batch.sampled[rows, : max(len(r.ids) for r in chosen)].to(device)
    prompts, replies = [r.prompt.ids for r in chosen], [r.ids for r in chosen]
    return pad_sequences(prompts, replies, device, sampled, shared, ends)


def pad_width(x: Tensor, width: int) -> Tensor:
    """[b, T'] -> [b, width], zeros on the right."""
    return F.pad(x, (0, width - x.shape[1]))


@dataclass(frozen=True)
class Part:
    """The batch's tensors at b rows, on the learner's device; each is [b, T] or None."""

    mask: Tensor
    behavior_logprobs: Tensor
    advantages: Tensor
    ref_logprobs: Tensor | None
    values: Tensor | None
    returns: Tensor | None


def part_of(batch: Batch, rows: Rows, device: str) -> Part:
    def take(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[rows].to(device)

    assert batch.advantages is not None, "advantages come before the update"
    return Part(
        mask=batch.response_mask[rows].to(device),
        behavior_logprobs=batch.behavior_logprobs[rows].to(device),
        advantages=batch.advantages[rows].to(device),
        ref_logprobs=take(batch.ref_logprobs),
        values=take(batch.values),
        returns=take(batch.returns),
    )
