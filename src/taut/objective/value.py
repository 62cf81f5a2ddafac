"""The critic's loss, how much it explains, and the running scale of its targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from taut.objective.reduce import masked, masked_mean, masked_var


@dataclass(frozen=True)
class ValueLoss:
    loss: Tensor
    """[B, T], with the ½, not reduced, 0 where masked."""
    clipped: Tensor
    """[B, T] bool: held by the clip, so without gradient."""


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float | None = None
) -> ValueLoss:
    """½ max((V - R)², (V_clip - R)²), V_clip = V_old + clamp(V - V_old, ±clip); ½ (V - R)² without a clip.

    All [B, T], in units of reward (squared). As in the code of 1707.06347. `clipped` is where the second term
    is the larger; the comparison that says so is the one the gradient follows. Raises ValueError for a
    negative clip.
    """
    values = masked(values, mask)
    old_values, returns = masked(old_values.detach(), mask), masked(returns.detach(), mask)
    error = (values - returns).square()
    if clip is None:
        return ValueLoss(error / 2, torch.zeros_like(mask))
    if not clip >= 0:
        raise ValueError(f"the value clip is a distance and cannot be negative, got {clip}")
    moved = values.detach() - old_values
    held = (old_values + moved.clamp(-clip, clip) - returns).square()
    clipped = (moved.abs() > clip) & (held > error.detach())
    return ValueLoss(torch.where(clipped, held, error) / 2, clipped)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float | None:
    """1 - Var(R - V) / Var(R) over the trained tokens: 1 is perfect, 0 as good as a constant, below 0 worse.

    None where the returns do not vary: there is nothing to explain.
    """
    var = masked_var(returns, mask)
    residual = masked_var(returns - values, mask)
    return None if not var or residual is None else 1 - residual / var


class ValueNormalizer:
    """Running mean and std of the returns: the critic learns targets of unit scale (PopArt, 1602.07714).

    Moments are exponential averages over updates, debiased: the first update counts in full. Before it the
    mean is 0 and the std 1. The std is kept above `min_std`, so that returns which hardly vary yet are not
    blown up.
    """

    def __init__(self, decay: float = 0.99, min_std: float = 1e-2) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {decay}")
        self.decay, self.min_std = decay, min_std
        self._sum = self._square_sum = self._weight = 0.0

    @property
    def started(self) -> bool:
        """Whether an update has given it a scale."""
        return self._weight > 0

    @property
    def mean(self) -> float:
        return self._sum / self._weight if self._weight else 0.0

    @property
    def std(self) -> float:
        if not self._weight:
            return 1.0
        return max(self._square_sum / self._weight - self.mean**2, self.min_std**2) ** 0.5

    def update(self, returns: Tensor, mask: Tensor, head: nn.Linear | None = None) -> None:
        """Take in a batch of returns [B, T]; an empty mask changes nothing.

        Give the critic's `head` (H to 1) to rescale it in the same breath: w σ/σ', (σ b + μ - μ')/σ', so that
        its denormalised output stays what it was. The first update leaves the head alone: before it no output
        had a scale, and one that starts at 0 then predicts the mean.
        """
        mean = masked_mean(returns, mask)
        if mean is None:
            return
        spread = masked_mean((returns - mean).square(), mask) or 0.0
        old_mean, old_std, first = self.mean, self.std, not self.started
        self._sum = self.decay * self._sum + (1 - self.decay) * mean
        self._square_sum = self.decay * self._square_sum + (1 - self.decay) * (spread + mean**2)
        self._weight = self.decay * self._weight + (1 - self.decay)
        if head is not None and not first:
            self.rescale_head(head, old_mean, old_std)

    @torch.no_grad()
    def rescale_head(self, head: nn.Linear, old_mean: float, old_std: float) -> None:
        """Move `head` from the scale (old_mean, old_std) to the present one; its denormalised output stays.

        Raises ValueError for a head without a bias, which cannot follow a mean.
        """
        if head.bias is None:
            raise ValueError("value normalisation needs a value head with a bias")
        head.weight.mul_(old_std / self.std)
        head.bias.mul_(old_std).add_(old_mean - self.mean).div_(self.std)

    def normalize(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std

    def denormalize(self, x: Tensor) -> Tensor:
        return x * self.std + self.mean

    def state_dict(self) -> dict[str, float]:
        return {"sum": self._sum, "square_sum": self._square_sum, "weight": self._weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._sum, self._square_sum, self._weight = state["sum"], state["square_sum"], state["weight"]
