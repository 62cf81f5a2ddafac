"""A run while it trains, where there is no terminal to draw on: a line a step, to read or to parse."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from taut.config import Config
from taut.store import Run
from taut.store.codec import to_json
from taut.terminal.checks import event_line
from taut.terminal.metrics import duration, shown_metrics
from taut.terminal.summary import print_training_summary, summary_row

IN_A_LINE = (
    *("reward/mean", "reply/excluded", "eval/accuracy", "eval/failed"),
    *("clip/binding", "kl/old_k1", "entropy", "rate/tokens"),
)


class LinesView:
    """Observes `taut train`, one line a step."""

    def __init__(self, config: Config, console: Console) -> None:
        self.config = config
        self.console = console
        self.announced = ""
        self.first_step: int | None = None
        self.failing: set[str] = set()
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def wait(self, what: str, done: int, total: int) -> None:
        """Says once what the run waits for."""
        if what and what != self.announced:
            self.announced = what
            self.console.print(what, soft_wrap=True)

    def observe(self, step: int, metrics: dict[str, float]) -> None:
        steps = self.config.run.steps
        words = [f"step {step:>{len(str(steps))}}/{steps}"]
        for shown in shown_metrics(self.config.algorithm.surrogate):
            value = metrics.get(shown.metric)
            if shown.metric in IN_A_LINE and value is not None and (value or not shown.only_above_zero):
                words.append(f"{shown.label} {shown.format(value)}")
        if self.first_step is None:
            self.first_step, self.started = step, time.monotonic()
            if len(words) == 1:  # nothing was evaluated
                return
        elif step < steps:
            left = (time.monotonic() - self.started) / (step - self.first_step) * (steps - step)
            words.append(f"{duration(left)} left")
        self.console.print("  ".join(words), soft_wrap=True)

    def tell(self, event: Mapping[str, Any]) -> None:
        """A warning or an error, that a check passes again, and where a resumed run goes on."""
        if event["level"] != "info" or event["kind"] == "resume" or event["name"] in self.failing:
            self.console.print(event_line(event, self.console), soft_wrap=True)
        if event["kind"] == "check":
            (self.failing.discard if event["level"] == "info" else self.failing.add)(event["name"])

    def finish(self, run: Run) -> None:
        print_training_summary(run, self.console)


class JsonView:
    """Observes `taut train`, one JSON object a step and a last one with the summary."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def wait(self, what: str, done: int, total: int) -> None:
        pass

    def observe(self, step: int, metrics: dict[str, float]) -> None:
        print(to_json({"step": step, **metrics}), flush=True)

    def tell(self, event: Mapping[str, Any]) -> None:
        pass

    def finish(self, run: Run) -> None:
        print(to_json(summary_row(run)), flush=True)
