"""What the driver hands to the store: plain numpy, per-token arrays trimmed to their reply's own length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taut.types import FinishReason

TOKEN_COLUMNS = (
    "behavior_logprobs",
    "old_logprobs",
    "ref_logprobs",
    "entropy",
    "values",
    "token_rewards",
    "advantages",
    "returns",
)
"""The float32 arrays of a reply, each [L] or None where the run has no such quantity."""


@dataclass(eq=False)
class ReplyRecord:
    """One reply of L tokens to a prompt of P tokens. What is appended is what `Run.replies` gives back."""

    prompt_index: int
    group: int
    """Equal for the replies to one prompt within a step."""
    sample: int
    version: int
    """Which weights sampled it."""
    prompt_text: str
    prompt_ids: np.ndarray  # [P] int32
    text: str
    ids: np.ndarray  # [L] int32, as sampled
    mask: np.ndarray  # [L] bool, true where a token is trained on
    reward: float
    """NaN where the reply has none, and took no part in training."""
    finish_reason: FinishReason
    terms: Mapping[str, float] = field(default_factory=dict)
    """What the reward is made of, by name."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a term is missing, by name."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Columns that a reward function logged."""
    behavior_logprobs: np.ndarray | None = None  # this and all below: [L] float32
    old_logprobs: np.ndarray | None = None
    ref_logprobs: np.ndarray | None = None
    entropy: np.ndarray | None = None
    values: np.ndarray | None = None
    token_rewards: np.ndarray | None = None
    advantages: np.ndarray | None = None
    returns: np.ndarray | None = None
    bootstrap_value: float | None = None
    """The critic at the last token of a cut reply, else 0; None without a critic."""

    @property
    def observed(self) -> np.ndarray:
        """[L] bool, true at what an environment told the model: no distribution drew it.

        What the other columns hold there, 0 or NaN, means nothing.
        """
        if self.behavior_logprobs is None:
            return np.zeros(len(self.ids), dtype=bool)
        return np.isnan(self.behavior_logprobs) & ~self.mask


@dataclass(eq=False)
class UpdateRecord:
    """One minibatch of b replies, as seen just before its `optimizer.step()`."""

    epoch: int
    minibatch: int
    rows: np.ndarray  # [b] int, positions in StepRecord.replies
    logprobs: Sequence[np.ndarray]  # b arrays, [L] float32 of the reply in that row
    scalars: Mapping[str, float] = field(default_factory=dict)
    applied: bool = True
    """False where no `optimizer.step()` was taken."""


@dataclass(eq=False)
class StepRecord:
    """One step of the loop: a batch, its updates, and what was measured."""

    step: int
    constants: Mapping[str, Any]
    """What the objective needs beside the arrays: ε, γ, λ, KL coefficient, denominators."""
    scalars: Mapping[str, float]
    """Metrics by their `group/name`."""
    replies: Sequence[ReplyRecord] = ()
    optimizer_steps: Sequence[UpdateRecord] = ()
    """In the order taken: the position in this list is the optimiser step's number within the batch."""
