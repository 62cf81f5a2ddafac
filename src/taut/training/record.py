"""From a step's batch and trace to what the store keeps of it: NumPy, trimmed to each reply's own length."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from taut.config import Config
from taut.store import ReplyRecord, StepRecord, UpdateRecord
from taut.types import Batch, OptimizerStep, Schedule, Trace


def step_record(
    config: Config, batch: Batch, schedule: Schedule, trace: Trace, metrics: dict[str, float]
) -> StepRecord:
    return StepRecord(
        step=schedule.step,
        constants={**config.algorithm.model_dump(), "kl_coefficient": schedule.kl_coefficient},
        scalars=metrics,
        replies=[_reply(batch, trace, row) for row in range(batch.size)],
        optimizer_steps=[_update(batch, step) for step in trace.steps],
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
    lengths = [int(batch.reply_lengths[row]) for row in step.rows]
    return UpdateRecord(
        epoch=step.epoch,
        minibatch=step.minibatch,
        rows=np.array(step.rows),
        logprobs=[row[:length].numpy() for row, length in zip(step.logprobs, lengths, strict=True)],
        scalars=step.scalars,
        applied=step.applied,
    )
