"""From a config, or functions at hand, to the scorer of a run."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
from transformers import PreTrainedTokenizerBase

from taut.config import Config
from taut.config.reward import ENVIRONMENT, VERIFIERS, reward_terms
from taut.tasks.environments.reward import EpisodeReward
from taut.tasks.rewards.contract import RewardFunction
from taut.tasks.rewards.function import Care, FunctionScorer
from taut.tasks.rewards.model import ModelScorer
from taut.tasks.scorer import ExactMatch, Scorer, Term, WeightedSum

MODEL = "model:"
Reward = RewardFunction | Mapping[RewardFunction, float]
"""A function, or several with their weights."""
OnWait = Callable[[str, int, int], None]
"""Hears what is waited for, how far that is, and of how much (0 where nobody knows); of nothing, once that is over."""


def make_scorer(
    config: Config,
    tokenizer: PreTrainedTokenizerBase,
    device: str,
    on_wait: OnWait,
    reward: Reward | None = None,
) -> Scorer:
    """The scorer that `config.reward` describes, or that these functions make.

    `tokenizer` is the policy's, `device` where reward models go.
    """
    if reward is None:
        return _of_config(config, tokenizer, device, on_wait)
    return _of_functions(config, on_wait, reward)


def describe(reward: Reward, in_environment: bool) -> str:
    """As `config.reward` would have it."""
    weights = reward if isinstance(reward, Mapping) else {reward: 1.0}
    terms = [f"{weight:g}*{name_of(function)}" for function, weight in weights.items()]
    return " + ".join([ENVIRONMENT, *terms] if in_environment else terms)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _of_config(config: Config, tokenizer: PreTrainedTokenizerBase, device: str, on_wait: OnWait) -> Scorer:
    terms = reward_terms(config.reward)
    if terms == [(1.0, "exact-match")]:
        return ExactMatch()
    names = _told_apart([Path(term.reference).name.rpartition(":")[2] for term in terms])
    scorers: list[Scorer] = []
    for name, (_, reference) in zip(names, terms, strict=True):
        if reference == "exact-match":
            scorers.append(ExactMatch())
        elif reference == ENVIRONMENT:
            scorers.append(EpisodeReward(config.scoring.on_failure))
        elif reference.startswith(MODEL):
            tokens, path = config.learner.micro_batch_tokens, reference.removeprefix(MODEL)
            scorers.append(ModelScorer(name, path, tokenizer, device, tokens))
        elif reference in VERIFIERS:
            source = f"taut.tasks.verifiers:{reference.replace('-', '_')}"
            scorers.append(_in_process(name, source, config, on_wait))
        else:
            scorers.append(_in_process(name, reference, config, on_wait))
    return WeightedSum([Term(n, term.weight, s) for n, term, s in zip(names, terms, scorers, strict=True)])


def _of_functions(config: Config, on_wait: OnWait, reward: Reward) -> Scorer:
    weights = reward if isinstance(reward, Mapping) else {reward: 1.0}
    if not weights:
        raise ValueError("reward holds no function")
    names = _told_apart([name_of(function) for function in weights])
    terms = [
        Term(name, float(weight), _in_process(name, packed(function, "reward function"), config, on_wait))
        for name, (function, weight) in zip(names, weights.items(), strict=True)
    ]
    if config.environment.path is not None:
        terms.insert(0, Term(ENVIRONMENT, 1.0, EpisodeReward(config.scoring.on_failure)))
    return WeightedSum(terms)


def packed(function: Callable[..., Any], kind: str) -> bytes:
    """As it travels to its process. Raises ValueError where it holds what cannot be copied."""
    try:
        return cloudpickle.dumps(function)
    except (
        AttributeError,
        TypeError,
        pickle.PicklingError,
    ) as error:  # what pickling raises for what it cannot take
        raise ValueError(
            f"{kind} {name_of(function)} cannot be sent to its process, for it holds what cannot be copied "
            f"({error}): make that inside it, or put it into a file and name it as file.py:name"
        ) from error


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
