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
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Under which it shows; the healthy run beside it has them too."""


BREAKAGES: dict[str, Breakage] = {
    "no clip": Breakage(
        check="clip",
        what="The loss is ρ·A wherever the ratio goes, whatever ε says.",
        why="Nothing holds the policy to its batch: every epoch pushes on.",
        watch="ratio/max",
        settings={"algorithm.epochs": 8},
    ),
    "dropout on": Breakage(
        check="rescoring",
        what="The policy is left in training mode, so every pass drops another tenth of what its layers say.",
        why="Two passes over the same tokens disagree before anything was learned.",
        watch="mismatch/mean",
    ),
    "temperature mismatch": Breakage(
        check="mismatch",
        what="The sampler draws at temperature 1.3, and the learner takes the tokens for draws at 1.",
        why="The ratio is taken against a distribution that nobody sampled from.",
        watch="mismatch/mean",
    ),
    "mask shifted left": Breakage(
        check="mask",
        what="The mask of what trains is one place too far left: no reply's end mark is trained on.",
        why="The policy is never paid for ending, nor charged for going on.",
        watch="reply/length",
    ),
    "mean of each micro-batch": Breakage(
        check="micro-batches",
        what="The loss is a mean over each micro-batch, and these means are added up.",
        why="The gradient grows with the number of micro-batches.",
        watch="grad/norm",
        settings={"learner.micro_batch_tokens": 80},
    ),
}
