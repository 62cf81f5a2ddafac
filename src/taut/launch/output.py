"""The folder a trained model is saved to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def new_folder(path: str, setting: str) -> Path:
    """Raises ValueError naming the setting where there is something at the path."""
    if Path(path).exists():
        raise ValueError(f"{setting} {path} exists and is never written into: choose another, or remove it")
    return Path(path)


def save_whole(save: Callable[[Path], None], output: Path) -> Path:
    """Saves beside and renames into place, so that a half-saved model never bears the name."""
    beside = output.with_name(f".{output.name}.writing")
    save(beside)
    return beside.rename(output)
