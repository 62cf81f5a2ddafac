"""A run with a fault put into it on purpose: `python -m taut.web.broken FAULT --section.key value ...`.

The workshop starts it as a process of its own, which does nothing else. It trains as `taut train` does, in plain lines,
and its store says under `facts` which `fault` it has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0 done, 2 wrong input. No command of `taut` leads here, and no setting."""
    from taut.checks.faults import FAULTS, FOR_GOOD
    from taut.config import resolve
    from taut.config.resolve import parse_flags
    from taut.launch import local

    fault, *flags = arguments
    if fault not in FAULTS:
        print(f"taut.web.broken: there is no fault {fault!r}, but {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    machine_facts = local.machine_facts

    def marked(device: str) -> dict[str, object]:
        return {**machine_facts(device), "fault": fault}

    FOR_GOOD.setattr(local, "machine_facts", marked)
    FAULTS[fault](FOR_GOOD)
    config, _ = resolve(parse_flags(flags))
    try:
        local.train(config, [_say_step], _say_wait, on_event=_say_event)
    except KeyboardInterrupt:
        return 130
    return 0


def _say_step(step: int, metrics: Mapping[str, float]) -> None:
    if "reward/mean" in metrics:  # step 0 evaluates only
        print(f"step {step}  reward {metrics['reward/mean']:.3f}", flush=True)


_said: set[str] = set()


def _say_wait(what: str, done: int, total: int) -> None:
    """Once."""
    if what and what not in _said:
        _said.add(what)
        print(what, flush=True)


def _say_event(event: Mapping[str, Any]) -> None:
    if event["level"] != "info":
        print(f"{event['level']}: {event['name']}: {event['message']}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
