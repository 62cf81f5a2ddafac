"""What the loop asks of whatever samples replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from taut.rollout.sampling import Sampling
from taut.types import Prompt, Rollout

OnDone = Callable[[int, Sequence[Rollout]], object]
"""Hears, with a prompt's place among those asked for, of its replies, once the last of them has ended."""


@dataclass(frozen=True)
class Unfinished:
    """A reply that goes on behind what was sampled of it and what the model was told."""

    prompt: Prompt
    sample: int
    ids: tuple[int, ...]
    """Of the reply so far."""
    max_new_tokens: int


class Sampler(Protocol):
    """Owns the inference engine."""

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_done: OnDone | None = None
    ) -> list[Rollout]:
        """`replies_per_prompt` replies to each prompt, the replies to one prompt side by side.

        `on_done` is called for each prompt once, while others may still be sampled, in an order that is the same
        whenever the replies are.
        """
        ...

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Samples from these weights from now on; `version` is written on every reply."""
        ...

    def weights_checksum(self) -> str:
        """`models/checksum.py`'s, of the weights that it samples from now."""
        ...


class ResumableSampler(Sampler, Protocol):
    """What replies of several turns need besides."""

    def resume(self, replies: Sequence[Unfinished], sampling: Sampling) -> list[Rollout]:
        """A further turn of each reply, in order. What it returns is the turn alone.

        The noise of a token is that of its place in the whole reply.
        """
        ...
