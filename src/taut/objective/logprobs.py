"""Token logprobs and entropy from hidden states and the LM head, without ever holding all the logits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 64 * 2**20
"""What one chunk's float32 logits may take. A handful of such tensors live at once."""


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    softcap: float | None = None,
    logit_scale: float = 1.0,
    chunk_tokens: int | None = None,
) -> tuple[Tensor, Tensor]:
    """log p(target) and the entropy of p, where p = softmax(logits / temperature); both [N], differentiable.

    hidden [N, H], weight [V, H], bias [V], targets [N] int64; logits as in `logits_from_hidden`. The work
    goes in chunks of `chunk_tokens` tokens (None: as many as CHUNK_BYTES holds) and is done again in the
    backward pass, so no [N, V] tensor exists in either direction. Gradients reach hidden, weight and bias
    through both results. Results are in nats, float32 (float64 from float64), whatever the compute type. A
    token whose logit is -inf has probability 0 and adds 0 to the entropy. Hidden states must be of real
    tokens: a NaN among them reaches the head's gradient. Raises ValueError for a temperature that is not
    positive (greedy decoding has no logprobs) and for a chunk of less than one token.
    """
    if not temperature > 0:
        raise ValueError(f"logprobs need a temperature above 0, got {temperature}")
    if chunk_tokens is None:
        chunk_tokens = max(1, CHUNK_BYTES // (4 * weight.shape[0]))
    if chunk_tokens < 1:
        raise ValueError(f"chunk_tokens must be at least 1, got {chunk_tokens}")
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype == torch.float32:
        # Here, since autocast does not reach into a custom Function's backward.
        hidden = hidden.to(torch.get_autocast_dtype(device))
    logprobs, entropy = _TokenLogprobs.apply(
        hidden, weight, bias, targets, temperature, softcap, logit_scale, chunk_tokens
    )
    return logprobs, entropy


def logits_from_hidden(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    softcap: float | None = None,
    logit_scale: float = 1.0,
) -> Tensor:
    """The LM head, [..., H] to [..., V]: c · tanh(s · (hidden Wᵀ + bias) / c) with softcap c and scale s.

    The product is taken in the type of `hidden`, everything after it in float32 (float64 stays float64). The
    learner and the sampler both come through here: their logprobs differ by no more than the order of sums.
    """
    logits = F.linear(hidden, weight.to(hidden.dtype)).to(_wide(hidden.dtype))
    if bias is not None:
        logits = logits + bias
    if logit_scale != 1.0:
        logits = logits * logit_scale
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


class _TokenLogprobs(torch.autograd.Function):
    """With p = softmax(z) and z = logits / temperature:

    ∂ log p(a) / ∂z_j = [j = a] - p_j        ∂H / ∂z_j = -p_j (log p_j + H)
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        softcap: float | None,
        logit_scale: float,
        chunk_tokens: int,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.set_materialize_grads(False)  # the entropy is mostly measured, not trained on
        ctx.settings = temperature, softcap, logit_scale, chunk_tokens
        logprobs = hidden.new_empty(len(hidden), dtype=_wide(hidden.dtype))
        entropy = torch.empty_like(logprobs)
        weight = weight.to(hidden.dtype)
        for rows in _chunks(len(hidden), chunk_tokens):
            logits = logits_from_hidden(hidden[rows], weight, bias, softcap, logit_scale)
            log_p = (logits / temperature).log_softmax(-1)
            logprobs[rows] = log_p.gather(-1, targets[rows, None])[:, 0]
            entropy[rows] = -_p_log_p(log_p.exp(), log_p).sum(-1)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        temperature, softcap, logit_scale, chunk_tokens = ctx.settings
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        # Summed over chunks in float32: a bf16 sum would lose the later chunks' small terms.
        grad_weight = torch.zeros_like(weight, dtype=_wide(weight.dtype)) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=_wide(bias.dtype)) if needs_bias else None
        head = weight.to(hidden.dtype)
        for rows in _chunks(len(hidden), chunk_tokens):
            logits = logits_from_hidden(hidden[rows], head, bias, softcap, logit_scale)
            log_p = (logits / temperature).log_softmax(-1)
            grad = _grad_logits(log_p, targets[rows], _rows(grad_logprobs, rows), _rows(grad_entropy, rows))
            grad *= logit_scale / temperature
            if softcap is not None:
                grad *= 1 - (logits / softcap).square()
            if grad_bias is not None:
                grad_bias += grad.sum(0)
            grad = grad.to(hidden.dtype)
            if grad_hidden is not None:
                grad_hidden[rows] = grad @ head
            if grad_weight is not None:
                _add_product(grad_weight, grad.T, hidden[rows])
        return grad_hidden, grad_weight, grad_bias, None, None, None, None, None


def _grad_logits(
    log_p: Tensor, targets: Tensor, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
) -> Tensor:
    p = log_p.exp()
    if grad_entropy is None:
        grad = torch.zeros_like(p)
    else:
        p_log_p = _p_log_p(p, log_p)
        grad = (p * p_log_p.sum(-1, keepdim=True) - p_log_p) * grad_entropy[:, None]
    if grad_logprobs is not None:
        grad -= p * grad_logprobs[:, None]
        grad.scatter_add_(-1, targets[:, None], grad_logprobs[:, None])
    return grad


def _p_log_p(p: Tensor, log_p: Tensor) -> Tensor:
    return p * log_p.clamp(min=torch.finfo(p.dtype).min)  # a dead token's 0 · -inf would be NaN


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if total.dtype == a.dtype:
        total.addmm_(a, b)  # without a second [V, H] tensor
    else:
        total += a @ b


def _rows(x: Tensor | None, rows: slice) -> Tensor | None:
    return None if x is None else x[rows]


def _chunks(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
