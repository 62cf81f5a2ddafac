"""What the machine can do at most: float32 products at a model's own shapes, and reading memory.

Both are measured in the run that they are compared with, by the process and with the threads that do the work.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Shape = tuple[int, int]
"""Outputs and inputs of a matrix."""


@dataclass(frozen=True)
class Matrices:
    """A causal language model as the products that a token takes."""

    body: Counter[Shape]
    """How often the layers hold a matrix of each shape."""
    head: Shape
    attention: int
    """Layers × query heads × head width: a token that looks at n others takes 4n times this, in operations."""

    @property
    def body_weights(self) -> int:
        return sum(count * rows * columns for (rows, columns), count in self.body.items())

    @property
    def head_weights(self) -> int:
        return self.head[0] * self.head[1]


def matrices_of(model: Any) -> Matrices:
    """Of a transformers model; GPT-2's transposed matrices count as what they multiply."""
    text = model.config.get_text_config()
    head = model.get_output_embeddings().weight.shape
    body: Counter[Shape] = Counter()
    for module in model.base_model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding):
            transposed = type(module).__name__ == "Conv1D"
            body[tuple(weight.shape[::-1] if transposed else weight.shape)] += 1
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    attention = text.num_hidden_layers * text.num_attention_heads * width
    return Matrices(body, (head[0], head[1]), attention)


def pass_operations(
    matrices: Matrices, prompts: int, prompt_tokens: int, replies: int, reply_tokens: int
) -> int:
    """Operations of one forward pass that computes each needed token once; a backward pass takes twice as many.

    `prompts` prompts of `prompt_tokens` tokens, each with `replies` replies of `reply_tokens`. A weight takes two
    operations for a token. A prompt goes through the layers once for all its replies, a reply without its last
    token, which predicts nothing; the head sees the positions that predict a reply's token. A token looks at
    itself and at what precedes it: 4 operations for each channel of each head. Norms, rotations, softmax,
    activations and recomputed logits count as nothing.
    """
    fed = reply_tokens - 1
    through_layers = prompts * (prompt_tokens + replies * fed)
    at_head = prompts * replies * reply_tokens
    looked_at = prompts * (
        prompt_tokens * (prompt_tokens + 1) // 2 + replies * (fed * prompt_tokens + fed * (fed + 1) // 2)
    )
    products = 2 * (matrices.body_weights * through_layers + matrices.head_weights * at_head)
    return products + 4 * matrices.attention * looked_at


def update_operations(forward: int, epochs: int) -> int:
    """Of `epochs` optimiser steps: a forward pass and a backward pass of twice its operations each."""
    return 3 * epochs * forward


def gemm_rate(matrices: Matrices, tokens: int, head_tokens: int, repeats: int = 5) -> float:
    """Float32 operations a second of the products of one optimiser step, each matrix as often as the model has it.

    Forward x Wᵀ, and backward g W and gᵀ x, at `tokens` rows in the layers and `head_tokens` at the head. The
    median of `repeats` is taken for each product.
    """
    operations, seconds = 0, 0.0
    for (outputs, inputs), count in [*matrices.body.items(), (matrices.head, 1)]:
        rows = head_tokens if (outputs, inputs) == matrices.head else tokens
        x, weight, gradient = (
            torch.randn(shape) for shape in ((rows, inputs), (outputs, inputs), (rows, outputs))
        )
        products: list[Callable[[], Tensor]] = [
            lambda x=x, weight=weight: x @ weight.T,
            lambda gradient=gradient, weight=weight: gradient @ weight,
            lambda gradient=gradient, x=x: gradient.T @ x,
        ]
        seconds += count * sum(median_seconds(product, repeats) for product in products)
        operations += count * 3 * 2 * rows * outputs * inputs
    return operations / seconds


def read_bandwidth(megabytes: int = 512, repeats: int = 5) -> float:
    """Bytes a second: the quicker of adding up a float32 array and of multiplying a matrix by a vector."""
    columns = 1024
    x = torch.ones(megabytes * 2**20 // 4 // columns, columns)
    vector = torch.ones(columns)
    seconds = min(median_seconds(x.sum, repeats), median_seconds(lambda: x @ vector, repeats))
    return x.numel() * 4 / seconds


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """Of `repeats` calls after one that doesn't count, each until a GPU that is in use is through."""
    taken = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        work()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])
