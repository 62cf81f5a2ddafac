"""From a step's batch and trace to what the store keeps of it: NumPy, trimmed to each reply's own length."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from taut.config import Config
from taut.store import ReplyRecord, StepRecord, UpdateRecord
from taut.types import Batch, OptimizerStep, Rows, Schedule, Trace


def step_record(
    config: Config, batch: Batch, schedule: Schedule, trace: Trace, metrics: dict[str, float]
) -> StepRecord:
    return StepRecord(
        step=schedule.step,
        constants={
            **config.algorithm.model_dump(),
            "kl_coefficient": schedule.kl_coefficient,
            "micro_batches": [[len(micro.rows) for micro in step.micro_batches] for step in trace.steps],
        },
        scalars=metrics,
        replies=[_reply(batch, trace, row) for row in range(batch.size)],
        optimizer_steps=[_update(batch, step) for step in trace.steps] + _final(batch, trace),
    )


def _reply(batch: Batch, trace: Trace, row: int) -> ReplyRecord:
    rollout, score = batch.rollouts[row], batch.scores[row]
    length = len(rollout.ids)

    def own(x: Tensor | None) -> np.ndarray | None:
        return None if x is None else x[row, :length].float().numpy()

    return ReplyRecord(
        prompt_index=rollout.prompt.index,
        group=int(batch.groups[row]),
        sample=rollout.sample,
        version=rollout.version,
        prompt_text=rollout.prompt.text,
        prompt_ids=np.array(rollout.prompt.ids, dtype=np.int32),
        text=rollout.text,
        ids=np.array(rollout.ids, dtype=np.int32),
        mask=batch.response_mask[row, :length].numpy(),
        reward=score.reward,
        finish_reason=rollout.finish_reason,
        terms=score.terms,
        failures=score.failures,
        extra=score.extra,
        behavior_logprobs=own(batch.behavior_logprobs),
        old_logprobs=own(trace.old_logprobs),
        ref_logprobs=own(batch.ref_logprobs),
        entropy=own(trace.entropy),
        values=own(batch.values),
        token_rewards=own(batch.token_rewards),
        advantages=own(batch.advantages),
        returns=own(batch.returns),
        bootstrap_value=None if batch.bootstrap_values is None else float(batch.bootstrap_values[row]),
    )


def _update(batch: Batch, step: OptimizerStep) -> UpdateRecord:
    return UpdateRecord(
        epoch=step.epoch,
        minibatch=step.minibatch,
        rows=np.array(step.rows),
        logprobs=_trimmed(batch, step.rows, step.logprobs),
        scalars=step.scalars,
        applied=step.applied,
    )


def _final(batch: Batch, trace: Trace) -> list[UpdateRecord]:
    """The pass after the last optimiser step, as the first of an epoch that never took one."""
    if trace.final_logprobs is None:
        return []
    epoch = 1 + max((step.epoch for step in trace.steps), default=-1)
    rows = list(range(batch.size))
    logprobs = _trimmed(batch, rows, trace.final_logprobs)
    return [UpdateRecord(epoch, 0, np.array(rows), logprobs, scalars={}, applied=False)]


def _trimmed(batch: Batch, rows: Rows, logprobs: Tensor) -> list[np.ndarray]:
    lengths = [int(batch.reply_lengths[row]) for row in rows]
    return [row[:length].numpy() for row, length in zip(logprobs, lengths, strict=True)]
