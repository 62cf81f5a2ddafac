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
        ctx.settings = temperature, softcap, logit_scale, chunk_tokens
        logprobs = hidden.new_empty(len(hidden), dtype=_wide(hidden.dtype))
        entropy = torch.empty_like(logprobs)
        weight = weight.to(hidden.dtype)
        for rows in _chunks(len(hidden), chunk_tokens):
            logits = logits_from_hidden(hidden[rows], weight, bias, softcap, logit_scale)
            log_p = (logits / temperature).log_softmax(-1)
            logprobs[rows] = log_p.gather(-1, targets[rows, None])[:, 0]
            entropy[rows] = torch.special.entr(log_p.exp()).sum(-1)  # entr(p) = -p log p, and 0 at p = 0
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor, grad_entropy: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        temperature, softcap, logit_scale, chunk_tokens = ctx.settings
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        # Summed over chunks in float32: a bf16 sum would lose the later chunks' small terms.
        grad_weight = torch.zeros_like(weight, dtype=_wide(weight.dtype)) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=_wide(bias.dtype)) if needs_bias else None
        head = weight.to(hidden.dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in _chunks(len(hidden), chunk_tokens):
                logits = logits_from_hidden(hidden[rows], head, bias, softcap, logit_scale)
                grad = _grad_logits(
                    logits / temperature, targets[rows], grad_logprobs[rows], grad_entropy[rows]
                )
                grad *= logit_scale / temperature
                if softcap is not None:
                    grad *= 1 - (logits / softcap).square()
                if grad_bias is not None:
                    grad_bias += grad.sum(0)
                grad = grad.to(hidden.dtype)
                if grad_hidden is not None:
                    grad_hidden[rows] = grad @ head
                if grad_weight is not None:
                    grad_weight += grad.T @ hidden[rows]
        return grad_hidden, grad_weight, grad_bias, None, None, None, None, None


def _grad_logits(z: Tensor, targets: Tensor, grad_logprobs: Tensor, grad_entropy: Tensor) -> Tensor:
    p = z.softmax(-1)
    plogp = torch.special.entr(p)  # -p log p, without the 0 · -inf of a dead token
    grad = (plogp - p * plogp.sum(-1, keepdim=True)) * grad_entropy[:, None]
    grad -= p * grad_logprobs[:, None]
    return grad.scatter_add_(-1, targets[:, None], grad_logprobs[:, None])


def _chunks(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
