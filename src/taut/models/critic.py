"""The critic: a value head on a backbone of its own, or on an adapter of the policy's."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from taut.models.adapter import Adapter
from taut.models.decoder import last_hidden_states
from taut.models.layout import decoder_costs
from taut.models.policy import Policy
from taut.models.sequences import Sequences


class Critic(nn.Module):
    """Predicts, at every reply token, the return from there on.

    The head starts at zero: until the critic has learned something, advantages are those of a run without one.
    It is float32, whatever the backbone is computed in.
    """

    def __init__(self, backbone: Any, adapter: Adapter | None = None, autocast: bool = False) -> None:
        super().__init__()
        self.adapter, self.autocast = adapter, autocast
        self.backbone = backbone.eval()
        self.costs = decoder_costs(self.backbone)
        self.head = nn.Linear(backbone.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def from_policy(cls, policy: Policy) -> Critic:
        """A critic whose backbone is a copy of the policy's, which has no adapter."""
        assert policy.adapter is None
        return cls(copy.deepcopy(policy.backbone), autocast=policy.autocast).to(
            next(policy.parameters()).device
        )

    @classmethod
    def on_base_of(cls, policy: Policy) -> Critic:
        """A critic that is a second adapter on the policy's frozen base: there is one backbone in memory."""
        assert policy.adapter is not None
        adapter = policy.adapter.another("critic")
        return cls(policy.backbone, adapter, policy.autocast).to(next(policy.parameters()).device)

    def trained_parameters(self) -> list[nn.Parameter]:
        if self.adapter is not None:
            return [*self.adapter.parameters(), *self.head.parameters()]
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def forward(self, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Values [b, T], read where the logits that sampled each token are, and values [b] at the last token.

        0 where `reply_mask` is false.
        """
        inputs = sequences.inputs()
        hidden = last_hidden_states(
            self.backbone, self.adapter, self.autocast, **inputs, use_cache=False
        ).float()
        mask = sequences.reply_mask
        before = self.head(hidden[sequences.before()]).squeeze(-1)
        values = torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, before)
        return values, self.head(hidden[sequences.ends()]).squeeze(-1)
