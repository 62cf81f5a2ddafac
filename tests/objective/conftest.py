from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch


@pytest.fixture(scope="session")
def oracle():
    spec = importlib.util.spec_from_file_location("oracle", Path(__file__).with_name("oracle.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_batch():
    return _make_batch


@pytest.fixture(scope="session")
def one_row():
    return _one_row


def _make_batch(seed: int) -> SimpleNamespace:
    """Six replies of up to nine tokens, float64: uneven, with observation gaps, and one masked as a whole."""
    random = torch.Generator().manual_seed(seed)
    shape = 6, 9

    def normal(scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(shape, generator=random, dtype=torch.float64)

    lengths = torch.tensor([9, 7, 5, 1, 8, 6])
    mask = torch.arange(shape[1]) < lengths[:, None]
    mask[0, 3:5] = mask[1, 0] = mask[4, 6] = False
    mask[5] = False
    logprobs = -normal().abs()
    advantages = normal()
    advantages[0, 1] = advantages[2, 0] = 0.0
    return SimpleNamespace(
        mask=mask,
        logprobs=logprobs,
        old_logprobs=logprobs - normal(0.4),
        ref_logprobs=logprobs - normal(0.5),
        behavior_logprobs=logprobs - normal(0.3),
        advantages=advantages,
        weights=normal().abs(),
        values=normal(),
        old_values=normal(),
        returns=normal(),
        token_rewards=normal(),
        bootstrap_values=normal()[:, 0],
    )


def _one_row(ratios: list[float], advantages: list[float]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(log ratio with gradient, advantages, mask) of one reply, float64."""
    x = torch.tensor([ratios], dtype=torch.float64).log().requires_grad_()
    a = torch.tensor([advantages], dtype=torch.float64)
    return x, a, torch.ones_like(a, dtype=torch.bool)
