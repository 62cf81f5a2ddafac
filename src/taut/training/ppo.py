"""PPO for language models. Read this first: the whole algorithm is `train_ppo`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from taut.config import Config
from taut.objective.kl import AdaptiveController, FixedController
from taut.rollout.sampler import Sampler
from taut.rollout.source import Source
from taut.store import StepRecord
from taut.tasks.scorer import Scorer
from taut.training.advantages import estimate_advantages
from taut.training.ahead import Ahead
from taut.training.batch import collate
from taut.training.collect import collect
from taut.training.evaluate import OnWarning, evaluate, nobody_warned
from taut.training.inspector import Inspector, NoInspector
from taut.training.learner import Learner
from taut.training.metrics import (
    Metrics,
    off_policy_metrics,
    reference_kl_per_reply,
    step_metrics,
    time_metrics,
)
from taut.training.micro_batch import cut_minibatches
from taut.training.non_finite import refuse_halted
from taut.training.record import step_record
from taut.training.shaping import RewardShaper
from taut.training.timing import OnPhase, Stopwatch
from taut.training.usage import system_metrics
from taut.types import Prompt, Schedule

Observer = Callable[[int, Metrics], None]
"""Called after each step with its number and scalars; step 0 is the evaluation before training."""


class StepStore(Protocol):
    def append(self, record: StepRecord, /) -> None: ...


@dataclass
class Parts:
    """What the loop holds; where each of them runs, it does not know."""

    source: Source
    held_out: Sequence[Prompt]
    sampler: Sampler
    scorer: Scorer
    learner: Learner
    kl: FixedController
    shape_rewards: RewardShaper
    on_phase: OnPhase = lambda phase: None
    """Hears what the loop is at, and may be waiting for."""
    warn: OnWarning = nobody_warned
    inspector: Inspector = field(default_factory=NoInspector)
    ahead: Ahead | None = None
    """Samples batches while the learner is at earlier ones, where the config says so."""


def train_ppo(
    config: Config, parts: Parts, store: StepStore, observers: Sequence[Observer] = (), first_step: int = 0
) -> None:
    source, sampler, scorer, learner = parts.source, parts.sampler, parts.scorer, parts.learner
    kl, shape_rewards = parts.kl, parts.shape_rewards
    if first_step == 0:
        record = StepRecord(step=0, constants={}, scalars=evaluation(config, parts, 0))
        finish_step(record, parts, store, observers)

    for step in range(max(1, first_step), config.run.steps + 1):
        watch = Stopwatch(parts.on_phase)
        if parts.ahead is None:
            collected = collect(source, sampler, scorer, config, step, watch)
        else:
            collected = parts.ahead.collect(step, watch)
        batch = shape_rewards(collate(collected.rollouts, collected.scores))
        schedule = make_schedule(config, batch.size, step, kl.coefficient)
        with watch("score"):
            batch = learner.score(batch, schedule)
        batch = estimate_advantages(batch, config, kl.coefficient)
        with watch("check"):
            parts.inspector.before_update(batch, schedule)
        with watch("update"):
            trace = learner.update(batch, schedule)
        with watch("sync"):
            sampler.load_weights(learner.weights(), version=step)

        metrics = step_metrics(batch, trace, config) | time_metrics(watch, batch) | system_metrics(watch)
        metrics |= off_policy_metrics(batch, trace, step, config)
        metrics |= {"reply/resampled": float(collected.resampled)}
        if batch.ref_logprobs is not None:
            metrics |= {"kl/coefficient": kl.coefficient}
            kl.update(reference_kl_per_reply(batch, trace), batch.size)
        metrics |= evaluation(config, parts, step)
        finish_step(step_record(config, batch, schedule, trace, metrics), parts, store, observers)
        parts.inspector.after_step(batch, schedule, trace, metrics)
        refuse_halted(trace)


def make_schedule(config: Config, size: int, step: int, kl_coefficient: float) -> Schedule:
    algorithm = config.algorithm
    key = (config.run.seed, step)
    return Schedule(step, cut_minibatches(size, algorithm.epochs, algorithm.minibatches, key), kl_coefficient)


def kl_controller(config: Config) -> FixedController:
    if config.kl.target is None:
        return FixedController(config.kl.coefficient)
    return AdaptiveController(config.kl.coefficient, config.kl.target, config.kl.horizon)


def evaluation(config: Config, parts: Parts, step: int) -> Metrics:
    """Held-out scores, before the first step, every `eval.every` steps and after the last."""
    every = config.eval.every
    due = step == config.run.steps or (every and step % every == 0)
    if not due or not parts.held_out:
        return {}
    if parts.ahead is not None:
        parts.on_phase("wait")
        parts.ahead.wait()
    parts.on_phase("evaluate")
    return evaluate(parts.held_out, parts.sampler, parts.scorer, config, step, parts.warn)


def finish_step(record: StepRecord, parts: Parts, store: StepStore, observers: Sequence[Observer]) -> None:
    parts.on_phase("store")
    store.append(record)
    for observe in observers:
        observe(record.step, dict(record.scalars))
