"""From [B, T] tokens to one number: the gate that keeps pads inert, normalisation, statistics, whitening."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Normalization = Literal["token", "sequence", "constant"]


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """`x` where `mask`, else 0: the one gate through which every [B, T] input passes.

    A product with the mask would not do: NaN · 0 is NaN, in the value and in the gradient. For the gradient
    it must come before the arithmetic, not after it.
    """
    return torch.where(mask, x, 0)


def masked_mean(x: Tensor, mask: Tensor) -> float | None:
    """Mean of `x` over the mask, in float64; None if the mask is empty. Any shape; carries no gradient."""
    selected = _selected(x, mask)
    return selected.mean().item() if len(selected) else None


def masked_var(x: Tensor, mask: Tensor) -> float | None:
    """Sample variance (n - 1) of `x` over the mask, in float64; None with fewer than two values.

    Equal values give exactly 0, whatever the rounding of their mean.
    """
    selected = _selected(x, mask)
    if len(selected) < 2:
        return None
    return 0.0 if bool((selected == selected[0]).all()) else selected.var().item()


def masked_quantile(x: Tensor, mask: Tensor, q: float) -> float | None:
    """The q-quantile of `x` over the mask, linear between neighbours (as NumPy's default); None if empty.

    By selection, since `torch.quantile` refuses more than 16 million values and a batch can hold more.
    Raises ValueError unless 0 <= q <= 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, got {q}")
    selected = x.detach()[mask]
    if not len(selected):
        return None
    position = q * (len(selected) - 1)
    below = int(position)
    low = selected.kthvalue(below + 1).values.item()
    if position == below:
        return low
    high = selected.kthvalue(below + 2).values.item()
    return low if low == high else low + (position - below) * (high - low)


def denominator(mask: Tensor, normalization: Normalization, constant_length: int | None = None) -> int:
    """What a minibatch's summed loss is divided by: a global count, taken before any forward pass.

    token      trained tokens: every token weighs the same (DAPO, 2503.14476)
    sequence   replies: the mean over a reply's tokens, then over replies (GRPO, 2402.03300)
    constant   replies × `constant_length`: a reply's length changes no token's weight (Dr.GRPO, 2503.20783)

    Only replies with a trained token count, so filler rows and excluded replies are inert, and 0 means the
    same under all three: nothing trains. Over ranks, the global count is the sum of the ranks' counts. Raises
    ValueError if `constant` comes without a positive `constant_length`.
    """
    if normalization == "token":
        return int(mask.sum())
    replies = int(mask.any(-1).sum())
    if normalization == "sequence":
        return replies
    if constant_length is None or constant_length < 1:
        raise ValueError(f"constant normalization needs a positive constant_length, got {constant_length}")
    return replies * constant_length


def reduce_loss(token_loss: Tensor, mask: Tensor, normalization: Normalization, denominator: float) -> Tensor:
    """The share of the minibatch's loss that these rows make, a scalar.

    token, constant   Σ_bt loss / denominator
    sequence          Σ_b (Σ_t loss / reply's trained tokens) / denominator

    `token_loss` and `mask` [B, T] may be any rows of the minibatch: with the global `denominator` the sum
    over the slices is the whole, in loss and in gradient. Where nothing trains it is 0, with zero gradient.
    """
    total = masked(token_loss, mask)
    if normalization == "sequence":
        total = total.sum(-1) / mask.sum(-1).clamp(min=1)
    return total.sum() / max(denominator, 1)


def whiten(x: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """(x - μ) / √(σ² + 1e-8) over the mask, with μ added back unless `shift_mean`; 0 where masked.

    σ² is the sample variance, as in TRL. The 1e-8 is there to keep rounding noise from being blown up to
    unit size. Equal values, or a single one, have no spread to divide by: they become 0, or stay as they are
    where the mean is kept.
    """
    mean, var = masked_mean(x, mask), masked_var(x, mask)
    x = masked(x.detach(), mask)
    if mean is None or not var:
        return torch.zeros_like(x) if shift_mean else x
    white = (x - mean) / (var + 1e-8) ** 0.5
    return masked(white if shift_mean else white + mean, mask)


def _selected(x: Tensor, mask: Tensor) -> Tensor:
    # By way of the CPU: not every accelerator has float64.
    return x.detach()[mask].cpu().double()
