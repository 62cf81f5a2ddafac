"""Whether two places hold the same weights, told by a short text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def weights_checksum(weights: Mapping[str, Tensor]) -> str:
    """A hash of every name, type, shape and byte, whatever the order and the device."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        tensor = weights[name].detach()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
