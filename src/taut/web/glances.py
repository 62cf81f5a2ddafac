"""The list of runs, read again only where something was written."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from taut.store.glance import Signature, glance, signature, status_of
from taut.store.runs import UNREADABLE
from taut.web.requests import directory_of

POINTS = 40
"""Of the small curve in a row."""

Known = tuple[Signature, dict[str, Any]]
"""A row, and what the files were when it was read."""


class Glances:
    """A row for each run in `root`, as `taut runs --json` has it, with `heartbeat` and `course`.

    Shared by all streams and requests. Of 500 runs that nothing happens to, a look costs two `stat` each.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rows: dict[str, Known] = {}

    def rows(self) -> dict[str, dict[str, Any]]:
        """By name, oldest first. A row that is equal to the last look's is the same object."""
        known = self._rows  # replaced as a whole: who reads a slow disk holds up no one else
        looked = {name: self._look(name, known.get(name)) for name in _names(self.root)}
        self._rows = {name: seen for name, seen in looked.items() if seen is not None}
        found = {name: row for name, (_, row) in self._rows.items()}
        return dict(sorted(found.items(), key=lambda item: (item[1]["created"], item[0])))

    def _look(self, name: str, stored: Known | None) -> Known | None:
        now = signature(self.root / name)  # before reading: what is written meanwhile is read again
        if now is None:
            return None
        row = stored[1] if stored and stored[0] == now and now.is_settled else _read(self.root / name)
        if row["status"] == "running":  # only the clock says that a run is dead
            row = row | {"status": status_of(row)}
        return now, row


def _read(directory: Path) -> dict[str, Any]:
    try:
        row = glance(directory / "run.db")
    except ValueError:
        row = UNREADABLE | {"heartbeat": None, "course": np.zeros(0)}
    return {"run": directory.name, **row, "course": thinned(row["course"]).tolist()}


def thinned(values: np.ndarray) -> np.ndarray:
    """At most `POINTS` numbers: means of neighbours, where there are more."""
    if len(values) <= POINTS:
        return values
    edges = np.linspace(0, len(values), POINTS + 1).astype(int)
    return np.array([values[start:end].mean() for start, end in pairwise(edges)])


def left_out(root: Path) -> list[str]:
    """Names of runs that no address leads to, so that they are not listed: they hold what cannot be printed."""
    return sorted(
        path.parent.name for path in root.glob("*/run.db") if not directory_of(root, path.parent.name)
    )


def _names(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if _is_directory(entry)]
    except OSError:  # no run has been made yet
        return []
    return [name for name in names if directory_of(root, name)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
