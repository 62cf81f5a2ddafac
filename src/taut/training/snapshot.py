"""A learner's state: copied, so that a thread may write it while training goes on, and taken up again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from taut.config import ModelConfig
from taut.models.critic import Critic
from taut.models.load import load_backbone, load_model
from taut.models.policy import Policy
from taut.models.save import save_critic, save_policy
from taut.objective.value import ValueNormalizer

CRITIC = "critic"
STATE = Path("training/learner.pt")
"""What the models' folders do not give back: adapters, the head as the critic predicts, moments of the optimisers."""


@dataclass(frozen=True)
class Learned:
    """All that training changes in a learner. Its tensors are the learner's own, unless it is a `copied` one."""

    policy: Policy
    critic: Critic | None
    normalizer: ValueNormalizer | None
    optimizers: Mapping[str, torch.optim.Optimizer]
    """Of `policy` and, where there is one, `critic`."""
    tokenizer: PreTrainedTokenizerBase

    def copied(self) -> LearnedCopy:
        """In main memory; weights that are not trained are shared with the learner."""
        moments = {name: optimizer.state_dict()["state"] for name, optimizer in self.optimizers.items()}
        copies = _copies_of_weights([self.policy, self.critic] if self.critic else [self.policy])
        for of_parameter in (state for states in moments.values() for state in states.values()):
            copies |= {id(t): t.to("cpu", copy=True) for t in of_parameter.values() if torch.is_tensor(t)}
        # deepcopy takes from its memo whatever is in there already.
        policy, critic, normalizer, moments = copy.deepcopy(
            (self.policy, self.critic, self.normalizer, moments), copies
        )
        return LearnedCopy(policy, critic, normalizer, moments, self.tokenizer)

    @torch.no_grad()
    def restore(self, folder: Path, config: ModelConfig) -> None:
        """Takes over what `LearnedCopy.write` wrote. A critic that had none there stays as it is."""
        kept = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        remote = config.trust_remote_code
        if self.policy.adapter is None:
            dtype = next(self.policy.parameters()).dtype
            self.policy.model.load_state_dict(
                load_model(str(folder), dtype=dtype, trust_remote_code=remote).state_dict()
            )
        if self.critic is not None and "value_head" in kept:
            if self.critic.adapter is None:
                dtype = next(self.critic.backbone.parameters()).dtype
                backbone = load_backbone(str(folder / CRITIC), dtype, trust_remote_code=remote)
                self.critic.backbone.load_state_dict(backbone.state_dict())
            self.critic.head.load_state_dict(kept["value_head"])
        for name, weights in kept["adapters"].items():
            self._restore_adapter(name, weights)
        if self.normalizer is not None and "normalizer" in kept:
            self.normalizer.load_state_dict(kept["normalizer"])
        for name, optimizer in self.optimizers.items():
            if name in kept["moments"]:
                # Learning rate, betas and weight decay are the config's, never a checkpoint's.
                groups = optimizer.state_dict()["param_groups"]
                optimizer.load_state_dict({"state": kept["moments"][name], "param_groups": groups})

    def _restore_adapter(self, name: str, weights: list[Tensor]) -> None:
        model = self.policy if name == "policy" else self.critic
        if model is not None and model.adapter is not None:
            for parameter, weight in zip(model.adapter.parameters(), weights, strict=True):
                parameter.copy_(weight)


@dataclass(frozen=True)
class LearnedCopy:
    """A learner's state at one moment, which nothing changes any more."""

    policy: Policy
    critic: Critic | None
    normalizer: ValueNormalizer | None
    moments: Mapping[str, Any]
    """Of each optimiser, by the parameters' numbers."""
    tokenizer: PreTrainedTokenizerBase

    def write(self, folder: Path) -> None:
        """The policy as a transformers folder, the critic in `critic` within it, and beside them the rest."""
        save_policy(self.policy, self.tokenizer, folder)
        kept: dict[str, Any] = {"adapters": {}, "moments": self.moments}
        if self.policy.adapter is not None:
            kept["adapters"]["policy"] = _detached(self.policy.adapter.parameters())
        if self.critic is not None:
            scale = self.normalizer or ValueNormalizer()
            save_critic(self.critic, folder / CRITIC, scale.mean, scale.std)
            kept["value_head"] = self.critic.head.state_dict()
            if self.critic.adapter is not None:
                kept["adapters"]["critic"] = _detached(self.critic.adapter.parameters())
        if self.normalizer is not None:
            kept["normalizer"] = self.normalizer.state_dict()
        (folder / STATE).parent.mkdir()
        torch.save(kept, folder / STATE)


def _copies_of_weights(models: list[Policy | Critic]) -> dict[int, Any]:
    """By the id of each parameter: a copy where it is trained, else itself."""
    trained = {id(parameter) for model in models for parameter in model.trained_parameters()}
    return {
        id(parameter): nn.Parameter(parameter.detach().to("cpu", copy=True), parameter.requires_grad)
        if id(parameter) in trained
        else parameter
        for model in models
        for parameter in model.parameters()
    }


def _detached(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.detach() for parameter in parameters]
