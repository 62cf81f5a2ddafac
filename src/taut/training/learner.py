"""What the loop asks of whatever learns, and the learner of one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from taut.config import Config
from taut.models.critic import Critic
from taut.models.layout import Costs
from taut.models.policy import Policy
from taut.objective.value import ValueNormalizer
from taut.training.batch import pad_width
from taut.training.micro_batch import cut_micro_batches
from taut.training.non_finite import NonFiniteError, where_gradient_is_not_finite, where_not_finite
from taut.training.optimizer import (
    clip_gradients,
    learning_rate_factor,
    make_optimizer,
    parameters_of,
    set_learning_rate,
)
from taut.training.snapshot import Learned
from taut.training.update import critic_gradient, fill_unknown, pass_of, policy_gradient, reset_moments
from taut.types import Batch, MicroBatch, OptimizerStep, Rows, Schedule, Trace


class Learner(Protocol):
    """Owns policy, critic, reference and their optimisers."""

    def score(self, batch: Batch, schedule: Schedule) -> Batch:
        """The batch with old and reference logprobs and values, as far as the schedule needs them now."""
        ...

    def update(self, batch: Batch, schedule: Schedule) -> Trace:
        """All epochs and minibatches of the batch."""
        ...

    def probe(self, batch: Batch, schedule: Schedule, micro_batch_tokens: int) -> OptimizerStep | None:
        """The policy's loss on the whole batch as one minibatch, with another cut of it; changes nothing."""
        ...

    def rehearse(self, batch: Batch, rows: Rows, schedule: Schedule, trace: Trace) -> OptimizerStep | None:
        """An optimiser step on these rows of the batch, but for the step itself; changes nothing."""
        ...

    def weights(self) -> Mapping[str, Tensor]:
        """The policy's weights, by name; an adapter's apart from its base's."""
        ...

    def snapshot(self) -> Callable[[Path], None]:
        """Copies all that training changes; calling the result, from any thread, writes it into a folder."""
        ...

    def restore(self, folder: Path) -> None:
        """Takes over what a snapshot wrote into the folder."""
        ...


@dataclass(frozen=True)
class _Moving:
    """A model that is about to take an optimiser step."""

    norm: str
    """The metric its gradient's norm goes by."""
    model: Policy | Critic
    optimizer: torch.optim.Optimizer
    add_gradient: Callable[[Batch, Rows], object]
    """Adds its gradient on some rows once more."""


