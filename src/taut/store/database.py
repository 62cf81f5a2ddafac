"""run.db: its tables, and how a writer and a reader open it.

A row's id only ever grows, so a reader that remembers the last one it saw asks for the rows after it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taut.store.codec import REPLY_COLUMNS, from_json, to_json
from taut.store.record import TOKEN_COLUMNS

SCHEMA_VERSION = 2  # 2: a reply's failures and extra columns
_BUSY_SECONDS = 30.0
_BUSY_SECONDS_IN_PASSING = 0.25

_TOKEN_BLOBS = "".join(f',\n    "{column}" BLOB' for column in TOKEN_COLUMNS)  # quoted: "values" is a keyword

SCHEMA = f"""
-- schema_version, status, created, heartbeat, facts; every value is JSON
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- one row a loop step; a step that ran again after a resume has a new row, and the old one is superseded
CREATE TABLE batches (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    step INTEGER NOT NULL,
    superseded INTEGER NOT NULL DEFAULT 0,
    kept INTEGER NOT NULL DEFAULT 1,  -- 0 once retention dropped its replies and updates
    size INTEGER NOT NULL,            -- bytes of its replies and updates
    constants TEXT NOT NULL           -- JSON
);
CREATE UNIQUE INDEX one_current_batch_a_step ON batches (step) WHERE NOT superseded;

CREATE TABLE scalars (
    batch_id INTEGER NOT NULL REFERENCES batches,
    name TEXT NOT NULL,
    value REAL,                       -- NULL is NaN
    PRIMARY KEY (batch_id, name)
) WITHOUT ROWID;

-- arrays are little-endian and trimmed to the reply's own length: ids int32, mask one byte, the rest float32
CREATE TABLE replies (
    batch_id INTEGER NOT NULL REFERENCES batches,
    reply INTEGER NOT NULL,           -- position in the batch
    prompt_index INTEGER NOT NULL,
    prompt_group INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    version INTEGER NOT NULL,
    prompt_text TEXT NOT NULL,
    prompt_ids BLOB NOT NULL,
    text TEXT NOT NULL,
    ids BLOB NOT NULL,
    mask BLOB NOT NULL,
    reward REAL,                      -- NULL is NaN
    terms TEXT NOT NULL,              -- JSON, and so are the next two
    failures TEXT NOT NULL,
    extra TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    bootstrap_value REAL{_TOKEN_BLOBS},
    PRIMARY KEY (batch_id, reply)
);

CREATE TABLE optimizer_steps (
    batch_id INTEGER NOT NULL REFERENCES batches,
    optimizer_step INTEGER NOT NULL,  -- from 0 within the batch
    epoch INTEGER NOT NULL,
    minibatch INTEGER NOT NULL,
    applied INTEGER NOT NULL,
    scalars TEXT NOT NULL,            -- JSON
    PRIMARY KEY (batch_id, optimizer_step)
);

-- a reply's logprobs just before an optimiser step that it took part in
CREATE TABLE updates (
    batch_id INTEGER NOT NULL REFERENCES batches,
    optimizer_step INTEGER NOT NULL,
    reply INTEGER NOT NULL,
    logprobs BLOB NOT NULL,
    PRIMARY KEY (batch_id, optimizer_step, reply)
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,               -- seconds since the epoch
    step INTEGER,
    kind TEXT NOT NULL,
    level TEXT NOT NULL,
    name TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL                -- JSON
);
"""

REPLY_COLUMN_LIST = ", ".join(f'"{column}"' for column in REPLY_COLUMNS)


def connect_for_writing(path: Path) -> sqlite3.Connection:
    """Opens or creates `path`. Transactions are explicit; the caller serialises threads."""
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


@contextmanager
def reading(path: Path, in_passing: bool = False) -> Iterator[sqlite3.Connection]:
    """One consistent snapshot of `path`, also while it is written and after its writer was killed.

    The file is opened writable although nothing is written: a journal that a killed writer left can only be
    rolled back by a connection that may. On a read-only disk a closed run opens as immutable. `in_passing` it does
    everywhere: three times as fast, and right unless a writer opens it in the same millisecond, so for who looks
    again when the file has changed; and of a store that is locked it soon gives up.

    Raises ValueError where it is damaged, or gone by now, or asked for a number that no store holds.
    """
    closed = not any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal"))
    immutable = closed and (in_passing or not os.access(path.parent, os.W_OK))
    uri = path.absolute().as_uri() + ("?mode=ro&immutable=1" if immutable else "?mode=rw")
    patience = _BUSY_SECONDS_IN_PASSING if in_passing else _BUSY_SECONDS
    try:
        db = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise ValueError(f"{path} cannot be opened ({error})") from error
    try:
        db.execute("PRAGMA query_only=ON")
        db.execute("BEGIN")
        yield db
    except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}); restore it or remove it") from error
    except OverflowError as error:
        raise ValueError(
            f"{path.parent.name!r} holds no number beyond 64 bits: ask for a smaller one"
        ) from error
    finally:
        db.close()


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of the block or none of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise


def set_journal_mode(db: sqlite3.Connection) -> str:
    """Returns "wal", or "truncate" where the file system cannot do WAL, as over a network."""
    try:
        mode = str(db.execute("PRAGMA journal_mode=WAL").fetchone()[0])
    except sqlite3.OperationalError:
        mode = "unsupported"
    if mode == "wal":
        db.execute("PRAGMA synchronous=FULL")  # a step is on the disk before a checkpoint made after it
        return mode
    return str(db.execute("PRAGMA journal_mode=TRUNCATE").fetchone()[0])


def get_meta(db: sqlite3.Connection) -> dict[str, Any]:
    return {key: from_json(value) for key, value in db.execute("SELECT key, value FROM meta")}


def set_meta(db: sqlite3.Connection, **values: Any) -> None:
    rows = [(key, to_json(value)) for key, value in values.items()]
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def require_readable(path: Path, name: str) -> dict[str, Any]:
    """The meta table of the run `name`.

    Raises:
        ValueError: no run is there, it is damaged, or another version of the store wrote it.
    """
    if not path.is_file():
        raise ValueError(f"{str(path.parent)!r} holds no run (no run.db); `taut runs` lists what there is")
    try:
        with reading(path) as db:
            meta = get_meta(db)
    except ValueError as error:
        raise ValueError(f"run {name!r}: {error}") from None
    refuse_other_version(meta, name)
    return meta


def refuse_other_version(meta: Mapping[str, Any], name: str) -> None:
    """Raises ValueError where another version of the store wrote the run `name`."""
    version = meta.get("schema_version")
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise ValueError(
            f"run {name!r} has store schema {version}, this Taut reads {SCHEMA_VERSION}: "
            + (
                "pip install --upgrade taut"
                if newer
                else "read it with the Taut that wrote it, or run it again"
            )
        )
