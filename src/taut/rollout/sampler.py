"""What the loop asks of whatever samples replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from taut.rollout.sampling import Sampling
from taut.types import Prompt, Rollout


class Sampler(Protocol):
    """Owns the inference engine."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Rollout]:
        """`replies_per_prompt` replies to each prompt, the replies to one prompt side by side."""
        ...

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Samples from these weights from now on; `version` is written on every reply."""
        ...

    def weights_checksum(self) -> str:
        """`models/checksum.py`'s, of the weights that it samples from now."""
        ...
