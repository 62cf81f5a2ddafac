"""One step of the loop on a few short replies, at learning rate 0, under the standing checks: nothing of it stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from taut.checks.finding import Finding
from taut.checks.standing import LEVELS, StandingChecks
from taut.config import Config
from taut.launch.local import make_sampler
from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.rollout.source import PromptSource
from taut.store import StepRecord
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.scorer import Scorer
from taut.training.learner import LocalLearner
from taut.training.ppo import Parts, kl_controller, train_ppo
from taut.training.shaping import RewardShaper
from taut.types import Prompt

PROMPTS, REPLIES, TOKENS = 2, 4, 64
"""Bounds, so that it takes seconds."""


def little_config(config: Config) -> Config:
    """A step of a few short replies, in two epochs of two minibatches, that leaves every weight as it is."""
    algorithm = config.algorithm
    replies = min(algorithm.replies_per_prompt, REPLIES)
    prompts = min(algorithm.prompts_per_step, PROMPTS)
    changes: dict[str, dict[str, Any]] = {
        "run": {"steps": 1},
        "sampling": {"max_new_tokens": min(config.sampling.max_new_tokens, TOKENS)},
        "algorithm": {
            "prompts_per_step": prompts,
            "replies_per_prompt": replies,
            "epochs": 2,
            "minibatches": 1 if prompts * replies % 2 else 2,
            "target_kl": None,
            "dynamic_sampling": 0,
        },
        "critic": {"learning_rate": 0.0, "warmup_steps": 0},
        "optimizer": {"learning_rate": 0.0, "warmup_steps": 0},
        "checks": {"strict": False},
    }
    sections = {name: getattr(config, name).model_copy(update=values) for name, values in changes.items()}
    return config.model_copy(update=sections)


def make_parts(
    little: Config,
    policy: Policy,
    critic: Critic | None,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    scorer: Scorer,
    environment: EnvironmentHost | None,
) -> Parts:
    return Parts(
        source=PromptSource(prompts, little.run.seed),
        held_out=[],
        sampler=make_sampler(policy, tokenizer, little, environment),
        scorer=scorer,
        learner=LocalLearner(policy, critic, tokenizer, little),
        kl=kl_controller(little),
        shape_rewards=RewardShaper(little),
    )


def take_little_step(little: Config, parts: Parts) -> tuple[StepRecord, dict[str, Finding]]:
    """What a run would store of the step, and what each standing check says to it."""
    kept = _Kept()
    parts.inspector = StandingChecks(little, parts.learner, parts.sampler, kept)
    train_ppo(little, parts, kept)
    return kept.records[-1], kept.findings


@dataclass
class _Kept:
    """Takes the place of a run's store."""

    records: list[StepRecord] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)

    def append(self, record: StepRecord) -> None:
        self.records.append(record)

    def event(
        self, kind: str, name: str, message: str, level: str, step: int, data: Mapping[str, object]
    ) -> None:
        verdict = next(verdict for verdict, known in LEVELS.items() if known == level)
        self.findings[name] = Finding(verdict, message)
