"""Faults that are known to go unnoticed, each put into a run on purpose to see its standing check fire.

The tests inject every one of them, and the workshop those that teach most. None can be reached by a setting: a run is
broken only by code that says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from taut.models.policy import Policy
from taut.objective.advantage import place_rewards
from taut.objective.policy import clipped_surrogate
from taut.rollout.local import LocalSampler
from taut.training import advantages, ppo, update
from taut.training import loss as loss_module
from taut.training.learner import LocalLearner


class Patch(Protocol):
    """What puts something in the place of a name: pytest's monkeypatch, or `FOR_GOOD`."""

    def setattr(self, target: Any, name: str, value: Any, /) -> None: ...


class _ForGood:
    def setattr(self, target: Any, name: str, value: Any, /) -> None:
        setattr(target, name, value)


FOR_GOOD = _ForGood()
"""For a process that does nothing else."""


def forget_the_clip(patch: Patch) -> None:
    """The loss is ρ A wherever ρ goes, whatever `clip_low` and `clip_high` say."""

    def unclipped(ratio: Any, scale: Any, mask: Any, low: Any, high: Any, dual: Any, weights: Any) -> Any:
        return clipped_surrogate(ratio, scale, mask, None, None, None, weights)

    patch.setattr(loss_module, "clipped_surrogate", unclipped)


def use_another_temperature(patch: Patch) -> None:
    """The sampler draws at 1.3, and the learner knows nothing of it."""
    generate = LocalSampler.generate
    patch.setattr(
        LocalSampler,
        "generate",
        lambda sampler, prompts, sampling, *rest: generate(
            sampler, prompts, replace(sampling, temperature=1.3), *rest
        ),
    )


def use_dropout(patch: Patch) -> None:
    """The policy stays in training mode, and a tenth of what its layers say is dropped in every pass."""
    init = LocalLearner.__init__

    def with_dropout(learner: LocalLearner, *arguments: Any) -> None:
        init(learner, *arguments)
        for module in learner.policy.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
                module.train()

    patch.setattr(LocalLearner, "__init__", with_dropout)


def shift_mask(by: int) -> Callable[[Patch], None]:
    """The mask of what trains is moved: right by 1, or left by -1, where no reply's last token trains."""

    def use(patch: Patch) -> None:
        collate = ppo.collate

        def shifted(rollouts: Any, scores: Any) -> Any:
            batch = collate(rollouts, scores)
            mask, width = batch.response_mask, batch.response_mask.shape[1]
            return replace(batch, response_mask=F.pad(mask, (1, 1))[:, 1 - by : 1 - by + width])

        patch.setattr(ppo, "collate", shifted)

    return use


def average_each_micro_batch(patch: Patch) -> None:
    """The loss is a mean over each micro-batch, and these means are added up."""
    policy_loss = update.policy_loss

    def averaged(logprobs: Any, entropy: Any, old: Any, part: Any, config: Any, beta: Any, _: Any) -> Any:
        return policy_loss(logprobs, entropy, old, part, config, beta, part.mask.sum().item())

    patch.setattr(update, "policy_loss", averaged)


def forget_the_end(patch: Patch) -> None:
    """The sampler knows no end of sequence, so that every reply is cut."""
    init = LocalSampler.__init__
    patch.setattr(
        LocalSampler,
        "__init__",
        lambda sampler, policy, tokenizer, end_ids, *rest: init(sampler, policy, tokenizer, [], *rest),
    )


def let_the_sampler_go_stale(patch: Patch) -> None:
    """It holds a copy of the weights, and never loads another."""
    init = LocalSampler.__init__
    patch.setattr(
        LocalSampler,
        "__init__",
        lambda sampler, policy, *rest: init(sampler, copy.deepcopy(policy), *rest),
    )
    patch.setattr(
        LocalSampler, "load_weights", lambda sampler, _, version: setattr(sampler, "version", version)
    )


def round_logprobs(patch: Patch) -> None:
    """The learner's logprobs pass through bfloat16."""
    forward = Policy.forward

    def rounded(policy: Policy, *arguments: Any) -> Any:
        logprobs, entropy = forward(policy, *arguments)
        return logprobs.bfloat16().float(), entropy

    patch.setattr(Policy, "forward", rounded)


def round_old_logprobs(patch: Patch) -> None:
    """Those that are stored for the minibatches after the first pass through bfloat16."""
    score = LocalLearner.score

    def rounded(learner: LocalLearner, *arguments: Any) -> Any:
        batch = score(learner, *arguments)
        assert batch.old_logprobs is not None
        return replace(batch, old_logprobs=batch.old_logprobs.bfloat16().float())

    patch.setattr(LocalLearner, "score", rounded)


def detach_kl(patch: Patch) -> None:
    """The KL in the loss has no gradient."""
    kl = loss_module.token_kl
    patch.setattr(loss_module, "token_kl", lambda *arguments: kl(*arguments).detach())


def forget_kl_in_reward(patch: Patch) -> None:
    """The KL is left out of the token rewards."""
    patch.setattr(
        advantages, "kl_penalized_rewards", lambda rewards, _, mask, __: place_rewards(rewards, mask)
    )


def let_the_reference_move(patch: Patch) -> None:
    """The reference is the policy itself."""
    patch.setattr(Policy, "reference", lambda policy: policy)


def forget_the_mask(patch: Patch) -> None:
    """A statistic over pads: the advantages' mean."""
    patch.setattr(advantages, "whiten", lambda x, mask: (x - x.mean()) / x.std())


FAULTS: dict[str, Callable[[Patch], None]] = {
    "no clip": forget_the_clip,
    "temperature mismatch": use_another_temperature,
    "dropout on": use_dropout,
    "mask shifted right": shift_mask(1),
    "mask shifted left": shift_mask(-1),
    "mean of each micro-batch": average_each_micro_batch,
    "missing end of sequence": forget_the_end,
    "stale weights": let_the_sampler_go_stale,
    "bfloat16 logprobs": round_logprobs,
    "bfloat16 old logprobs": round_old_logprobs,
    "KL in the loss without gradient": detach_kl,
    "KL left out of the reward": forget_kl_in_reward,
    "reference that moves along": let_the_reference_move,
    "pads in a statistic": forget_the_mask,
}
"""By name; each takes a `Patch`, and what it puts in place acts on the runs that begin afterwards."""
