"""Accuracy on held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taut.config import Config
from taut.rollout.sampler import Sampler
from taut.tasks.scorer import Scorer, first_failure
from taut.training.collect import sampling_of
from taut.types import Prompt, Score

EVALUATION_STREAM = 2**32
"""Added to the seed, so that evaluations draw other noise than training does."""

OnWarning = Callable[[int, str], None]
"""Hears, with the step of the loop, what its user should know of it and no number says."""


def nobody_warned(step: int, message: str) -> None:
    pass


def evaluate(
    prompts: Sequence[Prompt],
    sampler: Sampler,
    scorer: Scorer,
    config: Config,
    step: int = 0,
    warn: OnWarning = nobody_warned,
) -> dict[str, float]:
    """`eval/accuracy`: mean reward of `eval.samples` replies a prompt; `eval/greedy`: of the greedy reply.

    Replies without a reward are in neither mean: `eval/failed` is their share, and `warn` hears why. The noise is the
    same at every evaluation of a run: curves move because the policy does.
    """
    prompts = prompts[: config.eval.limit]
    sampling = sampling_of(config, step=0)
    sampled = replace(
        sampling, replies_per_prompt=config.eval.samples, seed=config.run.seed + EVALUATION_STREAM
    )
    greedy = replace(sampling, replies_per_prompt=1, greedy=True)
    scores = {
        name: scorer.score(sampler.generate(prompts, how), step)
        for name, how in (("eval/accuracy", sampled), ("eval/greedy", greedy))
    }
    means = {name: _mean_reward(own) for name, own in scores.items()}
    every = [score for own in scores.values() for score in own]
    failed = [score for score in every if not score.scored]
    if failed:
        why = first_failure(score.failures for score in failed) or "the reward gave them none"
        warn(step, f"{len(failed)} of {len(every)} held-out replies have no reward: {why}")
    found = {name: mean for name, mean in means.items() if mean is not None}
    return {**found, "eval/failed": len(failed) / len(every)}


def _mean_reward(scores: Sequence[Score]) -> float | None:
    rewards = [score.reward for score in scores if score.scored]
    return sum(rewards) / len(rewards) if rewards else None
