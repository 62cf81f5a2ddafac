"""Training a reward model on preference pairs: Bradley-Terry, then centred."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from taut.config import RewardModelConfig
from taut.models.reward_model import RewardModel
from taut.objective.preference import bradley_terry_loss, preference_statistics
from taut.tasks.preferences import PreferencePair
from taut.training.micro_batch import micro_batches
from taut.training.supervised import OnStep, add_gradient, draw_from, minimize


def train_reward_model(
    model: RewardModel, pairs: Sequence[PreferencePair], config: RewardModelConfig, on_step: OnStep
) -> None:
    """Minimises the mean Bradley-Terry loss of a batch, then centres the chosen replies' rewards on 0.

    Raises NonFiniteError before the weights are touched where a loss or gradient is not finite.
    """
    draw = draw_from(pairs, config.reward_model.batch_size, config.run.seed)
    tokens = config.learner.micro_batch_tokens
    minimize(
        model.trained_parameters(),
        lambda step: accumulate_bradley_terry(model, draw(step), tokens),
        config.run.steps,
        config.optimizer,
        on_step,
    )
    center(model, pairs, tokens)


def accumulate_bradley_terry(
    model: RewardModel, pairs: Sequence[PreferencePair], micro_batch_tokens: int
) -> dict[str, float]:
    """Adds the gradient of the mean loss over all pairs, however they are cut. Returns loss and accuracy."""
    loss, right = 0.0, 0
    for rows in pair_micro_batches(pairs, micro_batch_tokens):
        part = [pairs[row] for row in rows]
        chosen, rejected = pair_rewards(model, part)
        margin = chosen.new_tensor([pair.margin for pair in part])
        loss += add_gradient(
            bradley_terry_loss(chosen, rejected, margin).sum() / len(pairs), "reward model's"
        )
        right += int((chosen > rejected).sum())
    return {"loss": loss, "accuracy": right / len(pairs)}


@torch.no_grad()
def center(model: RewardModel, pairs: Sequence[PreferencePair], micro_batch_tokens: int) -> None:
    """The mean reward of the chosen replies becomes 0."""
    total: Tensor | float = 0.0
    for rows in pair_micro_batches(pairs, micro_batch_tokens):
        total = total + model.last_hidden([pairs[row].texts[0] for row in rows]).double().sum(0)
    assert isinstance(total, Tensor), "there is a pair"
    model.center(total / len(pairs))


@torch.no_grad()
def judge(model: RewardModel, pairs: Sequence[PreferencePair], micro_batch_tokens: int) -> dict[str, float]:
    """Accuracy, mean margin and calibration error of the rewards on these pairs."""
    parts = [
        pair_rewards(model, [pairs[row] for row in rows])
        for rows in pair_micro_batches(pairs, micro_batch_tokens)
    ]
    return preference_statistics(torch.cat([chosen - rejected for chosen, rejected in parts]))


def pair_rewards(model: RewardModel, pairs: Sequence[PreferencePair]) -> tuple[Tensor, Tensor]:
    """Rewards of the chosen and of the rejected replies, both [n], from one forward pass."""
    chosen, rejected = zip(*(pair.texts for pair in pairs), strict=True)
    rewards = model([*chosen, *rejected])
    return rewards[: len(pairs)], rewards[len(pairs) :]


def pair_micro_batches(pairs: Sequence[PreferencePair], micro_batch_tokens: int) -> list[list[int]]:
    """Rows of pairs whose two texts go into one forward pass, side by side."""
    return micro_batches(list(range(len(pairs))), [2 * pair.length for pair in pairs], micro_batch_tokens)
