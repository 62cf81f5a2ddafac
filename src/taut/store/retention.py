"""Which batches keep their replies and optimiser steps. Scalars, constants and events always stay."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

KEPT_EVERY = 50
"""Of the older batches, every so many steps one is kept, so that a long run can be looked at from its beginning."""


@dataclass(frozen=True)
class RetentionPolicy:
    """Keep the `newest` batches, every 50th step's, and any with a failed check.

    Where these exceed `max_bytes`, the oldest go first; the newest batch always stays.
    """

    newest: int = 100
    max_bytes: float = 5e9


DEFAULT_RETENTION = RetentionPolicy()


class KeptBatch(NamedTuple):
    id: int
    step: int
    size: int
    """Bytes of its replies and updates."""
    superseded: bool
    check_failed: bool


def apply_retention(db: sqlite3.Connection, policy: RetentionPolicy) -> None:
    """Drops what `policy` does not keep. Runs inside the caller's transaction."""
    rows = db.execute(
        "SELECT id, step, size, superseded, EXISTS (SELECT 1 FROM events WHERE events.step = batches.step "
        "AND kind = 'check' AND level = 'error') FROM batches WHERE kept"
    )
    dropped = [(batch_id,) for batch_id in batches_to_drop([KeptBatch(*row) for row in rows], policy)]
    for table in ("replies", "optimizer_steps", "updates"):
        db.executemany(f"DELETE FROM {table} WHERE batch_id = ?", dropped)
    db.executemany("UPDATE batches SET kept = 0 WHERE id = ?", dropped)


def batches_to_drop(batches: Sequence[KeptBatch], policy: RetentionPolicy) -> list[int]:
    """Ids of the batches that `policy` drops, and of superseded ones: no reader asks for their replies."""
    current = sorted((batch for batch in batches if not batch.superseded), key=lambda batch: -batch.step)
    kept: set[int] = set()
    size = 0
    for age, batch in enumerate(current):
        if age < policy.newest or batch.step % KEPT_EVERY == 0 or batch.check_failed:
            size += batch.size
            if kept and size > policy.max_bytes:
                break  # this one and all older ones
            kept.add(batch.id)
    return [batch.id for batch in batches if batch.id not in kept]
