"""Policies and critics as plain transformers folders; with LoRA they are saved merged, the adapter beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerBase

from taut.models.critic import Critic
from taut.models.four_bit import ordinary_shell
from taut.models.policy import Policy

VALUE_HEAD = "value_head.safetensors"
ADAPTERS = "adapters"


def save_model(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    weights: dict[str, Tensor] | None = None,
) -> None:
    """A plain transformers folder that `AutoModelForCausalLM.from_pretrained` loads; `weights` replace the model's.

    The generation config goes along as it came: many that are shipped contradict themselves, by a temperature
    without sampling for one, and `save_pretrained` would refuse to write them.
    """
    generation = model.generation_config
    try:
        model.generation_config = GenerationConfig()
        model.save_pretrained(folder, state_dict=weights)
    finally:
        model.generation_config = generation
    if generation is not None:
        (folder / "generation_config.json").write_text(generation.to_json_string(), encoding="utf-8")
    tokenizer.save_pretrained(folder)


def save_policy(policy: Policy, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """The policy as one model, with its adapter, if it has one, in `adapters/policy`."""
    if policy.adapter is None:
        return save_model(policy.model, tokenizer, folder)
    policy.adapter.save(folder / ADAPTERS)
    weights = policy.adapter.merged_weights(policy.model)
    return save_model(ordinary_shell(policy.model), tokenizer, folder, weights)


def save_critic(critic: Critic, folder: Path, mean: float = 0.0, std: float = 1.0) -> None:
    """The backbone as a folder that `AutoModel.from_pretrained` loads, and the head beside it, in units of reward.

    `mean` and `std` are the scale that the critic predicts in.
    """
    weights = None
    if critic.adapter is not None:
        critic.adapter.save(folder / ADAPTERS)
        weights = critic.adapter.merged_weights(critic.backbone)
    ordinary_shell(critic.backbone).save_pretrained(folder, state_dict=weights)
    head = {"weight": critic.head.weight * std, "bias": critic.head.bias * std + mean}
    save_file({name: tensor.detach().contiguous() for name, tensor in head.items()}, folder / VALUE_HEAD)


@torch.no_grad()
def load_value_head(critic: Critic, folder: Path) -> None:
    """Gives the critic the head that `save_critic` wrote to the folder, where there is one."""
    if (folder / VALUE_HEAD).is_file():
        critic.head.load_state_dict(load_file(folder / VALUE_HEAD))
