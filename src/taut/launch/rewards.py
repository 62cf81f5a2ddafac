"""From a config, or functions at hand, to the scorer of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import cloudpickle

from taut.config import Config
from taut.config.reward import VERIFIERS, reward_terms
from taut.tasks.rewards.contract import RewardFunction
from taut.tasks.rewards.function import Care, FunctionScorer
from taut.tasks.scorer import ExactMatch, Scorer, Term, WeightedSum

Reward = RewardFunction | Mapping[RewardFunction, float]
"""A function, or several with their weights."""
OnWait = Callable[[str, int, int], None]
"""Hears what is waited for, how far that is, and of how much."""


def make_scorer(config: Config, on_wait: OnWait, reward: Reward | None = None) -> Scorer:
    """The scorer that `config.reward` describes, or that these functions make."""
    return _of_config(config, on_wait) if reward is None else _of_functions(config, on_wait, reward)


def describe(reward: Reward) -> str:
    """As `config.reward` would have it."""
    weights = reward if isinstance(reward, Mapping) else {reward: 1.0}
    return " + ".join(f"{weight:g}*{name_of(function)}" for function, weight in weights.items())


def name_of(function: RewardFunction) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _of_config(config: Config, on_wait: OnWait) -> Scorer:
    terms = reward_terms(config.reward)
    if terms == [(1.0, "exact-match")]:
        return ExactMatch()
    names = _told_apart([term.reference.rpartition(":")[2] for term in terms])
    return WeightedSum(
        [
            Term(name, term.weight, _scorer(name, term.reference, config, on_wait))
            for name, term in zip(names, terms, strict=True)
        ]
    )


def _of_functions(config: Config, on_wait: OnWait, reward: Reward) -> Scorer:
    weights = reward if isinstance(reward, Mapping) else {reward: 1.0}
    if not weights:
        raise ValueError("reward holds no function")
    names = _told_apart([name_of(function) for function in weights])
    return WeightedSum(
        [
            Term(name, float(weight), _in_process(name, cloudpickle.dumps(function), config, on_wait))
            for name, (function, weight) in zip(names, weights.items(), strict=True)
        ]
    )


def _scorer(name: str, reference: str, config: Config, on_wait: OnWait) -> Scorer:
    if reference == "exact-match":
        return ExactMatch()
    if reference in VERIFIERS:
        reference = f"taut.tasks.verifiers:{reference.replace('-', '_')}"
    return _in_process(name, reference, config, on_wait)


def _in_process(name: str, source: str | bytes, config: Config, on_wait: OnWait) -> FunctionScorer:
    scoring = config.scoring
    care = Care(scoring.timeout, scoring.workers, scoring.isolate, scoring.on_failure)

    def tell(waited: float) -> None:
        on_wait(f"waiting for the reward function {name}", math.ceil(waited), math.ceil(scoring.timeout))

    return FunctionScorer(name, source, care, config.run.steps, tell)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Two of one name become `score` and `score-2`."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result
