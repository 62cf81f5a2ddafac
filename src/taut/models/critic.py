"""The critic: a backbone of its own with a value head."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from taut.models.policy import Policy, hidden_before_replies
from taut.models.sequences import Sequences


class Critic(nn.Module):
    """Predicts, at every reply token, the return from there on.

    The head starts at zero: until the critic has learned something, advantages are those of a run without one.
    """

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone.eval()
        self.head = nn.Linear(backbone.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def from_policy(cls, policy: Policy) -> Critic:
        """A critic whose backbone is a copy of the policy's."""
        return cls(copy.deepcopy(policy.backbone)).to(next(policy.parameters()).device)

    def forward(self, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Values [b, T], read where the logits that sampled each token are, and values [b] at the last token."""
        hidden = self.backbone(input_ids=sequences.input_ids, use_cache=False).last_hidden_state
        mask = sequences.reply_mask
        before = self.head(hidden_before_replies(hidden, sequences)).squeeze(-1).float()
        values = torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, before)
        last = sequences.prompt_lengths + sequences.reply_lengths - 1
        at_end = hidden[torch.arange(len(last), device=last.device), last]
        return values, self.head(at_end).squeeze(-1).float()
