"""Token logprobs and entropy from hidden states and the LM head, without ever holding all the logits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE_BYTES = 16 * 2**20
"""What one tile of float32 logits may take. Two or three such tensors live at once."""
TILE_TOKENS = 4096
"""Most tokens in one tile; the fewer its words, the more often what they add up to is read and written."""
DEAD = -1e4
"""A log probability below which a probability is 0 in float64, too."""


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    softcap: float | None = None,
    logit_scale: float = 1.0,
    tile: tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor]:
    """log p(target) and the entropy of p, where p = softmax(logits / temperature); both [N], differentiable.

    hidden [N, H], weight [V, H], bias [V], targets [N] int64; logits as in `logits_from_hidden`. The work
    goes in tiles of so many tokens and words of the vocabulary (None: as many as TILE_TOKENS and TILE_BYTES
    allow) and is done again in the backward pass, so no [N, V] tensor exists in either direction. Gradients
    reach hidden, weight and bias through both results. Results are in nats, float32 (float64 from float64),
    whatever the compute type. A token whose logit is -inf has probability 0 and adds 0 to the entropy. Hidden
    states must be of real tokens: a NaN among them reaches the head's gradient. Raises ValueError for a
    temperature that is not positive (greedy decoding has no logprobs) and for a tile without a token or word.
    """
    if not temperature > 0:
        raise ValueError(f"logprobs need a temperature above 0, got {temperature}")
    if tile is None:
        tokens = min(TILE_TOKENS, max(1, len(hidden)))
        tile = tokens, max(1, TILE_BYTES // (4 * tokens))
    if min(tile) < 1:
        raise ValueError(f"a tile has at least one token and one word, got {tile}")
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype == torch.float32:
        # Here, since autocast does not reach into a custom Function's backward.
        hidden = hidden.to(torch.get_autocast_dtype(device))
    logprobs, entropy = _TokenLogprobs.apply(
        hidden, weight, bias, targets, temperature, softcap, logit_scale, tile
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

    Tiles run over the words within the tokens: so each row of the head's gradient is one product over many
    tokens, written once, and not a sum over chunks that would be read and written for each.
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
        tile: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)  # the entropy is mostly measured, not trained on
        ctx.settings = temperature, softcap, logit_scale, tile
        logprobs = hidden.new_empty(len(hidden), dtype=_wide(hidden.dtype))
        entropy, log_sums = torch.empty_like(logprobs), torch.empty_like(logprobs)
        head = weight.to(hidden.dtype)
        for rows in _slices(len(hidden), tile[0]):
            seen = _RunningSoftmax(targets[rows], logprobs.dtype)
            for words in _slices(len(weight), tile[1]):
                logits = logits_from_hidden(hidden[rows], head[words], _at(bias, words), softcap, logit_scale)
                seen.add(_over(logits, temperature), words.start)
            logprobs[rows], entropy[rows], log_sums[rows] = seen.results()
        ctx.save_for_backward(hidden, weight, bias, targets, entropy, log_sums)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if grad_logprobs is None and grad_entropy is None:
            return (None,) * 8
        hidden, weight, bias, targets, entropy, log_sums = ctx.saved_tensors
        temperature, softcap, logit_scale, tile = ctx.settings
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        # Summed over tiles in float32: a bf16 sum would lose the later tiles' small terms.
        grad_hidden = torch.zeros_like(hidden, dtype=_wide(hidden.dtype)) if needs_hidden else None
        make = torch.zeros_like if not 0 < len(hidden) <= tile[0] else torch.empty_like
        grad_weight = make(weight, dtype=_wide(weight.dtype)) if needs_weight else None
        grad_bias = torch.zeros_like(bias, dtype=_wide(bias.dtype)) if needs_bias else None
        head = weight.to(hidden.dtype)
        for rows in _slices(len(hidden), tile[0]):
            for words in _slices(len(weight), tile[1]):
                logits = logits_from_hidden(hidden[rows], head[words], _at(bias, words), softcap, logit_scale)
                slope = None if softcap is None else 1 - (logits / softcap).square_()
                log_p = _over(logits, temperature).sub_(log_sums[rows, None])
                grad = _grad_scores(log_p, entropy[rows], _at(grad_logprobs, rows), _at(grad_entropy, rows))
                if grad_logprobs is not None:
                    _add_at(grad, targets[rows] - words.start, grad_logprobs[rows])
                if logit_scale != temperature:
                    grad.mul_(logit_scale / temperature)
                if slope is not None:
                    grad.mul_(slope)
                if grad_bias is not None:
                    grad_bias[words] += grad.sum(0)
                grad = grad.to(hidden.dtype)
                if grad_hidden is not None:
                    _add_product(grad_hidden[rows], grad, head[words])
                if grad_weight is not None:
                    _add_product(grad_weight[words], grad.T, hidden[rows], first=make is torch.empty_like)
        if grad_hidden is not None:
            grad_hidden = grad_hidden.to(hidden.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None, None, None, None


class _RunningSoftmax:
    """Logprob of the target, entropy and log of the sum of n softmaxes, of which ever more words are seen."""

    def __init__(self, targets: Tensor, dtype: torch.dtype) -> None:
        self._targets = targets
        self._top = torch.full(targets.shape, torch.finfo(dtype).min, dtype=dtype, device=targets.device)
        """The largest score so far; all sums are of exp(score - top)."""
        self._total, self._moment = torch.zeros_like(self._top), torch.zeros_like(self._top)
        self._picked = torch.zeros_like(self._top)

    def add(self, scores: Tensor, start: int) -> None:
        """[n, w] of the words from `start` on; overwrites them."""
        place, inside = _places(self._targets - start, scores.shape[1])
        picked = scores.gather(-1, place[:, None])[:, 0]
        self._picked = torch.where(inside, picked, self._picked)
        top = torch.maximum(self._top, scores.amax(-1))
        faded = (self._top - top).clamp_(min=DEAD)
        scores.sub_(top[:, None])
        p = scores.exp()
        self._moment = (self._moment + self._total * faded) * faded.exp()
        self._total = self._total * faded.exp() + p.sum(-1)
        # A dead word's 0 · -inf would be NaN.
        self._moment += p.mul_(scores.clamp_(min=DEAD)).sum(-1)
        self._top = top

    def results(self) -> tuple[Tensor, Tensor, Tensor]:
        log_total = self._total.log()
        logprobs = (self._picked - self._top) - log_total
        return logprobs, log_total - self._moment / self._total, self._top + log_total


def _grad_scores(
    log_p: Tensor, entropy: Tensor, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
) -> Tensor:
    """But for the targets' own part; overwrites `log_p`."""
    if grad_entropy is None:
        assert grad_logprobs is not None
        return log_p.exp_().mul_(-grad_logprobs[:, None])
    p = log_p.exp()
    grad = log_p.clamp_(min=DEAD).add_(entropy[:, None]).mul_(-grad_entropy[:, None])
    if grad_logprobs is not None:
        grad.sub_(grad_logprobs[:, None])
    return grad.mul_(p)


def _places(targets: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """Where in a tile of `words` the targets stand, and which of them are in it."""
    return targets.clamp(0, words - 1), (targets >= 0) & (targets < words)


def _add_at(grad: Tensor, targets: Tensor, amounts: Tensor) -> None:
    place, inside = _places(targets, grad.shape[1])
    grad.scatter_add_(-1, place[:, None], torch.where(inside, amounts, 0)[:, None])


def _add_product(total: Tensor, a: Tensor, b: Tensor, first: bool = False) -> None:
    """total += a @ b, or = where it is the `first`; without a second tensor of that size where the types agree."""
    if total.dtype != a.dtype:
        product = a @ b
        total.copy_(product) if first else total.add_(product)
    elif first:
        torch.mm(a, b, out=total)
    else:
        total.addmm_(a, b)


def _over(logits: Tensor, temperature: float) -> Tensor:
    return logits if temperature == 1 else logits.div_(temperature)


def _at(x: Tensor | None, where: slice) -> Tensor | None:
    return None if x is None else x[where]


def _slices(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
