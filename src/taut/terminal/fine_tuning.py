"""A fine-tuning run while it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 20
"""Where there is no terminal to draw on, so many lines in all."""


@contextmanager
def fine_tuning_view(steps: int, console: Console) -> Iterator[Callable[[int, float], None]]:
    """Gives what to call after each step with its number, from 1, and its loss."""
    columns = (
        TextColumn("fine-tuning"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"))

        def on_step(step: int, loss: float) -> None:
            progress.update(task, completed=step, loss=loss)
            every = -(-steps // LINES)
            if not console.is_terminal and (step % every == 0 or step == steps):
                console.print(f"step {step}/{steps}  loss {loss:.4f}", soft_wrap=True)

        yield on_step
