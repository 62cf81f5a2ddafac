"""Accuracy on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taut.config import Config
from taut.rollout.sampler import Sampler
from taut.tasks.scorer import Scorer
from taut.training.collect import sampling_of
from taut.types import Prompt, Score

EVALUATION_STREAM = 2**32
"""Added to the seed, so that evaluations draw other noise than training does."""


def evaluate(
    prompts: Sequence[Prompt], sampler: Sampler, scorer: Scorer, config: Config, step: int = 0
) -> dict[str, float]:
    """`eval/accuracy`: mean reward of `eval.samples` replies a prompt; `eval/greedy`: of the greedy reply.

    The noise is the same at every evaluation of a run: curves move because the policy does.
    """
    prompts = prompts[: config.eval.limit]
    sampling = sampling_of(config, step=0)
    sampled = replace(
        sampling, replies_per_prompt=config.eval.samples, seed=config.run.seed + EVALUATION_STREAM
    )
    greedy = replace(sampling, replies_per_prompt=1, greedy=True)
    found = {
        f"eval/{name}": _mean_reward(scorer.score(sampler.generate(prompts, how), step))
        for name, how in (("accuracy", sampled), ("greedy", greedy))
    }
    return {name: value for name, value in found.items() if value is not None}


def _mean_reward(scores: Sequence[Score]) -> float | None:
    rewards = [score.reward for score in scores if score.scored]
    return sum(rewards) / len(rewards) if rewards else None
