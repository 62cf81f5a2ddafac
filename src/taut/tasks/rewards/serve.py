"""The process of a reward function: `python -m taut.tasks.rewards.serve FD PIPE`."""

from __future__ import annotations

import asyncio
from typing import Any

from taut.tasks.process.serve import run
from taut.tasks.rewards.contract import RewardFunction, call_function, check_signature


def _handle(function: RewardFunction, name: str, request: tuple[str, Any], runner: asyncio.Runner) -> Any:
    kind, content = request
    if kind == "check":
        return None if content is None else check_signature(function, name, content)
    return call_function(function, name, content, runner)


if __name__ == "__main__":
    run(_handle, "reward function")
