"""A folder of runs: list them, find one, name a new one."""

from __future__ import annotations

import difflib
import os
import secrets
import time
from pathlib import Path
from typing import Any

from taut.config import Config
from taut.store.compare import summary_rows
from taut.store.run import Run

LONGEST_NAME = 255  # bytes
UNREADABLE = {
    "status": "unreadable", "created": 0.0, "steps": 0, "reward/mean": None, "eval/accuracy": None,
    "clip/binding": None, "parent": None, "parent_step": None, "fault": None,
}  # fmt: skip
"""The row of a run whose store is damaged or of another Taut."""


def list_runs(root: Path | str) -> list[dict[str, Any]]:
    """A row, as of `summary_rows`, for each run directly in `root`, oldest first; none where `root` does not exist."""
    rows = [_row(path.parent) for path in Path(root).glob("*/run.db")]
    return sorted(rows, key=lambda row: (row["created"], row["run"]))


def find_run(root: Path | str, name_or_path: Path | str) -> Run:
    """The run of that name in `root`, or in that directory.

    Raises:
        ValueError: there is none, with the nearest name; or it cannot be read.
    """
    for directory in (Path(root) / name_or_path, Path(name_or_path)):
        if (directory / "run.db").is_file():
            return Run.open(directory)
    names = [row["run"] for row in list_runs(root)]
    nearest = difflib.get_close_matches(str(name_or_path), names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else "`taut runs` lists what there is"
    raise ValueError(f"no run {str(name_or_path)!r} in {str(root)!r}: {hint}")


def how_to_name(directory: Path) -> str:
    """A run as commands take it: by its name where they look for it, else by its directory."""
    return directory.name if directory.parent == Path(Config().run.root) else str(directory)


def new_run_directory(root: Path | str, name: str | None = None) -> Path:
    """A directory in `root` that does not exist yet, for `RunWriter.create` to make.

    Without a `name` it is date, time and a random suffix.

    Raises:
        ValueError: `name` is taken, or is not a plain folder name.
    """
    if name is None:
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    if name in ("", "..") or name != Path(name).name or not name.isprintable():
        raise ValueError(
            f"run name {name!r} is not a plain folder name: leave out slashes and control characters"
        )
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(
            f"run name {name[:40]}... has {len(name.encode())} bytes: {LONGEST_NAME} are the most a folder's name has"
        )
    _check_is_writable(Path(root))
    directory = Path(root) / name
    if directory.exists():
        raise ValueError(f"run {name!r} exists in {str(root)!r}: choose another name, or leave the name out")
    return directory


def _check_is_writable(root: Path) -> None:
    """Raises ValueError where no folder can be made in `root`, which need not be there yet."""
    there = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(
            f"run.root {str(root)!r} cannot be made: {str(there)!r} is a file; choose another place"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"run.root {str(root)!r} cannot be written into: choose a place where you may write")


def _row(directory: Path) -> dict[str, Any]:
    try:
        [row] = summary_rows([Run.open(directory)])
    except ValueError:
        return {"run": directory.name, **UNREADABLE}
    return row
