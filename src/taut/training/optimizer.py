"""AdamW, its learning-rate schedule, and the step that refuses numbers that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from taut.config import OptimizerConfig
from taut.training.non_finite import NonFiniteError


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig, learning_rate: float
) -> torch.optim.AdamW:
    first, second = config.betas
    # Fused: one pass over each parameter and its moments, where torch's default on a CPU makes twelve.
    return torch.optim.AdamW(
        parameters, lr=learning_rate, betas=(first, second), weight_decay=config.weight_decay, fused=True
    )


def learning_rate_factor(step: int, steps: int, config: OptimizerConfig) -> float:
    """The share of the learning rate at `step` (from 1) of `steps`.

    It rises linearly over `warmup_steps`, the first of them being 1/warmup_steps, and then stays, or falls along a
    line or half a cosine that would reach 0 one step after the last.
    """
    if step <= config.warmup_steps:
        return step / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    progress = (step - 1 - config.warmup_steps) / max(1, steps - config.warmup_steps)
    return 1.0 - progress if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float | None) -> float:
    """Scales gradients down to `max_norm` where they exceed it. Returns their norm before that.

    Raises NonFiniteError where the norm is not finite.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if not torch.isfinite(norm):
        raise NonFiniteError(f"the gradient's norm is {norm.item()}")
    if max_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm.item()
