"""The gradients of one optimiser step, of the policy and of the critic, accumulated over micro-batches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields

import torch
from torch import Tensor

from taut.config import Config
from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.objective.kl import approximate_kl
from taut.objective.policy import ClipState, cat_clip_states, log_ratio
from taut.objective.reduce import denominator, masked, reduce_loss
from taut.objective.value import ValueNormalizer, value_loss
from taut.training.batch import Part, pad_width, part_of, sequences_of
from taut.training.loss import policy_loss
from taut.training.micro_batch import cut_micro_batches
from taut.training.non_finite import NonFiniteError, where_not_finite
from taut.types import Batch, MicroBatch, OptimizerStep, Rows, Schedule, Trace


def policy_gradient(
    policy: Policy, batch: Batch, rows: Rows, trace: Trace, config: Config, schedule: Schedule
) -> OptimizerStep | None:
    """Adds the gradient of the clipped loss on `rows`, and returns what was seen; None if no token trains.

    Rows of the trace's `old_logprobs` and `entropy` that are still NaN are filled in from this very forward pass:
    their ratio is exactly 1. `applied` is False beyond the target KL, and where a number was `not_finite`. Where
    torch records no gradient, none is added: this is then a look at the loss.
    """
    algorithm, mask = config.algorithm, batch.response_mask[rows]
    count = denominator(mask, algorithm.loss_normalization, config.longest_reply)
    if count == 0:
        return None
    step = _accumulate(policy, batch, rows, trace, config, schedule.kl_coefficient, count)
    ratio = log_ratio(step.logprobs, trace.old_logprobs[step.rows], step.clip.mask)
    kl = step.scalars["kl/old_k3"] = approximate_kl(ratio, step.clip.mask, "k3") or 0.0
    step.applied = not step.not_finite and (algorithm.target_kl is None or kl <= algorithm.target_kl)
    return step


def _accumulate(
    policy: Policy,
    batch: Batch,
    rows: Rows,
    trace: Trace,
    config: Config,
    kl_coefficient: float,
    count: int,
) -> OptimizerStep:
    """Adds the gradient of the minibatch's loss, one micro-batch after the other, and returns what they saw."""
    device, width = str(next(policy.parameters()).device), batch.reply_ids.shape[1]
    scalars: dict[str, float] = defaultdict(float)
    seen_rows, seen_logprobs, clips, problem = Rows(), list[Tensor](), list[ClipState](), ""
    cut = cut_micro_batches(batch, rows, policy.costs, config.learner.micro_batch_tokens)
    for micro in cut:
        micro_rows = micro.rows
        seen = pass_of(policy, batch, micro, False, config.sampling.temperature)
        logprobs, entropy = (pad_width(x, width) for x in seen)
        fill_unknown(trace.old_logprobs, micro_rows, logprobs)
        fill_unknown(trace.entropy, micro_rows, entropy)
        part, old = part_of(batch, micro_rows, device), trace.old_logprobs[micro_rows].to(device)
        result = policy_loss(logprobs, entropy, old, part, config, kl_coefficient, count)
        if not (torch.isfinite(result.loss) and torch.isfinite(masked(logprobs, part.mask)).all()):
            problem = problem or _problem(batch, micro_rows, logprobs, part)
        if torch.is_grad_enabled() and not problem:
            result.loss.backward()
        for name, value in result.terms.items():
            scalars[name] += value
        seen_rows += micro_rows
        seen_logprobs.append(logprobs.detach().cpu())
        clips.append(_on_cpu(result.clip))
    logprobs, clip = torch.cat(seen_logprobs), cat_clip_states(clips)
    return OptimizerStep(
        seen_rows,
        logprobs,
        clip,
        dict(scalars),
        not_finite=problem,
        micro_batches=cut,
    )


def _problem(batch: Batch, rows: Rows, logprobs: Tensor, part: Part) -> str:
    quantities = {
        "logprob": logprobs,
        "advantage": part.advantages,
        "reference logprob": part.ref_logprobs,
        "sampler's logprob": part.behavior_logprobs,
    }
    of_inputs = where_not_finite(batch, rows, quantities)
    return of_inputs or f"the policy's loss on replies {rows} is not finite, though all it is made from is"


def _on_cpu(clip: ClipState) -> ClipState:
    return ClipState(*(getattr(clip, field.name).cpu() for field in fields(clip)))


def critic_gradient(
    critic: Critic, normalizer: ValueNormalizer | None, batch: Batch, rows: Rows, config: Config
) -> dict[str, float]:
    """Adds the gradient of the value loss, a mean over the trained tokens of `rows`. Returns its scalars.

    Raises NonFiniteError.
    """
    device = str(next(critic.parameters()).device)
    count = denominator(batch.response_mask[rows], "token")
    loss_sum, clipped = 0.0, 0
    for micro in cut_micro_batches(batch, rows, critic.costs, config.learner.micro_batch_tokens):
        micro_rows = micro.rows
        values, _ = pass_of(critic, batch, micro, True)
        part = part_of(batch, micro_rows, device)
        assert part.values is not None
        assert part.returns is not None
        old_values, returns = part.values, part.returns
        if normalizer is not None:
            old_values, returns = normalizer.normalize(old_values), normalizer.normalize(returns)
        values = pad_width(values, old_values.shape[1])
        result = value_loss(values, old_values, returns, part.mask, config.critic.value_clip)
        loss = reduce_loss(result.loss, part.mask, "token", count)
        if not torch.isfinite(loss):
            quantities = {"value": values, "return": returns, "old value": old_values}
            of_inputs = where_not_finite(batch, micro_rows, quantities)
            raise NonFiniteError(of_inputs or f"the critic's loss on replies {micro_rows} is {loss.item()}")
        loss.backward()
        loss_sum += loss.item()
        clipped += int(result.clipped.sum())
    return {"value/loss": loss_sum, "value/clipped": clipped / count}


def pass_of(
    model: Policy | Critic, batch: Batch, micro: MicroBatch, ends: bool, *settings: float
) -> tuple[Tensor, Tensor]:
    """What the model gives for these rows; `ends` where it is read behind the last token.

    A number that is not finite reaches all replies in its row of a packing. Alone it names its own, so the pass is
    then taken again with a row each.
    """
    device = str(next(model.parameters()).device)
    sequences = sequences_of(batch, micro.rows, device, micro.shared, ends)
    seen = model(sequences, *settings)
    if sequences.packing is not None and not torch.isfinite(seen[0]).all():
        seen = model(sequences_of(batch, micro.rows, device), *settings)
    return seen


def fill_unknown(whole: Tensor, rows: Rows, seen: Tensor) -> None:
    """Writes `seen` [b, T] into those `rows` of `whole` [B, T] that are still NaN."""
    index = torch.tensor(rows)
    unknown = whole[index, 0].isnan()
    whole[index[unknown]] = seen.detach().cpu()[unknown]


def reset_moments(optimizer: torch.optim.Optimizer) -> None:
    """Forgets the optimiser's moments and step counts."""
    optimizer.state.clear()
