"""From prompts to scored replies, with DAPO's dynamic sampling where it is on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from taut.config import Config
from taut.rollout.sampler import Sampler
from taut.rollout.sampling import Sampling
from taut.rollout.source import Source
from taut.tasks.scorer import Scorer
from taut.tasks.while_sampling import while_sampling
from taut.training.timing import Stopwatch
from taut.types import Prompt, Rollout, Score

Group = tuple[list[Rollout], list[Score]]


@dataclass
class Collected:
    rollouts: list[Rollout] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    resampled: int = 0
    """Groups replaced because all their rewards were equal."""


def sampling_of(config: Config, step: int) -> Sampling:
    """How training replies are sampled at a step of the loop."""
    return Sampling(
        replies_per_prompt=config.algorithm.replies_per_prompt,
        max_new_tokens=config.sampling.max_new_tokens,
        temperature=config.sampling.temperature,
        top_k=config.sampling.top_k,
        top_p=config.sampling.top_p,
        min_p=config.sampling.min_p,
        seed=config.run.seed,
        step=step,
    )


def collect(
    source: Source, sampler: Sampler, scorer: Scorer, config: Config, step: int, watch: Stopwatch
) -> Collected:
    """`prompts_per_step` groups of scored replies.

    With dynamic sampling (2503.14476, eq. 11) groups whose rewards are all equal, and so teach nothing, are
    sampled again with the source's next prompts, at most `dynamic_sampling` times. What is still missing then is
    made up of equal-reward groups, so that a batch is always full.
    """
    algorithm = config.algorithm
    useful: list[Group] = []
    equal: list[Group] = []
    seen: set[int] = set()
    for _ in range(1 + algorithm.dynamic_sampling):
        prompts = source.take(algorithm.prompts_per_step - len(useful), without=seen)
        if not prompts:
            break
        seen.update(prompt.index for prompt in prompts)
        for group in _scored_groups(prompts, sampler, scorer, sampling_of(config, step), watch):
            (equal if algorithm.dynamic_sampling and _all_equal(group[1]) else useful).append(group)
        if len(useful) == algorithm.prompts_per_step:
            break
    kept = (useful + equal)[: algorithm.prompts_per_step]
    collected = Collected(resampled=len(useful) + len(equal) - len(kept))
    for rollouts, scores in kept:
        collected.rollouts += rollouts
        collected.scores += scores
    return collected


def _scored_groups(
    prompts: Sequence[Prompt], sampler: Sampler, scorer: Scorer, sampling: Sampling, watch: Stopwatch
) -> list[Group]:
    early = while_sampling(scorer, len(prompts), sampling.step)
    if early is None:
        with watch("sample"):
            rollouts = sampler.generate(prompts, sampling)
        with watch("reward"):
            scores = scorer.score(rollouts, sampling.step)
    else:
        with early:
            with watch("sample"):
                rollouts = sampler.generate(prompts, sampling, early)
            with watch("reward"):
                scores = early.scores()
    size = sampling.replies_per_prompt
    starts = range(0, len(rollouts), size)
    return [(rollouts[start : start + size], scores[start : start + size]) for start in starts]


def _all_equal(scores: Sequence[Score]) -> bool:
    """Among those that have one: a group left with fewer than two teaches nothing either."""
    return len({score.reward for score in scores if score.scored}) < 2
