import numpy as np
import pytest
import torch
from torch import nn

from taut.objective.value import ValueNormalizer, explained_variance, value_loss


def test_a_value_that_moved_too_far():
    values = torch.tensor([[1.0]], requires_grad=True)
    result = value_loss(values, torch.tensor([[0.0]]), torch.tensor([[2.0]]), torch.tensor([[True]]), 0.2)
    assert result.loss.item() == pytest.approx(3.24 / 2)
    assert result.clipped.tolist() == [[True]]
    result.loss.sum().backward()
    assert values.grad.item() == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("clip", [0.0, 0.2, 0.7, None])
def test_value_loss_equals_the_oracle(seed, clip, make_batch, oracle):
    batch = make_batch(seed)
    result = value_loss(batch.values, batch.old_values, batch.returns, batch.mask, clip)

    def expected(part):
        def formula(b, t):
            inputs = (x[b, t].item() for x in (batch.values, batch.old_values, batch.returns))
            return oracle.value_loss(*inputs, np.inf if clip is None else clip)[part]

        return oracle.per_token(batch.mask.numpy(), formula)

    np.testing.assert_allclose(result.loss, expected(0), rtol=1e-12)
    np.testing.assert_array_equal(result.clipped, expected(1).astype(bool))


@pytest.mark.parametrize("seed", range(4))
def test_the_value_gauge_is_the_gradient(seed, make_batch):
    batch = make_batch(seed)
    values = batch.values.float().requires_grad_()
    result = value_loss(values, batch.old_values.float(), batch.returns.float(), batch.mask, 0.2)
    result.loss.sum().backward()
    assert result.clipped.any()
    assert torch.equal(values.grad == 0, result.clipped | ~batch.mask)
    live = batch.mask & ~result.clipped
    torch.testing.assert_close(values.grad[live], (values - batch.returns.float())[live])


def test_values_that_have_not_moved_are_not_clipped():
    # In float32 old + (v - old) need not be v: the clip must not take its rounding for a move.
    old = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0))
    values, mask = old + 0.1, torch.ones(1, 1000, dtype=torch.bool)
    assert not value_loss(values, old, torch.zeros_like(old), mask, 0.2).clipped.any()


def test_a_negative_value_clip_is_refused():
    x, mask = torch.zeros(1, 1), torch.tensor([[True]])
    with pytest.raises(ValueError, match="value clip"):
        value_loss(x, x, x, mask, -0.2)


def test_explained_variance(make_batch):
    batch = make_batch(0)
    v, r = batch.values[batch.mask].numpy(), batch.returns[batch.mask].numpy()
    expected = 1 - np.var(r - v) / np.var(r)
    assert explained_variance(batch.values, batch.returns, batch.mask) == pytest.approx(expected)
    assert explained_variance(batch.returns + 3, batch.returns, batch.mask) == pytest.approx(1)
    assert explained_variance(torch.ones_like(batch.values), batch.returns, batch.mask) == pytest.approx(0)


def test_explained_variance_of_returns_that_do_not_vary_is_none(make_batch):
    batch = make_batch(0)
    assert explained_variance(batch.values, torch.full_like(batch.values, 0.1), batch.mask) is None
    assert explained_variance(batch.values, batch.returns, torch.zeros_like(batch.mask)) is None


def test_the_first_update_counts_in_full(make_batch):
    batch = make_batch(0)
    normalizer = ValueNormalizer()
    assert (normalizer.mean, normalizer.std) == (0, 1)
    normalizer.update(100 + batch.returns, batch.mask)
    trained = 100 + batch.returns[batch.mask].numpy()
    assert normalizer.mean == pytest.approx(trained.mean())
    assert normalizer.std == pytest.approx(trained.std())
    normalized = normalizer.normalize(torch.from_numpy(trained)).numpy()
    assert normalized.mean() == pytest.approx(0, abs=1e-9)
    assert normalized.std() == pytest.approx(1)
    np.testing.assert_allclose(normalizer.denormalize(torch.from_numpy(normalized)), trained)


def test_moments_are_exponential_averages(make_batch):
    batches, mask = [make_batch(seed).returns for seed in range(3)], make_batch(0).mask
    normalizer = ValueNormalizer(decay=0.5)
    for returns in batches:
        normalizer.update(returns, mask)
    trained = [returns[mask].numpy() for returns in batches]
    share = np.array([1, 2, 4]) / 7
    mean = sum(w * x.mean() for w, x in zip(share, trained, strict=True))
    square = sum(w * (x**2).mean() for w, x in zip(share, trained, strict=True))
    assert normalizer.mean == pytest.approx(mean)
    assert normalizer.std == pytest.approx((square - mean**2) ** 0.5)


@pytest.mark.parametrize("inside", [True, False])
def test_rescaling_the_head_keeps_its_output(inside, make_batch):
    torch.manual_seed(0)
    head, x = nn.Linear(4, 1).double(), torch.randn(5, 4, dtype=torch.float64)
    batch, normalizer = make_batch(0), ValueNormalizer(decay=0.5)
    normalizer.update(batch.returns, batch.mask)
    before, old = normalizer.denormalize(head(x)), (normalizer.mean, normalizer.std)
    normalizer.update(10 + 5 * batch.returns, batch.mask, head if inside else None)
    assert (normalizer.mean, normalizer.std) != old
    if not inside:
        normalizer.rescale_head(head, *old)
    torch.testing.assert_close(normalizer.denormalize(head(x)), before)


def test_returns_that_hardly_vary_are_not_blown_up():
    normalizer, mask = ValueNormalizer(min_std=0.01), torch.ones(1, 4, dtype=torch.bool)
    normalizer.update(torch.full((1, 4), 0.1), mask)
    assert normalizer.std == 0.01


def test_normalizer_state_survives_and_an_empty_mask_changes_nothing(make_batch):
    batch, normalizer, restored = make_batch(0), ValueNormalizer(), ValueNormalizer()
    normalizer.update(batch.returns, batch.mask)
    normalizer.update(batch.returns, torch.zeros_like(batch.mask))
    restored.load_state_dict(normalizer.state_dict())
    for each in (normalizer, restored):
        each.update(batch.values, batch.mask)
    assert (restored.mean, restored.std) == (normalizer.mean, normalizer.std)
    assert normalizer.state_dict()["weight"] == pytest.approx(1 - 0.99**2)


def test_impossible_normalizers_are_refused():
    with pytest.raises(ValueError, match="decay"):
        ValueNormalizer(decay=1.0)
    with pytest.raises(ValueError, match="bias"):
        ValueNormalizer().rescale_head(nn.Linear(2, 1, bias=False), 0.0, 1.0)


def test_the_first_update_gives_a_head_that_knows_nothing_the_mean():
    head, mask = nn.Linear(2, 1), torch.ones(1, 4, dtype=torch.bool)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    normalizer = ValueNormalizer()
    normalizer.update(torch.tensor([[90.0, 100.0, 110.0, 120.0]]), mask, head)
    assert normalizer.denormalize(head(torch.ones(1, 2))).item() == pytest.approx(105)
