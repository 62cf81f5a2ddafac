"""Direct preference optimisation (2305.18290): the policy learns from pairs, without a reward model or sampling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from taut.config import DPOConfig
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences
from taut.objective.preference import dpo_loss, implicit_rewards, preference_statistics
from taut.tasks.preferences import PreferencePair
from taut.training.reward_model import pair_micro_batches
from taut.training.supervised import OnStep, add_gradient, draw_from, minimize


def train_dpo(
    policy: Policy,
    pairs: Sequence[PreferencePair],
    reference: Tensor,
    config: DPOConfig,
    on_step: OnStep,
) -> None:
    """Minimises the mean DPO loss of a batch. `reference` [N, 2] is `reply_logprobs` of the policy as it was.

    Raises NonFiniteError before the weights are touched where a loss or gradient is not finite.
    """
    draw = draw_from(range(len(pairs)), config.dpo.batch_size, config.run.seed)

    def accumulate(step: int) -> dict[str, float]:
        rows = draw(step)
        return accumulate_dpo(policy, [pairs[row] for row in rows], reference[rows], config)

    minimize(policy.trained_parameters(), accumulate, config.run.steps, config.optimizer, on_step)


def accumulate_dpo(
    policy: Policy, pairs: Sequence[PreferencePair], reference: Tensor, config: DPOConfig
) -> dict[str, float]:
    """Adds the gradient of the mean loss over all pairs, however they are cut. Returns loss, accuracy and margin."""
    loss, differences = 0.0, []
    for rows in pair_micro_batches(pairs, config.learner.micro_batch_tokens):
        logprobs = _logprobs(policy, [pairs[row] for row in rows])
        chosen, rejected = implicit_rewards(logprobs, reference[rows].to(logprobs), config.dpo.beta).unbind(1)
        part = dpo_loss(chosen, rejected).sum() / len(pairs)
        loss += add_gradient(part, "DPO")
        differences.append((chosen - rejected).detach())
    together = torch.cat(differences)
    return {
        "loss": loss,
        "accuracy": (together > 0).double().mean().item(),
        "margin": together.double().mean().item(),
    }


@torch.no_grad()
def reply_logprobs(policy: Policy, pairs: Sequence[PreferencePair], micro_batch_tokens: int) -> Tensor:
    """[N, 2] on the CPU: log π of each chosen and each rejected reply, summed over its tokens."""
    logprobs = torch.empty(len(pairs), 2)
    for rows in pair_micro_batches(pairs, micro_batch_tokens):
        logprobs[rows] = _logprobs(policy, [pairs[row] for row in rows]).cpu()
    return logprobs


def judge(
    policy: Policy, pairs: Sequence[PreferencePair], reference: Tensor, config: DPOConfig
) -> dict[str, float]:
    """Accuracy, mean margin and calibration error of the implicit rewards on these pairs."""
    logprobs = reply_logprobs(policy, pairs, config.learner.micro_batch_tokens)
    rewards = implicit_rewards(logprobs, reference, config.dpo.beta)
    return preference_statistics(rewards[:, 0] - rewards[:, 1])


def _logprobs(policy: Policy, pairs: Sequence[PreferencePair]) -> Tensor:
    """[n, 2], from one forward pass."""
    sequences = pad_sequences(
        [pair.prompt_ids for pair in pairs] * 2,
        [*(pair.chosen_ids for pair in pairs), *(pair.rejected_ids for pair in pairs)],
        str(next(policy.parameters()).device),
    )
    logprobs, _ = policy(sequences, temperature=1.0)
    return logprobs.sum(1).view(2, len(pairs)).T
