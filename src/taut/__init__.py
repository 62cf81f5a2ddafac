"""Taut: PPO for language models, with every token's update in view."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taut.config import Config
    from taut.launch.local import train
    from taut.launch.resume import fork, resume
    from taut.store import Run
    from taut.tasks.judge import Judge

__version__ = "0.1.0"
__all__ = ["Config", "Judge", "Run", "fork", "resume", "train"]

_HOMES = {
    "Config": "taut.config",
    "Judge": "taut.tasks.judge",
    "Run": "taut.store",
    "fork": "taut.launch.resume",
    "resume": "taut.launch.resume",
    "train": "taut.launch.local",
}
"""Imported when asked for: `taut --help` must wait for none of them, least of all for torch."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'taut' has no attribute {name!r}")
