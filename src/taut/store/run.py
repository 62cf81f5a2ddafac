"""The reading side of a run directory: tables of a run that is over, still written, or was killed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from taut.store.batch import Sighting, StoredBatch, StoredUpdate, pad, padded_batch, token_rows
from taut.store.codec import DamagedError, floats_from_blob, from_json, number, reply_from_row
from taut.store.database import REPLY_COLUMN_LIST, get_meta, reading, require_readable
from taut.store.glance import glance, status_of
from taut.store.record import ReplyRecord, StepRecord, UpdateRecord

SECTIONS_READ = ("algorithm", "model")
"""Of a run's settings, by what only shows it."""


class Run:
    """One run directory, read-only. Nothing is held open: every call reads a snapshot of its own.

    Calls that take a `step` raise ValueError where the run has no such step, or where retention dropped its
    replies, and name the steps that are kept. Superseded steps are left out.
    """

    def __init__(self, directory: Path) -> None:
        """Use `open`."""
        self.directory = directory
        self._path = directory / "run.db"

    @classmethod
    def open(cls, directory: Path | str) -> Self:
        """Raises ValueError where no run is, or it is damaged, or another version of the store wrote it."""
        run = cls(Path(directory))
        require_readable(run._path, run.name)
        return run

    @property
    def name(self) -> str:
        """Of the directory as it was asked for: a link is called what it is called, wherever it leads."""
        return Path(os.path.abspath(self.directory)).name

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration. Raises ValueError where its file is gone or damaged."""
        file = self.directory / "config.yaml"
        try:
            config = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())
            raise ValueError(f"run {self.name!r}: {file} cannot be read ({why}); restore it") from error
        if not isinstance(config, dict):
            raise ValueError(f"run {self.name!r}: {file} holds no settings; restore it")
        for name in SECTIONS_READ:
            if not isinstance(config.get(name, {}), dict):
                raise ValueError(
                    f"run {self.name!r}: {file} has {name} = {config[name]!r}, which is no section; restore it"
                )
        return config

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Machine, threads, versions, parent, as the driver gave them."""
        return self._meta()["facts"]

    @property
    def created(self) -> float:
        """Seconds since the epoch."""
        return self._meta()["created"]

    @property
    def status(self) -> str:
        """running, finished, failed, interrupted; dead: said to run, but without a heartbeat for a minute."""
        return status_of(self._meta())

    def scalars(self, include_superseded: bool = False) -> list[dict[str, Any]]:
        """One row per step: `step` and every scalar by its `group/name`; a scalar a step lacks is absent.

        With `include_superseded` also the steps that a resume took again, in the order written, and each row
        says whether it is `superseded`.
        """
        with reading(self._path) as db:
            batches = db.execute("SELECT id, step, superseded FROM batches ORDER BY id").fetchall()
            cells = db.execute("SELECT batch_id, name, value FROM scalars ORDER BY batch_id").fetchall()
        rows: dict[int, dict[str, Any]] = {}
        for batch_id, step, superseded in batches:
            if include_superseded:
                rows[batch_id] = {"step": step, "superseded": bool(superseded)}
            elif not superseded:
                rows[batch_id] = {"step": step}
        for batch_id, name, value in cells:
            if batch_id in rows:
                rows[batch_id][name] = number(value)
        return list(rows.values())

    def series(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps [N] int64 and values [N] float64 of one scalar, where it was measured; N may be 0."""
        with reading(self._path) as db:
            rows = db.execute(
                "SELECT step, value FROM batches JOIN scalars ON batch_id = id "
                "WHERE NOT superseded AND name = ? ORDER BY step",
                (name,),
            ).fetchall()
        steps = np.array([step for step, _ in rows], dtype=np.int64)
        return steps, np.array([number(value) for _, value in rows], dtype=np.float64)

    def last(self, name: str) -> float | None:
        """The newest value of one scalar; None where it was never measured."""
        values = self.series(name)[1]
        return float(values[-1]) if len(values) else None

    @property
    def step_count(self) -> int:
        """Steps trained: step 0, the evaluation before training, is none."""
        with reading(self._path) as db:
            return db.execute("SELECT COUNT(*) FROM batches WHERE step > 0 AND NOT superseded").fetchone()[0]

    def glance(self) -> dict[str, Any]:
        """How the run stands, as of `store.glance.glance`."""
        return glance(self._path)

    def kept_steps(self) -> list[int]:
        """The steps whose replies and updates are still stored."""
        with reading(self._path) as db:
            return _kept_steps(db)

    def replies(self, step: int) -> list[ReplyRecord]:
        """The B replies of a step, as appended."""
        with self.kept_batch(step) as (db, batch_id):
            return _replies(db, batch_id)

    def optimizer_steps(self, step: int) -> list[dict[str, Any]]:
        """One row per optimiser step: its number, `epoch`, `minibatch`, `applied`, and its scalars."""
        with self.kept_batch(step) as (db, batch_id):
            rows = _optimizer_steps(db, batch_id)
        return [
            {"optimizer_step": row[0], "epoch": row[1], "minibatch": row[2], "applied": bool(row[3])}
            | from_json(row[4])
            for row in rows
        ]

    def tokens(self, step: int, optimizer_step: int) -> list[dict[str, Any]]:
        """One row per token of every reply, at one optimiser step (from 0) of a batch.

        `logprob` is the latest seen at or before that optimiser step, and `seen_at` where that was: a token
        is seen once an epoch. Both are None before its first sighting. `reward`, `value` and the like are
        per token, and None where the run has no such quantity, and at tokens that an environment told the model.

        Raises:
            ValueError: also where the batch has no such optimiser step.
        """
        with self.kept_batch(step) as (db, batch_id):
            count = len(_optimizer_steps(db, batch_id))
            if not 0 <= optimizer_step < count:
                raise ValueError(
                    f"step {step} of run {self.name!r} has {count} optimiser steps, counted from 0: "
                    f"there is no {optimizer_step}"
                )
            return token_rows(_replies(db, batch_id), _latest_sightings(db, batch_id, optimizer_step))

    def batch(self, step: int) -> StoredBatch:
        """A step as the padded arrays it was trained on."""
        with self.kept_batch(step) as (db, batch_id):
            constants = db.execute("SELECT constants FROM batches WHERE id = ?", (batch_id,)).fetchone()[0]
            replies = _replies(db, batch_id)
            updates = _updates(db, batch_id, [len(reply.ids) for reply in replies])
        return padded_batch(step, from_json(constants), replies, updates)

    def record(self, step: int) -> StepRecord:
        """A step as it was appended."""
        batch, replies = self.batch(step), self.replies(step)
        updates = [
            UpdateRecord(
                update.epoch,
                update.minibatch,
                update.rows,
                [seen[: batch.lengths[row]] for row, seen in zip(update.rows, update.logprobs, strict=True)],
                update.scalars,
                update.applied,
            )
            for update in batch.updates
        ]
        [scalars] = [row for row in self.scalars() if row["step"] == step]
        del scalars["step"]
        return StepRecord(step, batch.constants, scalars, replies, updates)

    def events(self, after_id: int = 0) -> list[dict[str, Any]]:
        """Rows of id, time (seconds since the epoch), step, kind, level, name, message, data."""
        columns = ("id", "time", "step", "kind", "level", "name", "message", "data")
        with reading(self._path) as db:
            query = f"SELECT {', '.join(columns)} FROM events WHERE id > ? ORDER BY id"
            rows = db.execute(query, (after_id,)).fetchall()
        return [dict(zip(columns, (*row[:-1], from_json(row[-1])), strict=True)) for row in rows]

    def checks(self) -> dict[str, dict[str, Any]]:
        """The newest answer of each standing check, by name, as a row of `events`; level "info" is a pass."""
        return {event["name"]: event for event in self.events() if event["kind"] == "check"}

    def _meta(self) -> dict[str, Any]:
        with reading(self._path) as db:
            return get_meta(db)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """The tables as they are now, for what reads only a part of them."""
        with reading(self._path) as db:
            yield db

    @contextmanager
    def kept_batch(self, step: int) -> Iterator[tuple[sqlite3.Connection, int]]:
        """A snapshot, and the id of the batch of `step` in it."""
        with reading(self._path) as db:
            query = "SELECT id FROM batches WHERE step = ? AND kept AND NOT superseded"
            found = db.execute(query, (step,)).fetchone()
            if found is None:
                kept = as_ranges(_kept_steps(db)) or "none"
                raise ValueError(f"run {self.name!r} holds no replies of step {step}; steps kept: {kept}")
            try:
                yield db, found[0]
            except DamagedError as error:
                raise ValueError(
                    f"run {self.name!r}: step {step} is damaged ({error}) in {self._path}; restore it"
                ) from error


def _kept_steps(db: sqlite3.Connection) -> list[int]:
    # Step 0, the evaluation before training, has none.
    query = "SELECT step FROM batches WHERE step > 0 AND kept AND NOT superseded ORDER BY step"
    return [step for (step,) in db.execute(query)]


def _replies(db: sqlite3.Connection, batch_id: int) -> list[ReplyRecord]:
    query = f"SELECT {REPLY_COLUMN_LIST} FROM replies WHERE batch_id = ? ORDER BY reply"
    return [reply_from_row(row) for row in db.execute(query, (batch_id,))]


def _optimizer_steps(db: sqlite3.Connection, batch_id: int) -> list[tuple[Any, ...]]:
    query = (
        "SELECT optimizer_step, epoch, minibatch, applied, scalars FROM optimizer_steps "
        "WHERE batch_id = ? ORDER BY optimizer_step"
    )
    return db.execute(query, (batch_id,)).fetchall()


def _latest_sightings(db: sqlite3.Connection, batch_id: int, optimizer_step: int) -> dict[int, Sighting]:
    """By reply, what was seen of it at or before `optimizer_step`."""
    query = (  # SQLite gives the other columns of the row that holds the maximum
        "SELECT reply, MAX(optimizer_step), logprobs FROM updates "
        "WHERE batch_id = ? AND optimizer_step <= ? GROUP BY reply"
    )
    rows = db.execute(query, (batch_id, optimizer_step))
    return {reply: Sighting(seen_at, floats_from_blob(blob)) for reply, seen_at, blob in rows}


def _updates(db: sqlite3.Connection, batch_id: int, lengths: list[int]) -> list[StoredUpdate]:
    query = "SELECT reply, logprobs FROM updates WHERE batch_id = ? AND optimizer_step = ? ORDER BY rowid"
    updates = []
    for optimizer_step, epoch, minibatch, applied, scalars in _optimizer_steps(db, batch_id):
        seen = db.execute(query, (batch_id, optimizer_step)).fetchall()
        rows = np.array([reply for reply, _ in seen], dtype=np.int64)
        arrays = [floats_from_blob(blob, "logprobs", lengths[reply]) for reply, blob in seen]
        logprobs = pad(arrays, max(lengths, default=0), np.float32)
        updates.append(StoredUpdate(epoch, minibatch, rows, logprobs, bool(applied), from_json(scalars)))
    return updates


def as_ranges(steps: list[int]) -> str:
    """[0, 50, 80, 81, 82] as "0, 50, 80-82"."""
    ranges: list[list[int]] = []
    for step in steps:
        if ranges and step == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], step]
        else:
            ranges.append([step])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)
