import numpy as np
import pytest
import torch

from taut.objective.reduce import (
    denominator,
    masked,
    masked_mean,
    masked_quantile,
    masked_var,
    reduce_loss,
    whiten,
)

NORMALIZATIONS = ["token", "sequence", "constant"]
A_AND_B = torch.tensor([[4.0, 9.0, 9.0], [0.0, 0.0, 0.0]])
A_AND_B_MASK = torch.tensor([[True, False, False], [True, True, True]])


@pytest.mark.parametrize(
    ("normalization", "expected"), [("token", 1.0), ("sequence", 2.0), ("constant", 0.25)]
)
def test_one_token_of_loss_four_beside_three_of_loss_zero(normalization, expected):
    count = denominator(A_AND_B_MASK, normalization, constant_length=8)
    assert reduce_loss(A_AND_B, A_AND_B_MASK, normalization, count).item() == expected


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_reduce_loss_equals_the_oracle(normalization, seed, make_batch, oracle):
    batch = make_batch(seed)
    count = denominator(batch.mask, normalization, constant_length=16)
    loss = reduce_loss(batch.advantages, batch.mask, normalization, count).item()
    expected = oracle.reduce_loss(batch.advantages.numpy(), batch.mask.numpy(), normalization, 16)
    assert loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("sizes", [[3, 3], [1, 1, 1, 1, 1, 1], [4, 2]])
def test_micro_batches_sum_to_the_whole_in_loss_and_gradient(normalization, sizes, make_batch):
    batch = make_batch(0)
    count = denominator(batch.mask, normalization, constant_length=16)

    def loss_and_gradient(split):
        x = batch.advantages.clone().requires_grad_()
        parts = zip(x.square().split(split), batch.mask.split(split), strict=True)
        loss = sum(reduce_loss(rows, mask, normalization, count) for rows, mask in parts)
        return loss, torch.autograd.grad(loss, x)[0]

    whole, whole_gradient = loss_and_gradient([6])
    loss, gradient = loss_and_gradient(sizes)
    torch.testing.assert_close(loss, whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, whole_gradient, rtol=1e-12, atol=0)


def test_loss_does_not_depend_on_the_width():
    wide = torch.nn.functional.pad(A_AND_B, (0, 5), value=7.0)
    wide_mask = torch.nn.functional.pad(A_AND_B_MASK, (0, 5))
    for normalization in NORMALIZATIONS:
        count = denominator(wide_mask, normalization, 8)
        assert count == denominator(A_AND_B_MASK, normalization, 8)
        narrow_loss = reduce_loss(A_AND_B, A_AND_B_MASK, normalization, count)
        torch.testing.assert_close(reduce_loss(wide, wide_mask, normalization, count), narrow_loss)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_wholly_masked_replies_do_not_count(normalization):
    filler = torch.zeros(4, 3, dtype=torch.bool)
    with_filler = torch.cat([A_AND_B_MASK, filler])
    assert denominator(with_filler, normalization, 8) == denominator(A_AND_B_MASK, normalization, 8)
    assert denominator(filler, normalization, 8) == 0


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_where_nothing_trains_loss_and_gradient_are_zero(normalization):
    loss = torch.full((2, 3), float("nan"), requires_grad=True)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    reduced = reduce_loss(loss, mask, normalization, denominator(mask, normalization, 8))
    reduced.backward()
    assert reduced.item() == 0
    assert torch.equal(loss.grad, torch.zeros(2, 3))


@pytest.mark.parametrize("constant_length", [None, 0])
def test_constant_needs_its_length(constant_length):
    with pytest.raises(ValueError, match="constant_length"):
        denominator(A_AND_B_MASK, "constant", constant_length)


def test_gate_stops_nan_in_the_gradient_too():
    x = torch.tensor([2.0, float("nan")], requires_grad=True)
    masked(x, torch.tensor([True, False])).log().exp().sum().backward()
    assert torch.equal(x.grad, torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("seed", range(3))
def test_statistics_equal_numpy(seed, make_batch):
    batch = make_batch(seed)
    x, mask = batch.values, batch.mask
    trained = x.numpy()[mask.numpy()]
    assert masked_mean(x, mask) == pytest.approx(trained.mean(), rel=1e-12)
    assert masked_var(x, mask) == pytest.approx(trained.var(ddof=1), rel=1e-12)
    for q in (0, 0.01, 0.5, 0.77, 0.99, 1):
        assert masked_quantile(x, mask, q) == pytest.approx(np.quantile(trained, q), rel=1e-12)


def test_a_statistic_of_nothing_is_none():
    x, empty = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    assert masked_mean(x, empty) is None
    assert masked_var(x, empty) is None
    assert masked_quantile(x, empty, 0.5) is None
    empty[0, 0] = True
    assert masked_var(x, empty) is None
    assert masked_mean(x, empty) == 1


def test_equal_values_have_no_variance():
    x = torch.full((7,), 0.1, dtype=torch.float64)
    assert x.var().item() > 0, "the rounding this guards against"
    assert masked_var(x, torch.ones(7, dtype=torch.bool)) == 0


def test_quantile_outside_zero_to_one_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        masked_quantile(torch.ones(3), torch.ones(3, dtype=torch.bool), 99)


@pytest.mark.parametrize("shift_mean", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_whiten_equals_the_oracle(shift_mean, seed, make_batch, oracle):
    batch = make_batch(seed)
    white = whiten(batch.values, batch.mask, shift_mean)
    expected = oracle.whiten(batch.values.numpy(), batch.mask.numpy(), shift_mean)
    np.testing.assert_allclose(white.numpy(), expected, rtol=1e-12)


def test_whitened_values_have_unit_scale_and_the_mean_asked_for(make_batch):
    batch = make_batch(0)
    x = 3 + 5 * batch.values
    for shift_mean, mean in ((True, 0.0), (False, masked_mean(x, batch.mask))):
        white = whiten(x, batch.mask, shift_mean)
        assert masked_mean(white, batch.mask) == pytest.approx(mean, abs=1e-12)
        assert masked_var(white, batch.mask) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("count", [1, 5])
def test_whitening_equal_values_gives_zero_or_leaves_them(count):
    x, mask = torch.full((5,), 0.1), torch.arange(5) < count
    assert torch.equal(whiten(x, mask), torch.zeros(5))
    assert torch.equal(whiten(x, mask, shift_mean=False), torch.where(mask, 0.1, 0.0))
