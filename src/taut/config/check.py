"""Settings that are each valid and cannot work together; told before any model loads."""

from __future__ import annotations

from taut.config.reward import ENVIRONMENT, reward_terms
from taut.config.schema import Config, EnvironmentConfig

NEEDS_GROUP = ("group-mean", "group-standardized", "leave-one-out")


def check(config: Config) -> None:
    """Raises ValueError with every contradiction found, the numbers it rests on, and the nearest fix."""
    problems = [
        *_reward(config),
        *_environment(config),
        *_batch_arithmetic(config),
        *_objective(config),
        *_warm_up(config),
        *_sampling(config),
        *_data(config),
        *_critic(config),
    ]
    if problems:
        raise ValueError("\n".join(problems))


def _reward(config: Config) -> list[str]:
    problems = []
    try:
        reward_terms(config.reward)
    except ValueError as error:
        problems.append(str(error))
    if config.scoring.workers > 1 and not config.scoring.isolate:
        problems.append(
            f"scoring.isolate = false is for a function that compares replies, and scoring.workers = "
            f"{config.scoring.workers} would show it only a part of them: set scoring.workers to 1"
        )
    return problems


def _environment(config: Config) -> list[str]:
    path, problems = config.environment.path, []
    try:
        weights = [term.weight for term in reward_terms(config.reward) if term.reference == ENVIRONMENT]
    except ValueError:
        return []  # told of already
    if path is None:
        if weights:
            problems.append("reward names what the environment pays, and there is none: set environment.path")
        turns, default = config.environment.max_turns, EnvironmentConfig().max_turns
        if turns != default:
            problems.append(
                f"environment.max_turns = {turns} limits the turns in an environment, and there is none: set "
                "environment.path, or leave it out"
            )
        return problems
    if not sum(weights):
        problems.append(
            f"reward = {config.reward} leaves out what the environment pays, and with it whether it failed: write "
            f"environment + {config.reward}; one that pays nothing returns 0"
        )
    return problems


def _batch_arithmetic(config: Config) -> list[str]:
    algorithm, problems = config.algorithm, []
    replies = algorithm.prompts_per_step * algorithm.replies_per_prompt
    if replies % algorithm.minibatches:
        divisors = [n for n in range(1, replies + 1) if replies % n == 0]
        below = [n for n in divisors if n < algorithm.minibatches][-1:]
        above = [n for n in divisors if n > algorithm.minibatches][:1]
        problems.append(
            f"algorithm.minibatches = {algorithm.minibatches} does not divide the batch of {replies} replies "
            f"({algorithm.prompts_per_step} prompts × {algorithm.replies_per_prompt} replies): "
            f"set it to {' or '.join(map(str, below + above))}"
        )
    if algorithm.advantage in NEEDS_GROUP and algorithm.replies_per_prompt < 2:
        problems.append(
            f"algorithm.advantage = {algorithm.advantage} compares replies to one prompt, and "
            f"algorithm.replies_per_prompt is {algorithm.replies_per_prompt}: set it to 2 or more"
        )
    if algorithm.advantage in ("batch-mean", "global-normalized") and replies < 2:
        problems.append(
            f"algorithm.advantage = {algorithm.advantage} compares the replies of a batch, and "
            "algorithm.prompts_per_step × algorithm.replies_per_prompt is 1: set either to 2 or more"
        )
    if algorithm.dynamic_sampling and algorithm.replies_per_prompt < 2:
        problems.append(
            "algorithm.dynamic_sampling replaces groups of equal rewards, and with algorithm.replies_per_prompt = 1 "
            "every group is one: set it to 2 or more, or dynamic_sampling to 0"
        )
    return problems


def _objective(config: Config) -> list[str]:
    kl, problems = config.kl, []
    stale = config.algorithm.max_staleness
    if stale and config.algorithm.importance == "none":
        problems.append(
            f"algorithm.max_staleness = {stale} trains on replies of older weights: set algorithm.importance to "
            "truncate or mask to correct for it, or leave importance out"
        )
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
    surrogate = config.algorithm.surrogate
    if config.algorithm.dual_clip is not None and surrogate != "clipped":
        problems.append(f"algorithm.dual_clip bounds the clipped surrogate: with {surrogate} set it to null")
    if config.algorithm.ratio_level == "sequence" and surrogate == "dppo":
        problems.append(
            "algorithm.surrogate = dppo looks at each token's probability: set ratio_level to token"
        )
    if kl.target is not None and kl.placement == "none":
        problems.append(
            f"kl.target = {kl.target:g} has no KL to steer: set kl.placement to reward or loss, or kl.target to null"
        )
    elif kl.target is not None and kl.coefficient == 0:
        problems.append(
            f"kl.target = {kl.target:g} is steered to by scaling kl.coefficient, and 0 stays 0: set it above 0"
        )
    replies = config.algorithm.prompts_per_step * config.algorithm.replies_per_prompt
    if kl.target is not None and kl.horizon < replies:
        problems.append(
            f"kl.horizon = {kl.horizon} is less than the {replies} replies of a batch, so that one step could turn "
            f"kl.coefficient negative: set it to {replies} or more, far more for a steady one"
        )
    return problems


def _warm_up(config: Config) -> list[str]:
    steps, problems = config.run.steps, []
    if config.optimizer.warmup_steps > steps:
        problems.append(
            f"optimizer.warmup_steps = {config.optimizer.warmup_steps} is longer than the run of "
            f"run.steps = {steps}: set it to {steps} or less"
        )
    if config.algorithm.advantage == "gae" and config.critic.warmup_steps >= steps:
        problems.append(
            f"critic.warmup_steps = {config.critic.warmup_steps} leaves the policy no step of the run of "
            f"run.steps = {steps}: set it to {steps - 1} or less"
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


def _data(config: Config) -> list[str]:
    data, problems = config.data, []
    if data.eval_path is not None and data.held_out is not None:
        problems.append(
            "data.eval_path names the held-out prompts and data.held_out would draw some: set one to null"
        )
    paths = data.path if isinstance(data.path, list) else [data.path]
    if data.weights is not None and len(data.weights) != len(paths):
        problems.append(
            f"data.weights has {len(data.weights)} numbers and data.path names {len(paths)}: give one for each"
        )
    return problems


def _critic(config: Config) -> list[str]:
    problems = []
    own_copy = config.algorithm.advantage == "gae" and not config.critic.shared and config.critic.path is None
    if own_copy and config.model.dtype == "nf4":
        problems.append(
            "model.dtype = nf4 holds weights that cannot be trained, and the critic would be a copy of them: set "
            "critic.shared to true, so that it is an adapter with a value head on the same base"
        )
    if not config.critic.shared:
        return problems
    if config.lora.rank == 0:
        problems.append(
            "critic.shared puts the critic on the policy's frozen base, and with lora.rank = 0 that base is trained: "
            "set lora.rank to 16, or critic.shared to false"
        )
    if config.critic.path is not None:
        problems.append(
            "critic.shared starts the critic from the policy's base, and critic.path names another: unset one of them"
        )
    return problems
