"""Settings that are each valid and cannot work together; told before any model loads."""

from __future__ import annotations

from taut.config.schema import Config

NEEDS_GROUP = ("group-mean", "group-standardized", "leave-one-out")


def check(config: Config) -> None:
    """Raises ValueError with every contradiction found, the numbers it rests on, and the nearest fix."""
    problems = [*_batch_arithmetic(config), *_objective(config), *_sampling(config)]
    if problems:
        raise ValueError("\n".join(problems))


def _batch_arithmetic(config: Config) -> list[str]:
    algorithm, problems = config.algorithm, []
    replies = algorithm.prompts_per_step * algorithm.replies_per_prompt
    if replies % algorithm.minibatches:
        works = [n for n in range(1, replies + 1) if replies % n == 0]
        nearest = sorted(sorted(works, key=lambda n: abs(n - algorithm.minibatches))[:2])
        problems.append(
            f"algorithm.minibatches = {algorithm.minibatches} does not divide the batch of {replies} replies "
            f"({algorithm.prompts_per_step} prompts × {algorithm.replies_per_prompt} replies): "
            f"the nearest that do are {' and '.join(map(str, nearest))}"
        )
    if algorithm.advantage in NEEDS_GROUP and algorithm.replies_per_prompt < 2:
        problems.append(
            f"algorithm.advantage = {algorithm.advantage} compares replies to one prompt, and "
            f"algorithm.replies_per_prompt is {algorithm.replies_per_prompt}: set it to 2 or more"
        )
    if algorithm.advantage in ("batch-mean", "global-normalized") and replies < 2:
        problems.append(
            f"algorithm.advantage = {algorithm.advantage} needs a batch of 2 replies or more, and "
            "algorithm.prompts_per_step × algorithm.replies_per_prompt is 1"
        )
    if algorithm.dynamic_sampling and algorithm.replies_per_prompt < 2:
        problems.append("algorithm.dynamic_sampling needs algorithm.replies_per_prompt of 2 or more")
    return problems


def _objective(config: Config) -> list[str]:
    kl, problems = config.kl, []
    if kl.placement == "loss" and kl.estimator == "k1":
        problems.append(
            "kl.estimator = k1 in the loss has a gradient that is 0 on average: use k3 (or k2), or set "
            "kl.placement to reward"
        )
    if kl.placement == "reward" and kl.estimator in ("k3-straight-through", "k3-weighted"):
        problems.append(
            f"kl.estimator = {kl.estimator} differs from k3 only in its gradient, and a reward has none: "
            "use k1, k2 or k3"
        )
    if config.algorithm.dual_clip is not None and config.algorithm.surrogate == "cispo":
        problems.append("algorithm.dual_clip bounds the clipped surrogate: with cispo set it to null")
    if config.optimizer.warmup_steps > config.run.steps:
        problems.append(
            f"optimizer.warmup_steps = {config.optimizer.warmup_steps} is longer than the run of "
            f"run.steps = {config.run.steps}"
        )
    return problems


def _sampling(config: Config) -> list[str]:
    sampling = config.sampling
    truncated = [
        f"sampling.{name} = {value}"
        for name, value, off in (
            ("top_k", sampling.top_k, 0), ("top_p", sampling.top_p, 1.0), ("min_p", sampling.min_p, 0.0)
        )
        if value != off
    ]  # fmt: skip
    if truncated and config.algorithm.importance == "none":
        return [
            f"{' and '.join(truncated)} samples from a truncated distribution that the learner does not "
            "train: set algorithm.importance to truncate or mask to correct for it, or turn it off"
        ]
    return []
