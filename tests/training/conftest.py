"""A tiny random model, and batches with replies of uneven length made by hand."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from taut.config import Config, resolve
from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.models.tiny import tiny_gpt2
from taut.training.advantages import estimate_advantages
from taut.training.batch import collate
from taut.training.learner import LocalLearner
from taut.training.micro_batch import cut_minibatches
from taut.types import Batch, Prompt, Rollout, Schedule, Score, Trace

VOCABULARY = 13


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_config() -> Callable[..., Config]:
    """A config of 4 prompts x 2 replies from dotted keys, with plain AdamW at a step size that moves things."""

    def make(**settings: object) -> Config:
        base = {
            "algorithm.preset": "ppo-batch-mean",
            "algorithm.prompts_per_step": 4,
            "algorithm.replies_per_prompt": 2,
            "optimizer.reset": "never",
            "optimizer.learning_rate": 1e-2,
        }
        return resolve({**base, **{key.replace("__", "."): value for key, value in settings.items()}})[0]

    return make


@pytest.fixture
def make_learner() -> Callable[..., LocalLearner]:
    def make(config: Config, seed: int = 0) -> LocalLearner:
        policy = Policy(tiny_gpt2(VOCABULARY, end_id=12, seed=seed, width=16, heads=2))
        critic = Critic.from_policy(policy) if config.algorithm.advantage == "gae" else None
        return LocalLearner(policy, critic, tokenizer=None, config=config)

    return make


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """8 replies of 1 to 5 tokens to 4 prompts of 2 to 5 tokens, rewards 0 and 1."""

    def make(seed: int = 0, behavior: float = -2.0) -> Batch:
        rng = np.random.default_rng(seed)
        rollouts, scores = [], []
        for index in range(4):
            ids = tuple(int(i) for i in rng.integers(VOCABULARY, size=2 + index))
            for sample in range(2):
                length = 1 + (2 * index + sample) % 5
                rollouts.append(
                    Rollout(
                        prompt=Prompt(index, f"prompt {index}", ids),
                        sample=sample,
                        ids=tuple(int(i) for i in rng.integers(VOCABULARY, size=length)),
                        text="",
                        behavior_logprobs=np.full(length, behavior, dtype=np.float32),
                        finish_reason="length" if length == 5 else "stop",
                    )
                )
                scores.append(Score(float((index + sample) % 2)))
        return collate(rollouts, scores)

    return make


@pytest.fixture
def run_batch() -> Callable[..., tuple[Batch, Schedule, Trace]]:
    """Scores, estimates and updates: what one step of the loop does after sampling."""

    def run(learner: LocalLearner, batch: Batch, step: int = 1) -> tuple[Batch, Schedule, Trace]:
        config = learner.config
        minibatches = cut_minibatches(
            batch.size, config.algorithm.epochs, config.algorithm.minibatches, (config.run.seed, step)
        )
        schedule = Schedule(step, minibatches, config.kl.coefficient)
        batch = estimate_advantages(learner.score(batch, schedule), config, schedule.kl_coefficient)
        return batch, schedule, learner.update(batch, schedule)

    return run
