"""Where numbers went bad: the reply, the token and the quantity that a message can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from taut.types import Batch, Rows, Trace

Position = tuple[int, int]
"""Reply of the batch, token of the reply."""


class NonFiniteError(ArithmeticError):
    """A loss, gradient or logprob was NaN or infinite. Raised before `optimizer.step()`: the weights are untouched."""


def refuse_halted(trace: Trace) -> None:
    """Raises NonFiniteError where the batch's updates were given up."""
    if trace.halted:
        raise NonFiniteError(trace.halted)


def where_not_finite(batch: Batch, rows: Rows, quantities: Mapping[str, Tensor | None]) -> str:
    """Names the first trained token of `rows` at which one of these [b, T] quantities is not finite; "" if all are."""
    for name, values in quantities.items():
        if values is None:
            continue
        bad = (~torch.isfinite(values.detach()).cpu() & batch.response_mask[rows]).nonzero()
        if len(bad):
            row, token = int(bad[0, 0]), int(bad[0, 1])
            place = describe_position(batch, (rows[row], token))
            return f"the {name} of {place} is {values[row, token].item()}"
    return ""


def describe_position(batch: Batch, position: Position) -> str:
    row, token = position
    prompt = batch.rollouts[row].prompt
    return f"token {token} of reply {row} (prompt {prompt.index}: {prompt.text[-60:]!r})"


def where_gradient_is_not_finite(
    batch: Batch, rows: Rows, model: nn.Module, add_gradient: Callable[[Batch, Rows], object]
) -> str:
    """Names the first parameter without a finite gradient, and the token that alone brings that about.

    The token is searched for by halves: `add_gradient` is called on batches in which ever fewer tokens train.
    Leaves no gradients behind.
    """
    names = [name for name, p in model.named_parameters() if not _finite(p.grad)]
    positions: list[Position] = [
        (row, int(token)) for row in rows for token in batch.response_mask[row].nonzero()[:, 0]
    ]

    def alone(part: list[Position]) -> bool:
        mask = torch.zeros_like(batch.response_mask)
        mask[tuple(zip(*part, strict=True))] = True
        model.zero_grad()
        add_gradient(replace(batch, response_mask=mask), sorted({row for row, _ in part}))
        return not all(_finite(p.grad) for p in model.parameters())

    while len(positions) > 1:
        half = len(positions) // 2
        narrower = next((part for part in (positions[:half], positions[half:]) if alone(part)), None)
        if narrower is None:
            break
        positions = narrower
    model.zero_grad()
    if len(positions) == 1:
        place = describe_position(batch, positions[0])
    else:
        place = f"no single token, but of {len(positions)} of replies {sorted({row for row, _ in positions})} together"
    more = f" and {len(names) - 1} more parameters" if len(names) > 1 else ""
    return f"the gradient of {names[0]}{more} is not finite, by {place}"


def _finite(gradient: Tensor | None) -> bool:
    return gradient is None or bool(torch.isfinite(gradient).all())