class LocalLearner:
    """Holds everything on one device. A reference is held only for a KL, a critic only for GAE."""

    def __init__(
        self, policy: Policy, critic: Critic | None, tokenizer: PreTrainedTokenizerBase, config: Config
    ) -> None:
        self.config = config
        self.policy = policy
        self.critic = critic
        self.tokenizer = tokenizer
        self.device = str(next(policy.parameters()).device)
        self.reference = None
        if config.kl.placement != "none":
            self.reference = policy.reference()
        rates = config.optimizer.learning_rate, config.critic.learning_rate
        self.policy_optimizer = make_optimizer(policy.trained_parameters(), config.optimizer, rates[0])
        self.critic_optimizer = (
            make_optimizer(critic.trained_parameters(), config.optimizer, rates[1]) if critic else None
        )
        self.not_finite_in_a_row = 0
        self.value_normalizer = ValueNormalizer() if critic and config.critic.normalize_values else None

    @torch.no_grad()
    def score(self, batch: Batch, schedule: Schedule) -> Batch:
        """Adds `old_logprobs`, `ref_logprobs`, `values` and `bootstrap_values`.

        Old logprobs of the first minibatch stay NaN where nothing needs them before the update: its own forward
        pass will give them. Passes here are cut as the first epoch's will be, so that those that are made twice
        agree bit for bit.
        """
        minibatches = schedule.minibatches[0]
        before_update = self.config.kl.placement == "reward"
        old = minibatches if before_update else minibatches[1:]
        old_logprobs, entropy = self._logprobs(self.policy, batch, old)
        batch = replace(batch, old_logprobs=old_logprobs, entropy=entropy)
        if self.reference is not None:
            batch.ref_logprobs, _ = self._logprobs(self.reference, batch, minibatches)
        if self.critic is not None:
            batch.values, batch.bootstrap_values = self._values(self.critic, batch, minibatches)
        return batch

    def _cut(self, batch: Batch, minibatches: Sequence[Rows], costs: Costs) -> list[MicroBatch]:
        tokens = self.config.learner.micro_batch_tokens
        return [micro for rows in minibatches for micro in cut_micro_batches(batch, rows, costs, tokens)]

    def update(self, batch: Batch, schedule: Schedule) -> Trace:
        """An optimiser step that meets a number that is not finite is not taken; too many in a row halt the trace."""
        batch = self._start_batch(batch, schedule)
        assert batch.old_logprobs is not None
        assert batch.entropy is not None
        trace = Trace([], batch.old_logprobs.clone(), batch.entropy.clone())
        self._run_epochs(batch, schedule, trace)
        if self.config.store.final_pass:
            trace.final_logprobs = self._final_pass(batch)
        return trace

    def _run_epochs(self, batch: Batch, schedule: Schedule, trace: Trace) -> None:
        """Ends early where the target KL is exceeded, or the run is to halt; the rest then counts as skipped."""
        for epoch, minibatches in enumerate(schedule.minibatches):
            for number, rows in enumerate(minibatches):
                step = self._optimizer_step(batch, rows, schedule, trace)
                if step is None:
                    trace.skipped += 1
                    continue
                step.epoch, step.minibatch = epoch, number
                trace.steps.append(step)
                trace.halted = self._halted(step, schedule)
                if trace.halted or self._beyond_target(step, schedule):
                    trace.skipped = schedule.optimizer_steps - sum(s.applied for s in trace.steps)
                    return
                trace.skipped += bool(step.not_finite)

    def _beyond_target(self, step: OptimizerStep, schedule: Schedule) -> bool:
        return not (step.applied or step.not_finite or self._warming_up(schedule))

    def _halted(self, step: OptimizerStep, schedule: Schedule) -> str:
        """Counts optimiser steps in a row that were not finite; says why the run must end where they are too many."""
        self.not_finite_in_a_row = self.not_finite_in_a_row + 1 if step.not_finite else 0
        if self.not_finite_in_a_row <= self.config.checks.skip_non_finite:
            return ""
        times = self.not_finite_in_a_row
        again = f", {times} times in a row" if times > 1 else ""
        place = f"step {schedule.step}, epoch {step.epoch + 1}, minibatch {step.minibatch + 1}"
        return f"{place}: {step.not_finite}; no optimiser step was taken{again}"

    @torch.no_grad()
    def probe(self, batch: Batch, schedule: Schedule, micro_batch_tokens: int) -> OptimizerStep | None:
        cut = self.config.learner.model_copy(update={"micro_batch_tokens": micro_batch_tokens})
        config = self.config.model_copy(update={"learner": cut})
        unknown = torch.full(batch.reply_ids.shape, torch.nan)
        trace = Trace([], unknown, unknown.clone())
        return policy_gradient(self.policy, batch, list(range(batch.size)), trace, config, schedule)

    def weights(self) -> Mapping[str, Tensor]:
        return self.policy.model.state_dict()

    def snapshot(self) -> Callable[[Path], None]:
        return self._learned().copied().write

    def restore(self, folder: Path) -> None:
        self._learned().restore(folder, self.config.model)

    def _learned(self) -> Learned:
        optimizers = {"policy": self.policy_optimizer}
        if self.critic_optimizer is not None:
            optimizers["critic"] = self.critic_optimizer
        return Learned(self.policy, self.critic, self.value_normalizer, optimizers, self.tokenizer)

    def _start_batch(self, batch: Batch, schedule: Schedule) -> Batch:
        """Sets learning rates, moments and the value scale; returns the batch with values on that scale."""
        factor = learning_rate_factor(schedule.step, self.config.run.steps, self.config.optimizer)
        set_learning_rate(self.policy_optimizer, self.config.optimizer.learning_rate * factor)
        if self.config.optimizer.reset == "batch":
            reset_moments(self.policy_optimizer)
        if self.critic_optimizer is not None:
            set_learning_rate(self.critic_optimizer, self.config.critic.learning_rate * factor)
        return batch if self.value_normalizer is None else self._rescaled(batch, self.value_normalizer)

    def _rescaled(self, batch: Batch, normalizer: ValueNormalizer) -> Batch:
        assert self.critic is not None
        assert batch.returns is not None
        assert batch.values is not None
        if where_not_finite(batch, list(range(batch.size)), {"return": batch.returns}):
            return batch  # no step will be taken on it, and the scale must not learn from it
        first = not normalizer.started
        normalizer.update(batch.returns, batch.response_mask, self.critic.head)
        # The first scale gives the head's output another meaning; a value clip must not take that for a move.
        return replace(batch, values=normalizer.denormalize(batch.values)) if first else batch

    def rehearse(self, batch: Batch, rows: Rows, schedule: Schedule, trace: Trace) -> OptimizerStep | None:
        return self._optimizer_step(batch, rows, schedule, trace, move=False)

    def _optimizer_step(
        self, batch: Batch, rows: Rows, schedule: Schedule, trace: Trace, move: bool = True
    ) -> OptimizerStep | None:
        """All gradients first, then all steps: a number that is not finite stops both models or neither."""
        warming_up = self._warming_up(schedule)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not warming_up):
            # A policy that will not move is looked at, and its backward pass spared.
            step = policy_gradient(self.policy, batch, rows, trace, self.config, schedule)
        if step is None:
            return None
        step.applied = step.applied and not warming_up
        step.scalars["learning_rate"] = self.policy_optimizer.param_groups[0]["lr"]
        optimizers = [] if step.not_finite else self._clipped(step, batch, rows, schedule, trace)
        if move:
            for optimizer in optimizers:
                optimizer.step()
        for each in self.policy_optimizer, self.critic_optimizer:
            if each is not None:
                each.zero_grad()
        return step

    def _clipped(
        self, step: OptimizerStep, batch: Batch, rows: Rows, schedule: Schedule, trace: Trace
    ) -> list[torch.optim.Optimizer]:
        """Completes and clips the gradients; returns the optimisers that may step, or says in `step` why none may."""
        moving: list[_Moving] = []
        if step.applied:

            def again(part: Batch, some: Rows) -> object:
                return policy_gradient(self.policy, part, some, trace, self.config, schedule)

            moving.append(_Moving("grad/norm", self.policy, self.policy_optimizer, again))
        if self.critic is not None and self.critic_optimizer is not None:
            moving.append(
                _Moving("grad/critic_norm", self.critic, self.critic_optimizer, self._critic_gradient)
            )
        try:
            if self.critic is not None:
                step.scalars |= self._critic_gradient(batch, rows)
            for each in moving:
                step.scalars[each.norm] = self._clip(each, batch, rows)
        except NonFiniteError as error:
            step.not_finite, step.applied = str(error), False
            return []
        return [each.optimizer for each in moving]

    def _clip(self, moving: _Moving, batch: Batch, rows: Rows) -> float:
        try:
            return clip_gradients(parameters_of(moving.optimizer), self.config.optimizer.max_grad_norm)
        except NonFiniteError:
            where = where_gradient_is_not_finite(batch, rows, moving.model, moving.add_gradient)
            raise NonFiniteError(where) from None

    def _critic_gradient(self, batch: Batch, rows: Rows) -> dict[str, float]:
        assert self.critic is not None
        return critic_gradient(self.critic, self.value_normalizer, batch, rows, self.config)

    def _warming_up(self, schedule: Schedule) -> bool:
        return self.critic is not None and schedule.step <= self.config.critic.warmup_steps

    @torch.no_grad()
    def _final_pass(self, batch: Batch) -> Tensor:
        return self._logprobs(self.policy, batch, [list(range(batch.size))])[0]

    def _logprobs(self, policy: Policy, batch: Batch, minibatches: Sequence[Rows]) -> tuple[Tensor, Tensor]:
        """Logprobs and entropy [B, T] on the CPU, NaN in the rows that are in no minibatch."""
        whole = torch.full(batch.reply_ids.shape, torch.nan), torch.full(batch.reply_ids.shape, torch.nan)
        for micro in self._cut(batch, minibatches, policy.costs):
            part = pass_of(policy, batch, micro, False, self.config.sampling.temperature)
            for target, seen in zip(whole, part, strict=True):
                fill_unknown(target, micro.rows, pad_width(seen, target.shape[1]))
        return whole

    def _values(self, critic: Critic, batch: Batch, minibatches: Sequence[Rows]) -> tuple[Tensor, Tensor]:
        """Values [B, T] in units of reward and, of truncated replies, the value after their last token [B]."""
        values, bootstrap = torch.zeros(batch.reply_ids.shape), torch.zeros(batch.size)
        for micro in self._cut(batch, minibatches, critic.costs):
            part, at_end = pass_of(critic, batch, micro, True)
            if self.value_normalizer is not None:
                part, at_end = (
                    self.value_normalizer.denormalize(part),
                    self.value_normalizer.denormalize(at_end),
                )
            values[micro.rows] = pad_width(part, values.shape[1]).cpu()
            bootstrap[micro.rows] = at_end.cpu()
        return values, torch.where(batch.truncated, bootstrap, 0.0)
