"""A run while it trains, drawn in place."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from taut.config import Config
from taut.store import Run
from taut.terminal.checks import event_line, failing
from taut.terminal.console import foreign, glyphs_of
from taut.terminal.metrics import Shown, duration, shown_metrics
from taut.terminal.sparkline import sparkline
from taut.terminal.summary import print_training_summary

WIDEST = 100
"""Columns; on a wider terminal the eye would lose the line."""


class LiveView:
    """Observes `taut train` on a terminal: where it stands, and each metric's course so far."""

    def __init__(self, config: Config, console: Console) -> None:
        self.config = config
        self.console = console
        self.step = 0
        self.first_step: int | None = None
        self.series: dict[str, list[float]] = defaultdict(list)
        self.told: dict[str, Mapping[str, Any]] = {}
        self.waiting: tuple[str, int, int] | None = None
        self.started = time.monotonic()
        self.finished = False
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def wait(self, what: str, done: int, total: int) -> None:
        """Shows what the run waits for until it is done or, where `total` is 0, until it waits for nothing."""
        self.waiting = (what, done, total) if done < total or (what and not total) else None

    def observe(self, step: int, metrics: dict[str, float]) -> None:
        if self.first_step is None:
            # Loading and the first evaluation say nothing about the rest.
            self.first_step, self.started = step, time.monotonic()
        self.waiting = None
        self.step = step
        for name, value in metrics.items():
            self.series[name].append(value)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Keeps each check's newest answer, and every warning; where a resumed run goes on is said once, above."""
        if event["kind"] == "resume":
            self.console.print(event_line(event, self.console), soft_wrap=True)
            return
        own = event["name"] if event["kind"] == "check" else f"{event['kind']} {event['name']}"
        self.told[own] = event

    def finish(self, run: Run) -> None:
        self.finished = True
        self._live.stop()
        print_training_summary(run, self.console)

    def render(self) -> RenderableType:
        width = min(self.console.width, WIDEST) - 2
        steps = self.config.run.steps
        parts: list[RenderableType] = []
        if self.series or not self.waiting:
            parts = [self._bar(f"step {self.step}/{steps}", self.step, steps, width), Text()]
            parts.append(self._metrics(width))
        if bad := failing(self.told):
            parts += [Text(), *(event_line(event, self.console) for event in bad)]
        if self.waiting:
            what, done, total = self.waiting
            parts.append(Text(what, style="dim"))
            if total:
                parts.append(self._bar(f"{done}/{total}", done, total, width))
        return Padding(Group(self._title(), *parts), (0, 1))

    def _title(self) -> Text:
        dot = f" {glyphs_of(self.console).dot} "
        title = Text.assemble(foreign(self.config.run.name or "", self.console, style="bold"))
        for part in (self.config.algorithm.preset, self.config.model.path):
            title.append(dot, style="dim").append_text(foreign(part, self.console, style="dim"))
        title.overflow, title.no_wrap = "crop", True
        return title

    def _bar(self, place: str, done: int, total: int, width: int) -> Table:
        left = self._time()
        bar = ProgressBar(total, done, max(5, width - len(place) - len(left) - 2), complete_style="cyan")
        line = Table.grid(padding=(0, 1))
        line.add_row(place, bar, Text(left, style="dim"))
        return line

    def _time(self) -> str:
        passed = time.monotonic() - self.started
        if self.finished:
            return f"took {duration(passed)}"
        done = self.step - (self.first_step or 0)
        if self.waiting or not done:
            return duration(passed)
        return f"{duration(passed / done * (self.config.run.steps - self.step))} left"

    def _metrics(self, width: int) -> Table:
        bars = glyphs_of(self.console).bars
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", style="dim", no_wrap=True)
        table.add_column(style="cyan", no_wrap=True)
        for shown in shown_metrics(self.config.algorithm.surrogate):
            values = self.series[shown.metric]
            if values and (any(values) or not shown.only_above_zero):
                course = sparkline(values, max(8, width - 40), bars, shown.floor)
                table.add_row(shown.label, shown.format(values[-1]), _change(shown, values), course)
        return table


def _change(shown: Shown, values: list[float]) -> str:
    """Since the first value there is."""
    return f"{values[-1] - values[0]:+.3f}" if shown.change and len(values) > 1 else ""
