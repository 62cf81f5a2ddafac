import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from taut.objective.logprobs import logits_from_hidden, token_logprobs

HEADS = [
    {},
    {"temperature": 0.7},
    {"softcap": 3.0},
    {"logit_scale": 0.25},
    {"temperature": 1.3, "softcap": 2.0, "logit_scale": 1.7},
]


def head(n=7, hidden=5, vocabulary=11, dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_()

    targets = torch.randint(vocabulary, (n,), generator=random)
    return normal(n, hidden), normal(vocabulary, hidden), normal(vocabulary), targets


def test_token_zero_of_ln_four_and_zero_at_temperature_two():
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[math.log(4)], [0.0]])
    logprobs, _ = token_logprobs(hidden, weight, torch.tensor([0]), temperature=2)
    assert logprobs.item() == pytest.approx(-0.4055, abs=5e-5)
    sampler_side = (logits_from_hidden(hidden, weight) / 2).log_softmax(-1)[0, 0]
    assert logprobs.item() == pytest.approx(sampler_side.item(), rel=1e-6)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("with_bias", [True, False])
def test_equals_the_oracle(options, with_bias, oracle):
    hidden, weight, bias, targets = head()
    bias = bias if with_bias else None
    logprobs, entropy = token_logprobs(hidden, weight, targets, bias=bias, tile=(3, 4), **options)
    arrays = [x.detach().numpy() for x in (hidden, weight, targets)]
    expected = oracle.token_logprobs(*arrays, bias=bias.detach().numpy() if with_bias else None, **options)
    np.testing.assert_allclose(logprobs.detach(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(entropy.detach(), expected[1], rtol=1e-12)


@pytest.mark.parametrize("options", HEADS)
def test_gradients_through_both_results_are_right(options):
    hidden, weight, bias, targets = head(n=4, hidden=2, vocabulary=5)

    def results(hidden, weight, bias):
        return token_logprobs(hidden, weight, targets, bias=bias, tile=(3, 4), **options)

    assert torch.autograd.gradcheck(results, (hidden, weight, bias))


@pytest.mark.parametrize("tile", [(1, 1), (2, 5), (7, 2), (3, 11), (100, 100), None])
def test_the_tile_does_not_change_the_result(tile):
    hidden, weight, bias, targets = head(dtype=torch.float32)

    def results(tile):
        logprobs, entropy = token_logprobs(hidden, weight, targets, bias=bias, tile=tile)
        loss = (logprobs * torch.arange(7)).sum() + entropy.square().sum()
        return logprobs, entropy, *torch.autograd.grad(loss, (hidden, weight, bias))

    torch.testing.assert_close(results(tile), results((3, 4)), rtol=1e-5, atol=1e-5)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation gives."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.numel())
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_the_logits_never_exist_at_once(dtype):
    hidden, weight, bias, targets = head(n=64, hidden=4, vocabulary=101, dtype=dtype)
    with LargestTensor() as largest:
        logprobs, entropy = token_logprobs(
            hidden, weight, targets, bias=bias, temperature=0.9, softcap=5.0, logit_scale=0.5, tile=(8, 16)
        )
        (logprobs.sum() + entropy.sum()).backward()
    assert largest.numel == 101 * 4, "the head's own size; a tile has 8 · 16 logits"
    assert weight.grad is not None


def test_a_frozen_head_costs_no_weight_product():
    hidden, weight, _, targets = head(n=6, hidden=5, vocabulary=11)

    class Products(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm_)
            return func(*args, **(kwargs or {}))

    def products(frozen):
        loss = token_logprobs(hidden, weight.detach().requires_grad_(not frozen), targets)[0].sum()
        with Products() as mode:
            loss.backward()
        return mode.count

    assert products(frozen=False) == products(frozen=True) + 1


def test_bf16_gives_float32_results_close_to_exact():
    hidden, weight, bias, targets = head(dtype=torch.bfloat16)
    logprobs, entropy = token_logprobs(hidden, weight, targets, bias=bias)
    exact = token_logprobs(hidden.double(), weight.double(), targets, bias=bias.double())
    assert logprobs.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logprobs.double(), exact[0], rtol=0.02, atol=0.02)
    torch.testing.assert_close(entropy.double(), exact[1], rtol=0.02, atol=0.02)
    (logprobs.sum() + entropy.sum()).backward()
    assert (hidden.grad.dtype, weight.grad.dtype, bias.grad.dtype) == (torch.bfloat16,) * 3


def test_a_bf16_head_sums_its_gradient_in_float32():
    # In bf16, 256 + 1 = 256: a running sum of 1,024 like terms would stop at a quarter.
    tokens = 1024
    hidden = torch.ones(tokens, 1, dtype=torch.bfloat16)
    weight = torch.zeros(2, 1, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.zeros(tokens, dtype=torch.long)
    token_logprobs(hidden, weight, targets, tile=(1, 2))[0].sum().backward()
    assert weight.grad.flatten().tolist() == [tokens / 2, -tokens / 2]


def test_autocast_computes_as_its_type_would():
    hidden, weight, bias, targets = head(dtype=torch.float32)

    def results(hidden, weight):
        logprobs, entropy = token_logprobs(hidden, weight, targets, bias=bias)
        return logprobs, entropy, *torch.autograd.grad(logprobs.sum() + entropy.sum(), (hidden, weight))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = results(hidden, weight)
    low = hidden.detach().bfloat16().requires_grad_()
    explicit = results(low, weight)
    assert [x.dtype for x in under_autocast] == [torch.float32] * 4
    for x, y in zip(under_autocast, explicit, strict=True):
        assert torch.equal(x, y.float())


def test_dead_tokens_add_no_entropy_and_no_gradient():
    hidden, weight, _, _ = head(n=2, vocabulary=4)
    bias = torch.tensor([0.0, -math.inf, -math.inf, -math.inf], dtype=torch.float64, requires_grad=True)
    logprobs, entropy = token_logprobs(hidden, weight, torch.tensor([0, 0]), bias=bias)
    assert logprobs.tolist() == entropy.tolist() == [0, 0]
    (logprobs.sum() + entropy.sum()).backward()
    for x in (hidden, weight, bias):
        assert torch.equal(x.grad, torch.zeros_like(x))


def test_entropy_among_the_live_tokens_only():
    weight, hidden = torch.zeros(4, 1, requires_grad=True), torch.ones(1, 1, requires_grad=True)
    bias = torch.tensor([0.0, 0.0, -math.inf, -math.inf])
    _, entropy = token_logprobs(hidden, weight, torch.tensor([0]), bias=bias)
    assert entropy.item() == pytest.approx(math.log(2))
    entropy.backward()
    assert weight.grad.isfinite().all()


def test_no_tokens_give_no_logprobs():
    _, weight, _, _ = head()
    logprobs, entropy = token_logprobs(torch.zeros(0, 5), weight.float(), torch.zeros(0, dtype=torch.long))
    assert logprobs.shape == entropy.shape == (0,)
    logprobs.sum().backward()
    assert torch.equal(weight.grad, torch.zeros_like(weight))


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"temperature": -1.0}, {"tile": (0, 1)}])
def test_impossible_settings_are_refused(options):
    hidden, weight, _, targets = head()
    with pytest.raises(ValueError, match=next(iter(options))):
        token_logprobs(hidden, weight, targets, **options)
