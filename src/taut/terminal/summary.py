"""How a run stands, in a few lines."""

from __future__ import annotations

import shlex
import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from taut.checks.gauge import describe_outcome, steps_per_batch
from taut.store import Run
from taut.store.compare import summary_rows
from taut.store.glance import LAST_STEPS
from taut.store.runs import how_to_name
from taut.terminal.checks import checks_lines, event_line
from taut.terminal.console import foreign, glyphs_of, printable
from taut.terminal.metrics import duration, number, shown_metrics
from taut.terminal.sparkline import sparkline

COURSE_WIDTH = 16


def summary_row(run: Run) -> dict[str, Any]:
    """A run's results as one JSON object: where it is, how it ended, and its gauge."""
    results = summary_rows([run])[0]
    return {
        **results,
        "directory": str(run.directory),
        "eval/greedy": run.last("eval/greedy"),
        "eval/failed": run.last("eval/failed"),
        "reply/excluded": float(run.series("reply/excluded")[1].sum()),
        "gauge": gauge_of(run, results["clip/binding"]),
        "checks": {name: event["level"] for name, event in run.checks().items()},
    }


def print_training_summary(run: Run, console: Console) -> None:
    """What `taut train` ends with: how the run ended, where it is, and the command that shows it."""
    name = shlex.quote(printable(how_to_name(run.directory), console))
    follow = Text(f" taut show {name}", style="bold").append("   the replies, token by token", style="dim")
    where = Text(" saved in ", style="dim").append_text(foreign(str(run.directory), console))
    console.print(Padding(outcome(run, console), 1))
    for line in checks_lines(run.checks(), console):
        console.print(Padding(line, (0, 1)))
    console.print(where, follow, sep="\n", soft_wrap=True)  # a folded command could not be copied


def run_summary(run: Run, console: Console) -> RenderableType:
    """What `taut show` begins with."""
    dot = f" {glyphs_of(console).dot} "
    algorithm, model = run.config.get("algorithm", {}), run.config.get("model", {})
    seconds = float(run.series("time/step")[1].sum())
    facts = [
        run.status,
        f"{run.step_count} steps in {duration(seconds)}",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created)),
    ]
    settings = [
        str(algorithm.get("preset", "")),
        str(model.get("path", "")),
        f"{_optimizer_steps(run)} a batch",
    ]
    return Padding(
        Group(
            foreign(run.name, console, style="bold"),
            Text(dot.join(facts), style="dim"),
            foreign(dot.join(settings), console, style="dim"),
            "",
            outcome(run, console),
            "",
            *checks_lines(run.checks(), console),
            *_warnings(run, console),
        ),
        (0, 1),
    )


def outcome(run: Run, console: Console) -> Table:
    """Reward, held-out accuracy, clipped share and failed replies, each with its course and what it means."""
    results = summary_row(run)
    greedy, share = results["eval/greedy"], results["clip/binding"]
    surrogate = run.config.get("algorithm", {}).get("surrogate", "clipped")
    meanings = {
        "reward/mean": f"mean of the last {LAST_STEPS} steps",
        "reply/excluded": "replies of all steps together, which trained nothing",
        "eval/accuracy": "" if greedy is None else f"greedy {number(greedy)}",
        "eval/failed": "in neither",
        "clip/binding": "; ".join(filter(None, ["mean of all steps", gauge_of(run, share)])),
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(style="dim")
    for shown in shown_metrics(surrogate):
        value = results[shown.metric] if shown.metric in meanings else None
        if value is not None and (value or not shown.only_above_zero):
            series = run.series(shown.metric)[1].tolist()
            course = sparkline(series, COURSE_WIDTH, glyphs_of(console).bars, shown.floor)
            table.add_row(shown.label, shown.format(value), course, meanings[shown.metric])
    return table


def gauge_of(run: Run, share: float | None) -> str:
    """The clipped share in words, where the bounds it is judged by apply, and the policy has not collapsed."""
    entropies = run.series("entropy")[1][-LAST_STEPS:]
    entropy = float(entropies.mean()) if len(entropies) else None
    return describe_outcome(run.config.get("algorithm", {}), share, entropy)


def _optimizer_steps(run: Run) -> str:
    steps = steps_per_batch(run.config.get("algorithm", {}))
    return f"{steps} optimiser step{'s' if steps > 1 else ''}"


def _warnings(run: Run, console: Console) -> list[RenderableType]:
    """The newest events that are more than information, but for the checks'."""
    events = [e for e in run.events() if e["level"] != "info" and e["kind"] != "check"][-5:]
    return [event_line(event, console) for event in events]
