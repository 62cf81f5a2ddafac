"""Supervised fine-tuning: cross-entropy on the completion's tokens only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taut.config import OptimizerConfig
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences
from taut.training.micro_batch import micro_batches
from taut.training.supervised import add_gradient, minimize


@dataclass(frozen=True)
class Example:
    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    """With the end-of-sequence id, where the model is to learn to stop."""


def fine_tune(
    policy: Policy,
    draw: Callable[[int], Sequence[Example]],
    steps: int,
    optimizer_config: OptimizerConfig,
    micro_batch_tokens: int,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Minimises the mean over all completion tokens of a batch of -log π(token) at temperature 1.

    `draw(step)` gives the examples of a step (from 1), `on_step(step, loss)` hears of it.
    Raises NonFiniteError before the weights are touched where a loss or gradient is not finite.
    """
    minimize(
        policy.trained_parameters(),
        lambda step: {"loss": accumulate_cross_entropy(policy, draw(step), micro_batch_tokens)},
        steps,
        optimizer_config,
        lambda step, metrics: on_step(step, metrics["loss"]),
    )


def accumulate_cross_entropy(policy: Policy, examples: Sequence[Example], micro_batch_tokens: int) -> float:
    """Adds the gradient of the token mean over all examples, however they are cut. Returns that mean."""
    device = str(next(policy.parameters()).device)
    tokens = sum(len(example.completion_ids) for example in examples)
    lengths = [len(example.prompt_ids) + len(example.completion_ids) for example in examples]
    total = 0.0
    for rows in micro_batches(list(range(len(examples))), lengths, micro_batch_tokens):
        sequences = pad_sequences(
            [examples[row].prompt_ids for row in rows], [examples[row].completion_ids for row in rows], device
        )
        logprobs, _ = policy(sequences, temperature=1.0)
        total += add_gradient(-logprobs.sum() / tokens, "fine-tuning")
    return total
