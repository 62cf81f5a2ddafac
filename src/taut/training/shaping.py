"""From the rewards that replies earned to those that train: normalised, clipped, less for a long or a missing end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from taut.config import Config
from taut.objective.reduce import masked
from taut.types import Batch


@dataclass
class RunningMoments:
    """Mean and sample variance of all values so far, by the parallel form of Welford's update, in float64."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared deviations from the mean."""

    def update(self, values: Tensor) -> None:
        new = values.detach().cpu().double()
        if not len(new):
            return
        total, mean = self.count + len(new), new.mean().item()
        between = (mean - self.mean) ** 2 * self.count * len(new) / total
        self.squares += (new - mean).square().sum().item() + between
        self.mean += (mean - self.mean) * len(new) / total
        self.count = total

    @property
    def std(self) -> float:
        return (self.squares / max(self.count - 1, 1)) ** 0.5


class RewardShaper:
    """Normalises, then clips, then subtracts what a long or a cut reply costs, as far as the config says.

    The penalties come last, so that no clip takes them away again: `missing_eos_penalty` where a reply was cut, and
    DAPO's for a long one. Metrics, evaluations, dynamic sampling and the store keep the rewards as earned.
    """

    def __init__(self, config: Config) -> None:
        self.scoring = config.scoring
        self.longest_reply = config.longest_reply
        self.overlong_buffer = config.algorithm.overlong_share * self.longest_reply
        self.moments = RunningMoments()

    def __call__(self, batch: Batch) -> Batch:
        """The batch with other `rewards` [B]; a reply without one stays NaN."""
        rewards = batch.rewards
        if self.scoring.normalize:
            self.moments.update(rewards[~rewards.isnan()])
            rewards = (rewards - self.moments.mean) / (self.moments.std or 1.0)
        if self.scoring.clip is not None:
            rewards = rewards.clamp(-self.scoring.clip, self.scoring.clip)
        rewards = rewards - masked(
            torch.full_like(rewards, self.scoring.missing_eos_penalty), batch.truncated
        )
        if self.overlong_buffer:
            lengths = batch.sampled.sum(1)
            rewards = rewards + overlong_penalty(lengths, self.longest_reply, self.overlong_buffer)
        return replace(batch, rewards=rewards)


def overlong_penalty(lengths: Tensor, longest: int, buffer: float) -> Tensor:
    """DAPO's soft overlong punishment (2503.14476, eq. 13), [B] from lengths [B].

    0 up to `longest - buffer` tokens, falling in a line to -1 at `longest`.
    """
    return -((lengths - (longest - buffer)) / buffer).clamp(0, 1)
