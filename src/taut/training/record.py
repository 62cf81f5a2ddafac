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
        replies=_replies(batch, trace),
        optimizer_steps=[_update(batch, step) for step in trace.steps] + _final(batch, trace),
    )


def _replies(batch: Batch, trace: Trace) -> list[ReplyRecord]:
    tokens = {
        "behavior_logprobs": batch.behavior_logprobs,
        "old_logprobs": trace.old_logprobs,
        "ref_logprobs": batch.ref_logprobs,
        "entropy": trace.entropy,
        "values": batch.values,
        "token_rewards": batch.token_rewards,
        "advantages": batch.advantages,
        "returns": batch.returns,
    }
    # Whole tensors to NumPy, then views of rows: a tensor's every index costs microseconds.
    columns = {name: x.float().numpy() for name, x in tokens.items() if x is not None}
    masks, groups = batch.response_mask.numpy(), batch.groups.tolist()
    bootstraps = None if batch.bootstrap_values is None else batch.bootstrap_values.tolist()
    return [
        ReplyRecord(
            prompt_index=rollout.prompt.index,
            group=groups[row],
            sample=rollout.sample,
            version=rollout.version,
            prompt_text=rollout.prompt.text,
            prompt_ids=np.array(rollout.prompt.ids, dtype=np.int32),
            text=rollout.text,
            ids=np.array(rollout.ids, dtype=np.int32),
            mask=masks[row, : len(rollout.ids)],
            reward=score.reward,
            finish_reason=rollout.finish_reason,
            terms=score.terms,
            failures=score.failures,
            extra=score.extra,
            bootstrap_value=None if bootstraps is None else bootstraps[row],
            **{name: x[row, : len(rollout.ids)] for name, x in columns.items()},
        )
        for row, (rollout, score) in enumerate(zip(batch.rollouts, batch.scores, strict=True))
    ]


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
    return [
        own[: len(batch.rollouts[row].ids)] for row, own in zip(rows, logprobs.float().numpy(), strict=True)
    ]
