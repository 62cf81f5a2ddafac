"""What a run's store gained since a reader last looked."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NamedTuple, Self

from taut.store.codec import from_json, number
from taut.store.database import get_meta, reading, refuse_other_version
from taut.store.glance import status_of

MOST_BATCHES, MOST_EVENTS = 2_000, 2_000
"""In one increment: of a long run the reader asks again."""
EVENT_COLUMNS = ("id", "time", "step", "kind", "level", "name", "message", "data")


class Cursor(NamedTuple):
    """How far a reader has read. Ids only grow, so that what has a greater one is new."""

    made: int
    """When the run was created, in microseconds: a run of the same name that is made anew has another."""
    batch: int = 0
    event: int = 0
    superseded: int = 0
    """How many steps were superseded."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The inverse of `str`; None where `text` is no cursor."""
        parts = text.split(".")
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            return None
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return ".".join(map(str, self))


def read_increment(path: Path, after: Cursor | None) -> tuple[dict[str, Any], Cursor]:
    """What the store at `path` holds beyond `after`, and how far that leads.

    The increment's keys: `reset`, true where a reader must forget what it has, since the run was made anew;
    `status`, `created`, `heartbeat`; `ids` and `steps`, a pair for each new batch; `scalars`, by name a list as
    long, None where the batch has no such scalar; `superseded`, the ids of all batches that a resume took again,
    or None where there are no more than the reader knows; `events`; `more`, true where it should ask at once.

    Raises ValueError where it cannot be read, or another version of the store wrote it.
    """
    with reading(path) as db:
        meta = get_meta(db)
        refuse_other_version(meta, path.parent.name)
        made = int(meta["created"] * 1e6)
        known = after if after is not None and after.made == made else Cursor(made)
        superseded = [row[0] for row in db.execute("SELECT id FROM batches WHERE superseded ORDER BY id")]
        ids, steps, scalars, last = _batches(db, known.batch)
        events = _events(db, known.event)
    increment = {
        "reset": known != after,
        "status": status_of(meta),
        "created": meta["created"],
        "heartbeat": meta["heartbeat"],
        "ids": ids,
        "steps": steps,
        "scalars": scalars,
        "superseded": superseded if len(superseded) != known.superseded else None,
        "events": events,
        "more": len(ids) == MOST_BATCHES or len(events) == MOST_EVENTS,
    }
    return increment, Cursor(made, last, events[-1]["id"] if events else known.event, len(superseded))


def _batches(
    db: sqlite3.Connection, after: int
) -> tuple[list[int], list[int], dict[str, list[float | None]], int]:
    """Ids, steps and scalars of the batches above `after`, and the greatest id."""
    query = "SELECT id, step FROM batches WHERE id > ? AND NOT superseded ORDER BY id LIMIT ?"
    rows = db.execute(query, (after, MOST_BATCHES)).fetchall()
    if not rows:
        return [], [], {}, after
    at = {batch: place for place, (batch, _) in enumerate(rows)}
    last = rows[-1][0]
    scalars: dict[str, list[float | None]] = {}
    query = "SELECT batch_id, name, value FROM scalars WHERE batch_id > ? AND batch_id <= ?"
    for batch, name, value in db.execute(query, (after, last)):
        if batch in at:
            scalars.setdefault(name, [None] * len(rows))[at[batch]] = number(value)
    return list(at), [step for _, step in rows], scalars, last


def _events(db: sqlite3.Connection, after: int) -> list[dict[str, Any]]:
    query = f"SELECT {', '.join(EVENT_COLUMNS)} FROM events WHERE id > ? ORDER BY id LIMIT ?"
    rows = db.execute(query, (after, MOST_EVENTS)).fetchall()
    return [dict(zip(EVENT_COLUMNS, (*row[:-1], from_json(row[-1])), strict=True)) for row in rows]
