"""One pass of a decoder: its adapter made active, its compute type, layers computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from taut.models.adapter import Adapter


def last_hidden_states(decoder: nn.Module, adapter: Adapter | None, autocast: bool, **inputs: Any) -> Tensor:
    """[b, L, H] from `input_ids` [b, L] and whatever else the decoder takes.

    `autocast` computes in bfloat16 from weights that stay as they are. Where adapters share the decoder, the
    backward pass must end before another adapter's pass begins: what is recomputed then runs the active one.
    """
    mask = inputs.get("attention_mask")
    if mask is not None and mask.dtype == torch.bool:
        # Of a bool one every layer would make numbers of its own, and keep them for the backward pass.
        dtype = torch.bfloat16 if autocast else next(decoder.parameters()).dtype
        inputs["attention_mask"] = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)
    with ready(decoder, adapter, autocast, inputs["input_ids"].device):
        return decoder(**inputs).last_hidden_state


@contextmanager
def ready(
    decoder: nn.Module, adapter: Adapter | None, autocast: bool, device: torch.device
) -> Iterator[None]:
    """For any number of passes. Where they are in bfloat16, each weight is made so once."""
    if adapter is not None:
        adapter.activate()
    for layer in recomputed_layers(decoder):
        layer.training = torch.is_grad_enabled()
    with compute_type(device, autocast):
        yield


def compute_type(device: torch.device, autocast: bool) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=autocast)


def enable_recomputation(model: Any) -> None:
    """Keeps each layer's input alone and computes the rest again in the backward pass (gradient checkpointing).

    transformers does so in train mode only, which also turns dropout on. So the layers alone will be put into it, for
    passes with a gradient; what is inside them stays in eval mode, and the layers' own dropout is set to 0 here.
    Raises ValueError where the family cannot.
    """
    if model.supports_gradient_checkpointing:
        # The second is its name before transformers 5.24.
        enable = (
            getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})
    layers = recomputed_layers(model)
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layers that can be recomputed: set model.gradient_checkpointing to false"
        )
    for layer in layers:
        for name, value in vars(layer).items():
            if "drop" in name and isinstance(value, float):
                setattr(layer, name, 0.0)


def recomputed_layers(model: nn.Module) -> list[nn.Module]:
    return [
        module
        for module in model.modules()
        if isinstance(module, GradientCheckpointingLayer) and module.gradient_checkpointing
    ]
