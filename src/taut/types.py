"""The vocabulary: what passes between sampler, scorer, learner and store.

Shapes: B replies, T reply tokens (the longest reply), P prompt tokens, G replies per prompt, V vocabulary,
H hidden. After the model everything is [B, T] over reply tokens only, right-padded; `response_mask` is true where
a token is trained on. Where it is false anything may stand, NaN included: nothing downstream may read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:  # `config`, `store` and the help pages must not wait for torch
    from torch import Tensor

    from taut.models.sequences import Sequences
    from taut.objective.policy import ClipState

FinishReason = Literal["stop", "length"]
"""`stop`: an end-of-sequence id was sampled, and an environment had nothing to add. `length`: a limit cut the reply."""


Message = Mapping[str, Any]
"""One message of a conversation: `role` and `content`, as chat templates take them."""


@dataclass(frozen=True)
class Prompt:
    """One row of a dataset, as the model sees it."""

    index: int
    """Row number in its dataset: with `Rollout.sample` it keys the sampling noise."""
    text: str
    """What the model reads; of a conversation, as its chat template writes it."""
    ids: tuple[int, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Every further column of the row, handed to the reward function by name."""
    messages: tuple[Message, ...] | None = None
    """The conversation, where the row has one; None for a plain text."""
    weight: float = 1.0
    """How often a pass over the data takes it, on average."""
    row: Mapping[str, Any] | None = None
    """The whole row, where an environment makes the prompt of it."""


@dataclass(frozen=True)
class Episode:
    """What an environment made of a reply."""

    turns: int
    reward: float
    """Sum over the turns."""
    messages: tuple[Message, ...] | None = None
    """The reply as messages, the model's and the environment's; None where the prompt is plain text."""
    failure: str | None = None
    """Why there is no reward."""
    logged: Mapping[str, float] = field(default_factory=dict)
    """Further numbers to average over replies."""
    dialogue: tuple[Message, ...] = ()
    """The reply turn by turn, of plain text too: the model's turns are the `assistant`'s."""


@dataclass(frozen=True)
class Rollout:
    """One sampled reply. `ids` are trained on as sampled: a reply is never decoded and encoded again.

    In an environment it is one sequence of several turns, with what the model was told between them: `sampled` says
    which tokens are the policy's. The first and the last token always are.
    """

    prompt: Prompt
    sample: int
    """Which of the prompt's G replies this is, from 0."""
    ids: tuple[int, ...]
    """The end-of-sequence id included where the reply, or a turn of it, ended."""
    text: str
    behavior_logprobs: np.ndarray
    """[len(ids)] float32: each token's logprob under the distribution that drew it; NaN where none did."""
    finish_reason: FinishReason
    version: int = 0
    """Which weights sampled it; one weight sync = one version."""
    sampled: np.ndarray | None = None
    """[len(ids)] bool, false at what an environment told the model; None: all are sampled."""
    episode: Episode | None = None

    @property
    def sampled_ids(self) -> tuple[int, ...]:
        """`ids` without what an environment told the model."""
        if self.sampled is None:
            return self.ids
        return tuple(token for token, own in zip(self.ids, self.sampled, strict=True) if own)

    @property
    def truncated(self) -> bool:
        return self.finish_reason == "length"


@dataclass(frozen=True)
class Score:
    """What a scorer made of one reply."""

    reward: float
    """The weighted total. NaN where there is none: the reply then takes no part in training."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """What the reward is made of, by name, each before its weight."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a term is missing, by name, where computing it failed."""
    logged: Mapping[str, float] = field(default_factory=dict)
    """Further numbers to average over replies."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further columns to store with the reply."""

    @property
    def scored(self) -> bool:
        return not math.isnan(self.reward)


@dataclass
class Batch:
    """B scored replies, and what learner and advantage estimator add to them on the way to the update."""

    rollouts: Sequence[Rollout]
    scores: Sequence[Score]
    reply_ids: Tensor  # [B, T] int64
    reply_lengths: Tensor  # [B] int64
    sampled: Tensor  # [B, T] bool; false at pads and at what an environment told the model
    response_mask: Tensor  # [B, T] bool; `sampled`, all false in the row of a reply without a reward
    behavior_logprobs: Tensor  # [B, T]
    rewards: Tensor  # [B]; NaN where a reply has none
    groups: Tensor  # [B] int64, equal for replies to one prompt
    truncated: Tensor  # [B] bool

    old_logprobs: Tensor | None = None
    """[B, T]; a row is NaN until the first optimiser step fills it in from its own forward pass."""
    entropy: Tensor | None = None
    """[B, T], of the policy at `old_logprobs`, and filled in with them."""
    ref_logprobs: Tensor | None = None  # [B, T]
    values: Tensor | None = None  # [B, T]; values[:, t] is read where the logits that sampled token t are
    bootstrap_values: Tensor | None = None  # [B]; the value at the last token of a truncated reply, else 0
    token_rewards: Tensor | None = None  # [B, T]
    advantages: Tensor | None = None  # [B, T]
    returns: Tensor | None = None  # [B, T]
    layouts: dict[Any, Sequences] = field(default_factory=dict, repr=False)
    """What the models were fed, by rows and layout: every epoch feeds the same replies."""

    @property
    def size(self) -> int:
        return len(self.rollouts)


Rows = list[int]
"""Positions of replies in their batch."""


@dataclass(frozen=True)
class Schedule:
    """What a batch's updates are to do, fixed before any of them."""

    step: int
    """Step of the loop, from 1."""
    minibatches: Sequence[Sequence[Rows]]
    """minibatches[epoch][m] = the rows of one optimiser step; every row once an epoch."""
    kl_coefficient: float = 0.0
    """β of the KL to the reference in this batch."""

    @property
    def optimizer_steps(self) -> int:
        return sum(len(epoch) for epoch in self.minibatches)


@dataclass(frozen=True)
class MicroBatch:
    """Replies of one forward pass."""

    rows: Rows
    shared: tuple[int, ...] | None
    """How many of them, in turn, are fed in one row behind their prompt; None where each has a row of its own."""
    tokens: int
    """Fed in all, a prompt that replies share once."""
    places: int
    """Tokens and pads."""


@dataclass
class OptimizerStep:
    """One minibatch of b replies, as seen just before its `optimizer.step()`."""

    rows: Rows  # b of them, in the order of their micro-batches
    logprobs: Tensor  # [b, T]
    clip: ClipState
    """[b, T] ratio and clip state, from the call that computed the loss."""
    scalars: dict[str, float] = field(default_factory=dict)
    """Losses, gradient norms and learning rates of this step."""
    epoch: int = 0
    minibatch: int = 0
    applied: bool = True
    """False where the policy took no `optimizer.step()`: the target KL was exceeded, the critic warms up, or a
    number was not finite."""
    not_finite: str = ""
    """What was not finite, and at which token; neither policy nor critic then took a step."""
    micro_batches: Sequence[MicroBatch] = ()
    """Of the policy, whose rows together are `rows`."""


@dataclass
class Trace:
    """Everything that one batch's epochs × minibatches did, in whole-batch arrays."""

    steps: list[OptimizerStep]
    old_logprobs: Tensor  # [B, T]
    entropy: Tensor  # [B, T], of the policy at `old_logprobs`
    skipped: int = 0
    """Scheduled optimiser steps that were not taken: every reply masked, the target KL exceeded, or a number that
    was not finite."""
    halted: str = ""
    """Why the run cannot go on: too many optimiser steps in a row met numbers that were not finite."""
    final_logprobs: Tensor | None = None
    """[B, T], after the last optimiser step, where `store.final_pass` asks for one more pass."""
