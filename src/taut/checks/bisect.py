"""Which replies bring about a number that is not finite: the fewest that do it together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from taut.training.learner import Learner
from taut.types import Batch, Rows, Schedule, Trace


@dataclass(frozen=True)
class Culprits:
    """Replies that bring the optimiser step about which the loop stopped, and of which none can be left out."""

    rows: Rows
    of: int
    """How many replies the minibatch holds."""
    epoch: int
    minibatch: int
    why: str
    """What they alone stop on, with the token."""


class Witness:
    """An inspector of the loop that keeps what it has seen of the last step."""

    seen: tuple[Batch, Schedule, Trace] | None = None

    def before_update(self, batch: Batch, schedule: Schedule) -> None: ...

    def after_step(
        self, batch: Batch, schedule: Schedule, trace: Trace, metrics: Mapping[str, float]
    ) -> None:
        self.seen = batch, schedule, trace


def find_culprits(learner: Learner, batch: Batch, schedule: Schedule, trace: Trace) -> Culprits:
    """Of the optimiser step that halted the trace; the learner is as it was then.

    Raises ValueError where all numbers were finite, and where the step's replies stop nothing any more.
    """
    if not trace.halted:
        raise ValueError(f"step {schedule.step} met only finite numbers: there is nothing to bisect")
    stopped = trace.steps[-1]

    def why(rows: Sequence[int]) -> str:
        step = learner.rehearse(batch, sorted(rows), schedule, trace)
        return "" if step is None else step.not_finite

    if not why(stopped.rows):
        raise ValueError(f"step {schedule.step} was stopped, and its replies are finite when tried again")
    rows = sorted(fewest(stopped.rows, lambda some: bool(why(some))))
    return Culprits(rows, len(stopped.rows), stopped.epoch, stopped.minibatch, why(rows))


def fewest(rows: Sequence[int], do_it: Callable[[Sequence[int]], bool], beside: Sequence[int] = ()) -> Rows:
    """Some of `rows` which, beside others, do it and none of which can be left out; all of `rows` do.

    By halves, in about log2 as many tries as there are rows for each that is found (QuickXplain, Junker 2004).
    """
    if len(rows) == 1:
        return list(rows)
    left, right = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    for half in (left, right):
        if do_it([*beside, *half]):
            return fewest(half, do_it, beside)
    of_right = fewest(right, do_it, [*beside, *left])
    # The other half's share may be needed no more once these are chosen.
    return [*fewest(left, do_it, [*beside, *of_right]), *of_right]
