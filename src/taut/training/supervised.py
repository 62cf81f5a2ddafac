"""What learning from examples shares: batches drawn pass after pass, and the loop over optimiser steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from taut.config import OptimizerConfig
from taut.training.non_finite import NonFiniteError
from taut.training.optimizer import (
    clip_gradients,
    learning_rate_factor,
    make_optimizer,
    set_learning_rate,
)

Drawn = TypeVar("Drawn")
OnStep = Callable[[int, Mapping[str, float]], None]
"""Hears of each step, from 1, and its metrics, `loss` among them."""


def minimize(
    parameters: Sequence[nn.Parameter],
    accumulate: Callable[[int], Mapping[str, float]],
    steps: int,
    config: OptimizerConfig,
    on_step: OnStep,
) -> None:
    """`accumulate(step)` adds a batch's gradient and gives its metrics; after each, one step of AdamW.

    Raises NonFiniteError before the weights are touched where a gradient is not finite.
    """
    optimizer = make_optimizer(parameters, config, config.learning_rate)
    for step in range(1, steps + 1):
        set_learning_rate(optimizer, config.learning_rate * learning_rate_factor(step, steps, config))
        metrics = accumulate(step)
        clip_gradients(parameters, config.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        on_step(step, metrics)


def add_gradient(loss: Tensor, what: str) -> float:
    """Runs the backward pass and gives the loss. Raises NonFiniteError before it where the loss is not finite."""
    if not torch.isfinite(loss):
        raise NonFiniteError(f"the {what} loss is {loss.item()}")
    loss.backward()
    return loss.item()


def draw_from(examples: Sequence[Drawn], batch_size: int, seed: int) -> Callable[[int], list[Drawn]]:
    """Batches of the examples, pass after pass, each shuffled anew; a batch may reach into the next pass."""
    endless = _passes(examples, seed)
    return lambda step: list(itertools.islice(endless, batch_size))


def _passes(examples: Sequence[Drawn], seed: int) -> Iterator[Drawn]:
    for number in itertools.count():
        for index in np.random.default_rng([seed, 2, number]).permutation(len(examples)):
            yield examples[index]
