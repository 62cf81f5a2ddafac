"""A run of SFT, a reward model or DPO while it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 20
"""Where there is no terminal to draw on, so many lines in all."""


@contextmanager
def fine_tuning_view(
    what: str, steps: int, console: Console
) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Gives what to call after each step with its number, from 1, and its metrics."""
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[metrics]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps, metrics="")

        def on_step(step: int, metrics: Mapping[str, float]) -> None:
            shown = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            progress.update(task, completed=step, metrics=shown)
            every = -(-steps // LINES)
            if not console.is_terminal and (step % every == 0 or step == steps):
                console.print(f"step {step}/{steps}  {shown}", soft_wrap=True)

        yield on_step
