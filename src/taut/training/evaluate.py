"""Accuracy on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taut.config import Config
from taut.rollout.sampler import Sampler
from taut.tasks.scorer import Scorer
from taut.training.collect import sampling_of
from taut.types import Prompt

EVALUATION_STREAM = 2**32
"""Added to the seed, so that evaluations draw other noise than training does."""


def evaluate(prompts: Sequence[Prompt], sampler: Sampler, scorer: Scorer, config: Config) -> dict[str, float]:
    """`eval/accuracy`: mean reward of `eval.samples` replies a prompt; `eval/greedy`: of the greedy reply.

    The noise is the same at every evaluation of a run: curves move because the policy does.
    """
    prompts = prompts[: config.eval.limit]
    sampling = sampling_of(config, step=0)
    sampled = replace(
        sampling, replies_per_prompt=config.eval.samples, seed=config.run.seed + EVALUATION_STREAM
    )
    greedy = replace(sampling, replies_per_prompt=1, greedy=True)
    return {
        f"eval/{name}": _mean_reward(sampler.generate(prompts, how), scorer)
        for name, how in (("accuracy", sampled), ("greedy", greedy))
    }


def _mean_reward(rollouts: list, scorer: Scorer) -> float:
    return sum(score.reward for score in scorer.score(rollouts)) / len(rollouts)
