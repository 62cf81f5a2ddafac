"""What the standing checks of a run say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from taut.terminal.console import foreign

STYLES = {"error": "red", "warning": "yellow", "info": "green"}


def failing(checks: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The newest answers of those that do not pass, failures first."""
    return sorted((e for e in checks.values() if e["level"] != "info"), key=lambda e: e["level"] != "error")


def event_line(event: Mapping[str, Any], console: Console) -> Text:
    """An event in a line: a check with its name and what to do, any other as its message."""
    if event["kind"] != "check" and event["level"] == "info":
        return foreign(str(event["message"]), console)
    what = str(event["level"])
    if event["kind"] == "check":
        verb = {"error": "fails", "warning": "warns", "info": "passes"}[event["level"]]
        what = f"check {event['name']} {verb} since step {event['step']}"
    return foreign(f"{what}: {event['message']}", console, style=STYLES[event["level"]])


def checks_lines(checks: Mapping[str, Mapping[str, Any]], console: Console) -> list[Text]:
    """One line that says how many pass, and one for each that does not; none for a run without checks."""
    bad = failing(checks)
    lines = [event_line(event, console) for event in bad]
    passing = len(checks) - len(bad)
    if not checks:
        return []
    counts = [f"{passing} pass", *(f"{n} {verb}" for n, verb in _counted(bad))]
    return [Text(f"checks: {', '.join(counts)}", style="dim" if not bad else ""), *lines]


def _counted(events: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, str]]:
    for level, one, several in (("error", "fails", "fail"), ("warning", "warns", "warn")):
        count = sum(event["level"] == level for event in events)
        if count:
            yield count, one if count == 1 else several
