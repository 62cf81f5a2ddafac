"""Whether the numbers are right: logprobs, mask, loss, KL, weights. A failure here is a bug, not bad luck."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from taut.checks.finding import Evidence, Finding, judge
from taut.config import Config
from taut.objective.reduce import masked, masked_mean
from taut.types import Batch


def finite(evidence: Evidence) -> Finding:
    """No optimiser step met a loss, gradient or logprob that is NaN or infinite."""
    problems = [step.not_finite for step in evidence.trace.steps if step.not_finite]
    if not problems:
        return Finding("pass", f"all numbers of {len(evidence.trace.steps)} optimiser steps are finite")
    measured = f"{len(problems)} of {len(evidence.trace.steps)} optimiser steps met {problems[0]}"
    return Finding("fail", f"{measured}: not taken; a smaller learning rate, or a bound on rewards")


def rescoring(evidence: Evidence) -> Finding | None:
    """The old logprobs are those of an independent pass, with another cut of the batch."""
    if evidence.costly is None or evidence.costly.probes is None:
        return None
    probe, old = evidence.costly.probes[0], evidence.trace.old_logprobs
    # A row that no optimiser step came to has no old logprobs.
    mask = evidence.batch.response_mask & ~old[:, :1].isnan()
    again = torch.empty_like(old)
    again[probe.rows] = probe.logprobs
    return _agreement("rescored in other micro-batches, old logprobs", again, old, mask, evidence.config)


def mismatch(evidence: Evidence) -> Finding | None:
    """The learner's old logprobs are those that the sampler recorded as it drew the tokens."""
    sampling, batch = evidence.config.sampling, evidence.batch
    if sampling.top_k or sampling.top_p < 1 or sampling.min_p > 0:
        return None  # the sampler's are then those of the truncated distribution
    if any(rollout.version < evidence.schedule.step - 1 for rollout in batch.rollouts):
        return None  # the sampler's are then those of older weights
    old = evidence.trace.old_logprobs
    mask = batch.response_mask & ~old[:, :1].isnan()
    return _agreement("sampler's and learner's logprobs", batch.behavior_logprobs, old, mask, evidence.config)


def _agreement(what: str, a: Tensor, b: Tensor, mask: Tensor, config: Config) -> Finding | None:
    gap = (masked(a, mask) - masked(b, mask)).abs()
    mean = masked_mean(gap, mask)
    if mean is None:
        return None
    bound = mean_bound(config)
    measured = f"{what} differ by {mean:.1e} nats on average, {gap.max().item():.1e} at most"
    advice = (
        f"above {bound:g} they are not of one model: look for dropout, another temperature, another compute type, "
        "stale weights"
    )
    return judge(mean <= bound, measured, advice)


def mean_bound(config: Config) -> float:
    """Nats by which two computations of a logprob may differ on average."""
    return 1e-4 if config.model.dtype == "float32" else 0.05


def micro_batches(evidence: Evidence) -> Finding | None:
    """The loss does not depend on how the batch is cut into forward passes."""
    if evidence.costly is None or evidence.costly.probes is None:
        return None
    one, other = (probe.scalars for probe in evidence.costly.probes)
    relative, absolute = (1e-4, 1e-6) if evidence.config.model.dtype == "float32" else (1e-2, 1e-3)
    names = [name for name in one if name.startswith("loss/")]
    apart = [
        n for n in names if abs(one[n] - other[n]) > absolute + relative * max(abs(one[n]), abs(other[n]))
    ]
    name = (apart or names)[0]
    measured = f"in two cuts of the batch {name} is {_told_apart(one[name], other[name])}"
    advice = "divide by counts of the whole minibatch, taken before the first forward pass"
    return judge(not apart, measured, advice)


def _told_apart(one: float, other: float) -> str:
    """Both numbers, with as many digits as it takes to see that they differ."""
    for digits in (6, 9, 17):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            return f"{texts[0]} and {texts[1]}"
    return f"{one:.6g} in both"


def mask(evidence: Evidence) -> Finding:
    """Every sampled token of a reply with a reward is trained on, and nothing else."""
    batch = evidence.batch
    wrong = batch.response_mask != expected_mask(batch)
    row, token = [int(x) for x in wrong.nonzero()[0]] if wrong.any() else (0, 0)
    trains = "is" if batch.response_mask[row, token] else "is not"
    length = int(batch.reply_lengths[row])
    bad = f"token {token} of reply {row}, which has {length} tokens, {trains} trained on"
    advice = f"{int(wrong.sum())} places are wrong; the mask is what was sampled, unshifted, of replies with a reward"
    measured = bad if wrong.any() else f"{int(batch.response_mask.sum())} tokens are trained on, and no pad"
    return judge(not wrong.any(), measured, advice)


def expected_mask(batch: Batch) -> Tensor:
    """[B, T], from the replies themselves."""
    expected = np.zeros(batch.response_mask.shape, dtype=bool)
    for row, (rollout, score) in zip(expected, zip(batch.rollouts, batch.scores, strict=True), strict=True):
        if score.scored:
            row[: len(rollout.ids)] = True if rollout.sampled is None else rollout.sampled
    return torch.from_numpy(expected)


def weights(evidence: Evidence) -> Finding | None:
    """The sampler samples from the weights that the learner has."""
    if evidence.costly is None:
        return None
    ours, theirs = evidence.costly.learner_weights[:12], evidence.costly.sampler_weights[:12]
    measured = f"after the sync the checksum of the learner's weights is {ours}, of the sampler's {theirs}"
    return judge(ours == theirs, measured, "the sampler did not load them, or not all of them")
