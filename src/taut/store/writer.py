"""The writing side of a run directory: one process, one transaction a step."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from taut.store.codec import REPLY_COLUMNS, floats_to_blob, reply_to_row, to_json, to_text
from taut.store.database import (
    SCHEMA,
    SCHEMA_VERSION,
    connect_for_writing,
    require_readable,
    set_journal_mode,
    set_meta,
    transaction,
)
from taut.store.lock import RunLock
from taut.store.record import StepRecord
from taut.store.retention import DEFAULT_RETENTION, RetentionPolicy, apply_retention

Level = Literal["info", "warning", "error"]
EndStatus = Literal["finished", "failed", "interrupted"]

EventListener = Callable[[Mapping[str, Any]], None]
"""Hears of each event as it is stored: step, kind, level, name, message."""

_HEARTBEAT_SECONDS = 15.0
_INSERT_REPLY = f"INSERT INTO replies VALUES ({', '.join('?' * (2 + len(REPLY_COLUMNS)))})"


class RunWriter:
    """Appends to one run directory: `config.yaml`, `run.db`, `checkpoints/`.

    `kill -9` at any moment leaves whole steps only. Methods may be called from any thread, and raise OSError naming
    the path where the disk takes no more. As a context manager it ends the run as finished, failed or interrupted,
    unless `finish` was called before. No other writer can be opened meanwhile.
    """

    def __init__(
        self, directory: Path, db: sqlite3.Connection, run_lock: RunLock, retention: RetentionPolicy
    ) -> None:
        """Use `create` or `resume`."""
        self.directory = directory
        self.listeners: list[EventListener] = []
        self._db = db
        self._run_lock = run_lock
        self._retention = retention
        self._lock = threading.Lock()
        self._finished = False
        self._closed = threading.Event()
        # A step may take longer than a minute: the thread shows that the process is alive meanwhile.
        threading.Thread(target=self._beat, name="taut-heartbeat", daemon=True).start()

    @classmethod
    def create(
        cls,
        directory: Path | str,
        config_yaml: str,
        facts: Mapping[str, Any],
        retention: RetentionPolicy = DEFAULT_RETENTION,
    ) -> Self:
        """Makes the directory of a new run.

        `config_yaml` is the resolved configuration; `facts` is what else must be known to repeat the run:
        machine, threads, versions, parent.

        Raises:
            ValueError: the directory exists.
        """
        directory = Path(directory)
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            raise ValueError(
                f"{str(directory)!r} exists and a run is never written into an existing directory: "
                "choose another name, or remove it"
            ) from None
        run_lock = RunLock(directory)
        (directory / "config.yaml").write_text(config_yaml, encoding="utf-8")
        (directory / "checkpoints").mkdir()
        db = connect_for_writing(directory / "run.db")
        journal = set_journal_mode(db)
        now = time.time()
        with transaction(db):
            for statement in SCHEMA.split(";\n"):
                db.execute(statement)
            set_meta(db, schema_version=SCHEMA_VERSION, created=now, facts=facts)
            set_meta(db, status="running", heartbeat=now)
        writer = cls(directory, db, run_lock, retention)
        if journal != "wal":
            message = f"no WAL on this file system, journal mode {journal}: a reader may delay a step's write"
            writer.event("store", "journal_mode", message, level="warning")
        return writer

    @classmethod
    def resume(
        cls,
        directory: Path | str,
        retention: RetentionPolicy = DEFAULT_RETENTION,
        config_yaml: str | None = None,
    ) -> Self:
        """Opens a run that ended or was killed, to append to it; call `supersede_after` next.

        `config_yaml` takes the place of the run's configuration, where it is given.

        Raises:
            ValueError: no run is there, another version of the store wrote it, or another process writes it.
        """
        directory = Path(directory)
        require_readable(directory / "run.db", directory.name)
        run_lock = RunLock(directory)
        if config_yaml is not None:
            beside = directory / ".config.yaml.writing"
            beside.write_text(config_yaml, encoding="utf-8")
            beside.replace(directory / "config.yaml")
        db = connect_for_writing(directory / "run.db")
        set_journal_mode(db)
        with transaction(db):
            set_meta(db, status="running", heartbeat=time.time())
        return cls(directory, db, run_lock, retention)

    def append(self, record: StepRecord) -> None:
        """Stores one step, whole or not at all, then drops what retention no longer keeps."""
        with self._transaction():
            _insert_step(self._db, record)
            set_meta(self._db, heartbeat=time.time())
        with self._transaction():
            apply_retention(self._db, self._retention)

    def event(
        self,
        kind: str,
        name: str,
        message: str,
        level: Level = "info",
        step: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Stores what happened. Kind "check" with level "error" is a failed check: its batch is kept."""
        row = (time.time(), step, kind, level, to_text(name), to_text(message), to_json(data or {}))
        columns = "time, step, kind, level, name, message, data"
        with self._transaction():
            self._db.execute(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for listen in self.listeners:
            listen({"step": step, "kind": kind, "level": level, "name": name, "message": message})

    def supersede_after(self, step: int) -> None:
        """Marks every stored step after `step` as superseded: a resumed run is about to take them again."""
        with self._transaction():
            self._db.execute("UPDATE batches SET superseded = 1 WHERE step > ?", (step,))

    def heartbeat(self) -> None:
        """Says that the run is alive; called by a thread of the writer's own."""
        with self._transaction():
            set_meta(self._db, heartbeat=time.time())

    def finish(self, status: EndStatus) -> None:
        """Records how the run ended."""
        assert status in ("finished", "failed", "interrupted"), status
        with self._transaction():
            set_meta(self._db, status=status, heartbeat=time.time())
        self._finished = True

    def close(self) -> None:
        """Closes the store and leaves the status as it is. Closing twice does nothing."""
        self._closed.set()
        with self._lock:
            self._db.close()
        self._run_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._finished:
                interrupted = isinstance(error, KeyboardInterrupt)
                self.finish("finished" if error is None else "interrupted" if interrupted else "failed")
        except OSError:
            if error is None:  # else it is the error that ended the run which must be told
                raise
        finally:
            self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                with transaction(self._db):
                    yield
            except sqlite3.OperationalError as error:
                raise OSError(f"{self.directory / 'run.db'} could not be written: {error}") from error

    def _beat(self) -> None:
        while not self._closed.wait(_HEARTBEAT_SECONDS):
            try:
                self.heartbeat()
            except (sqlite3.Error, OSError):
                continue  # closed meanwhile, or a full disk, of which the next append tells the driver


def _insert_step(db: sqlite3.Connection, record: StepRecord) -> None:
    replies = [reply_to_row(reply) for reply in record.replies]
    updates = list(_update_rows(record))
    size = sum(len(cell) for row in (*replies, *updates) for cell in row if isinstance(cell, bytes | str))
    batch_id = db.execute(
        "INSERT INTO batches (step, size, constants) VALUES (?, ?, ?)",
        (int(record.step), size, to_json(record.constants)),
    ).lastrowid
    scalars = [(batch_id, name, float(value)) for name, value in record.scalars.items()]
    optimizer_steps = [
        (
            batch_id,
            number,
            int(update.epoch),
            int(update.minibatch),
            bool(update.applied),
            to_json(update.scalars),
        )
        for number, update in enumerate(record.optimizer_steps)
    ]
    db.executemany("INSERT INTO scalars VALUES (?, ?, ?)", scalars)
    db.executemany(_INSERT_REPLY, [(batch_id, number, *row) for number, row in enumerate(replies)])
    db.executemany("INSERT INTO optimizer_steps VALUES (?, ?, ?, ?, ?, ?)", optimizer_steps)
    db.executemany("INSERT INTO updates VALUES (?, ?, ?, ?)", [(batch_id, *row) for row in updates])


def _update_rows(record: StepRecord) -> Iterable[tuple[int, int, bytes]]:
    """(optimiser step, reply, logprobs) of every sighting."""
    for number, update in enumerate(record.optimizer_steps):
        for reply, logprobs in zip(update.rows, update.logprobs, strict=True):
            length = len(record.replies[reply].ids)
            assert len(logprobs) == length, f"{len(logprobs)} logprobs for reply {reply} of {length} tokens"
            yield number, int(reply), floats_to_blob(logprobs)
