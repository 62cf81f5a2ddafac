"""Sampling noise: what it is, that it is uniform, and that nothing about the order of work enters it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from taut.rollout.noise import uniform_noise


def noise(seed: int, step: int, prompt: int, sample: int, position: int) -> float:
    return uniform_noise(seed, step, torch.tensor([prompt]), torch.tensor([sample]), position).item()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((0, 0, 0, 0, 0), 0.47141042966848024),
        ((1, 0, 0, 0, 0), 0.2052648726319105),
        ((0, 1, 0, 0, 0), 0.9752873302169826),
        ((0, 0, 1, 0, 0), 0.2380165699112271),
        ((0, 0, 0, 1, 0), 0.17732475569272),
        ((0, 0, 0, 0, 1), 0.6477578607352581),
        ((2**32, 40, 1599, 7, 4), 0.685750315551878),
    ],
)
def test_golden_values(key, value):
    """Recorded runs repeat only while these stand."""
    assert noise(*key) == value


def splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def test_splitmix64_is_the_published_one():
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the first output of java.util.SplittableRandom from seed 0


@pytest.mark.parametrize("key", [(0, 0, 0, 0, 0), (3, 1, 4, 1, 5), (2**40, 10**6, 10**9, 255, 4095)])
def test_equals_splitmix64_in_plain_integers(key):
    state = key[0]
    for coordinate in key[1:]:
        state = splitmix64(state) ^ coordinate
    assert noise(*key) == (splitmix64(state) >> 11) / 2**53


def grid(
    seed: int = 0, step: int = 1, prompts: int = 50, samples: int = 20, positions: int = 20
) -> np.ndarray:
    """[prompts, samples, positions]"""
    prompt = torch.arange(prompts).repeat_interleave(samples)
    sample = torch.arange(samples).repeat(prompts)
    columns = [uniform_noise(seed, step, prompt, sample, position) for position in range(positions)]
    return torch.stack(columns, 1).view(prompts, samples, positions).numpy()


def test_uniform():
    values = grid().ravel()
    assert values.min() >= 0
    assert values.max() < 1
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    chi_squared = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_squared < 43.8  # the 0.1 % point at 19 degrees of freedom


def neighbours():
    cells = grid()
    yield "prompt", cells[:-1], cells[1:]
    yield "sample", cells[:, :-1], cells[:, 1:]
    yield "position", cells[:, :, :-1], cells[:, :, 1:]
    yield "step", cells, grid(step=2)
    yield "seed", cells, grid(seed=1)
    yield "seed and step exchanged", grid(seed=3, step=8), grid(seed=8, step=3)


@pytest.mark.parametrize(("coordinate", "one", "other"), list(neighbours()))
def test_neighbouring_keys_are_uncorrelated(coordinate, one, other):
    correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
    assert abs(correlation) < 4 / one.size**0.5


def test_no_two_keys_of_a_run_share_their_noise():
    assert len(np.unique([grid(), grid(step=2), grid(seed=1)])) == 3 * 20_000


def test_every_key_has_its_own_noise():
    """No two coordinates can be exchanged: each permutation of a key draws something else."""
    keys = set(itertools.permutations((0, 1, 2, 3, 4)))
    assert len({noise(*key) for key in keys}) == 120


def test_the_order_of_work_does_not_enter():
    prompts, samples = torch.tensor([5, 2, 9]), torch.tensor([0, 3, 1])
    together = uniform_noise(7, 3, prompts, samples, 2)
    assert together.flip(0).tolist() == uniform_noise(7, 3, prompts.flip(0), samples.flip(0), 2).tolist()
    assert together.tolist() == [noise(7, 3, p, s, 2) for p, s in zip(prompts, samples, strict=True)]
