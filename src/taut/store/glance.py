"""How a run stands, from one snapshot: what lists of many runs show of each."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taut.store.codec import number
from taut.store.database import get_meta, reading, refuse_other_version

DEAD_AFTER_SECONDS = 60.0
LAST_STEPS = 5
"""How a run ended is the mean of so many steps: one step's number is mostly sampling noise."""


SETTLED_SECONDS = 2.0


class Stamp(NamedTuple):
    file: int
    size: int
    written: int  # in nanoseconds


class Signature(NamedTuple):
    """Of a store's files: another one where anything was written, or the directory was made anew."""

    database: Stamp
    log: Stamp | None

    @property
    def is_settled(self) -> bool:
        """Whether who read after taking it has read all that was written by then.

        A transaction is in the file before it can be read: what was written just now may show a moment later,
        with the same signature.
        """
        newest = max(stamp.written for stamp in self if stamp is not None)
        return time.time() - newest / 1e9 > SETTLED_SECONDS


def signature(directory: Path) -> Signature | None:
    """None where the directory holds no run."""
    database = _stamp(directory / "run.db")
    return None if database is None else Signature(database, _stamp(directory / "run.db-wal"))


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):  # to open a pipe is to wait for who writes into it
        return None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def status_of(meta: Mapping[str, Any]) -> str:
    """running, finished, failed, interrupted; dead: said to run, but without a heartbeat for a minute."""
    silent = time.time() - meta["heartbeat"]
    return "dead" if meta["status"] == "running" and silent > DEAD_AFTER_SECONDS else meta["status"]


def glance(path: Path) -> dict[str, Any]:
    """Of the store at `path`; a metric that the run never recorded is None.

    `created` and `heartbeat` are in seconds since the epoch. `reward/mean` is over the last 5 steps,
    `eval/accuracy` the last measured, `clip/binding` the mean of all steps. `parent` and `parent_step` say what
    a fork goes on from, `fault` which fault was put into it on purpose.
    `course` is the reward of every step, [N] float64.

    Raises ValueError where it cannot be read, or another version of the store wrote it.
    """
    with reading(path, in_passing=True) as db:
        meta = get_meta(db)
        refuse_other_version(meta, path.parent.name)
        steps = db.execute("SELECT COUNT(*) FROM batches WHERE step > 0 AND NOT superseded").fetchone()[0]
        rewards, accuracies, shares = (
            _values(db, name) for name in ("reward/mean", "eval/accuracy", "clip/binding")
        )
    return {
        "status": status_of(meta),
        "created": meta["created"],
        "heartbeat": meta["heartbeat"],
        "steps": steps,
        "reward/mean": _mean(rewards[-LAST_STEPS:]),
        "eval/accuracy": float(accuracies[-1]) if len(accuracies) else None,
        "clip/binding": _mean(shares),
        "parent": meta["facts"].get("parent"),
        "parent_step": meta["facts"].get("parent_step"),
        "fault": meta["facts"].get("fault"),
        "course": rewards,
    }


def _values(db: sqlite3.Connection, name: str) -> np.ndarray:
    rows = db.execute(
        "SELECT value FROM batches JOIN scalars ON batch_id = id "
        "WHERE NOT superseded AND name = ? ORDER BY step",
        (name,),
    )
    return np.array([number(value) for (value,) in rows], dtype=np.float64)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
