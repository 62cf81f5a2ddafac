"""The workshop's breakage switches: what each breaks, which standing check sees it, and which curve shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Breakage:
    """A fault of `checks/faults.py`, as the page tells of it."""

    check: str
    """The standing check that fires first."""
    what: str
    """What is wrong in the code."""
    why: str
    """What it does to the run, as measured in the built-in world."""
    watch: str
    """The metric in which it is seen best."""
    shows: str
    """What that is, in words."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Under which it shows; the healthy run beside it has them too."""


BREAKAGES: dict[str, Breakage] = {
    "no clip": Breakage(
        check="clip",
        what="The loss is ρ·A wherever the ratio goes, whatever ε says.",
        why="Nothing holds the policy to its batch, so every epoch pushes on. Seed 0 ends at a reward of "
        "0.31, and at 0.63 with the clip; meanwhile the clipped share reads 0.0 %, as in a run that hardly moves.",
        watch="kl/old_k3",
        shows="How far a batch carries the policy (KL, k3, nats a token)",
        settings={"algorithm.epochs": 8},
    ),
    "dropout on": Breakage(
        check="rescoring",
        what="The policy is left in training mode: every pass drops another tenth of what its layers say.",
        why="Two passes over the same tokens then disagree before anything was learned, by 0.3 nats a token, and the "
        "ratio is mostly noise.",
        watch="mismatch/mean",
        shows="What sampler and learner disagree by (nats)",
    ),
    "temperature mismatch": Breakage(
        check="mismatch",
        what="The sampler draws at temperature 1.3, and the learner takes the tokens for draws at 1.",
        why="The policy is credited for choices that it would make less often than it was seen to.",
        watch="mismatch/mean",
        shows="What sampler and learner disagree by (nats)",
    ),
    "mask shifted right": Breakage(
        check="mask",
        what="The mask of what trains is one place too far right.",
        why="The first token of every reply never trains, and the pad behind it does: here it is a sum's first digit.",
        watch="eval/accuracy",
        shows="Accuracy on held-out sums",
    ),
    "mean of each micro-batch": Breakage(
        check="micro-batches",
        what="The loss is a mean over each micro-batch, and these means are added up.",
        why="The gradient grows with the number of micro-batches, so that the memory of a machine changes the run. "
        "Here Adam divides most of it out again, and the reward shows little of it.",
        watch="grad/norm",
        shows="Norm of the gradient",
        settings={"learner.micro_batch_tokens": 80},
    ),
}
