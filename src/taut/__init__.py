"""Taut: PPO for language models, with every token's update in view."""

from typing import TYPE_CHECKING, Any

from taut.config import Config
from taut.store import Run

if TYPE_CHECKING:
    from taut.launch.local import train

__version__ = "0.1.0"
__all__ = ["Config", "Run", "train"]


def __getattr__(name: str) -> Any:
    if name == "train":  # brings torch, which `taut --help` must not wait for
        from taut.launch.local import train

        return train
    raise AttributeError(f"module 'taut' has no attribute {name!r}")
