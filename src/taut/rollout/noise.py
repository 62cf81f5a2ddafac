"""Sampling noise by counting: the same draw for the same (seed, step, prompt, sample, position), in any order."""

from __future__ import annotations

import torch
from torch import Tensor

# SplitMix64's multipliers and increment, as signed 64-bit integers (torch wraps on overflow).
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)


def uniform_noise(seed: int, step: int, prompts: Tensor, samples: Tensor, position: Tensor | int) -> Tensor:
    """Uniform numbers in [0, 1), float64, one for each element of the int64 tensors.

    The key is folded in one coordinate at a time by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), so
    neighbouring keys share no pattern and no two coordinates can be exchanged. The top 53 bits become the fraction.
    """
    state = torch.full_like(prompts, seed)
    for coordinate in (step, prompts, samples, position):
        state = _mix(state) ^ coordinate
    return _shift_right(_mix(state), 11).double() * 2.0**-53


def _mix(x: Tensor) -> Tensor:
    x = x + _GAMMA
    x = (x ^ _shift_right(x, 30)) * _MULTIPLIERS[0]
    x = (x ^ _shift_right(x, 27)) * _MULTIPLIERS[1]
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's own copies the sign bit in."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
