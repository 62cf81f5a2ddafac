"""Parts of a step's replies, read without the rest: a step may hold gigabytes, and a list shows a few lines of each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taut.store.batch import Sighting, require_length
from taut.store.codec import floats_from_blob, from_json, number
from taut.store.record import TOKEN_COLUMNS
from taut.store.run import Run

PREVIEW_BYTES = 600
"""Of a prompt and of a reply, in a preview."""


class ReplyPreview(NamedTuple):
    """One reply of L tokens, without its tokens, and with the beginning of its text."""

    step: int
    reply: int
    """Position in the batch."""
    prompt_index: int
    group: int
    sample: int
    version: int
    length: int
    """Tokens, L."""
    reward: float
    """NaN where there is none."""
    terms: Mapping[str, float]
    failures: Mapping[str, str]
    finish_reason: str
    prompt: str
    """Its end: that is what the reply answers."""
    prompt_bytes: int
    """Of the whole prompt, as UTF-8."""
    text: str
    text_bytes: int


class ReplyText(NamedTuple):
    prompt: str
    text: str
    extra: Mapping[str, Any]


@dataclass(eq=False)
class ReplyTokens:
    """One reply of L tokens, without its texts."""

    reply: int
    prompt_index: int
    group: int
    ids: np.ndarray  # [L] int32
    mask: np.ndarray  # [L] bool
    bootstrap_value: float | None
    arrays: dict[
        str, np.ndarray
    ]  # [L] float32 by the names of TOKEN_COLUMNS, without those that the run lacks
    sightings: list[Sighting]
    """In the order of the optimiser steps; an epoch has one."""


class OptimizerStepRow(NamedTuple):
    epoch: int
    minibatch: int
    applied: bool
    scalars: Mapping[str, float]


class BatchHead(NamedTuple):
    """A step without its replies."""

    batch_id: int
    """Grows with each step that is stored, one that a resume took again included."""
    step: int
    size: int
    """Replies."""
    constants: Mapping[str, Any]
    optimizer_steps: list[OptimizerStepRow]


def batch_head(run: Run, step: int) -> BatchHead:
    """Raises ValueError as `Run.replies` does."""
    with run.kept_batch(step) as (db, batch_id):
        query = (
            "SELECT constants, (SELECT COUNT(*) FROM replies WHERE batch_id = id) FROM batches WHERE id = ?"
        )
        constants, size = db.execute(query, (batch_id,)).fetchone()
        query = (
            "SELECT epoch, minibatch, applied, scalars FROM optimizer_steps "
            "WHERE batch_id = ? ORDER BY optimizer_step"
        )
        taken = [
            OptimizerStepRow(epoch, minibatch, bool(applied), from_json(scalars))
            for epoch, minibatch, applied, scalars in db.execute(query, (batch_id,))
        ]
    return BatchHead(batch_id, step, size, from_json(constants), taken)


# A text may hold NUL, at which SQLite's functions of text end: those of blobs do not.
_SELECT = f"""
    SELECT step, reply, prompt_index, prompt_group, sample, version, length(ids) / 4,
    reward, terms, failures, finish_reason,
    substr(CAST(prompt_text AS BLOB), -{PREVIEW_BYTES}), length(CAST(prompt_text AS BLOB)),
    substr(CAST(text AS BLOB), 1, {PREVIEW_BYTES}), length(CAST(text AS BLOB))
    FROM replies JOIN batches ON batch_id = id
"""
_HAS = "instr(CAST(lower({}) AS BLOB), CAST(lower(:search) AS BLOB)) > 0"
_SEARCHED = f"(:search = '' OR {_HAS.format('text')} OR {_HAS.format('prompt_text')})"


def reply_previews(run: Run, step: int, search: str = "") -> list[ReplyPreview]:
    """The replies of a step, in the order of the batch; with `search` those whose prompt or text holds it.

    Upper and lower case are one in ASCII. Raises ValueError as `Run.replies` does.
    """
    with run.kept_batch(step) as (db, batch_id):
        query = f"{_SELECT} WHERE batch_id = :batch AND {_SEARCHED} ORDER BY reply"
        return _previews(db, query, {"batch": batch_id, "search": search})


def reply_preview(run: Run, step: int, reply: int) -> ReplyPreview:
    """Raises ValueError as `Run.replies` does, and where the batch has no such reply."""
    with run.kept_batch(step) as (db, batch_id):
        query = f"{_SELECT} WHERE batch_id = :batch AND reply = :reply"
        found = _previews(db, query, {"batch": batch_id, "reply": reply})
        if not found:
            raise ValueError(_no_such_reply(db, batch_id, step, [reply]))
        return found[0]


def reply_lengths(run: Run, step: int) -> list[int]:
    """Tokens of each reply of a step, in the order of the batch."""
    with run.kept_batch(step) as (db, batch_id):
        query = "SELECT length(ids) / 4 FROM replies WHERE batch_id = ? ORDER BY reply"
        return [length for (length,) in db.execute(query, (batch_id,))]


def prompt_history(run: Run, prompt_index: int) -> list[ReplyPreview]:
    """All kept replies to one row of the data, oldest step first; [] where none is kept."""
    query = f"{_SELECT} WHERE prompt_index = :prompt AND kept AND NOT superseded ORDER BY step, reply"
    with run.snapshot() as db:
        return _previews(db, query, {"prompt": prompt_index})


def reply_text(run: Run, step: int, reply: int) -> ReplyText:
    """Raises ValueError as `reply_preview` does."""
    with run.kept_batch(step) as (db, batch_id):
        query = "SELECT prompt_text, text, extra FROM replies WHERE batch_id = ? AND reply = ?"
        found = db.execute(query, (batch_id, reply)).fetchone()
        if found is None:
            raise ValueError(_no_such_reply(db, batch_id, step, [reply]))
    return ReplyText(found[0], found[1], from_json(found[2]))


def reply_tokens(
    run: Run, step: int, replies: Sequence[int], columns: Sequence[str] = TOKEN_COLUMNS
) -> list[ReplyTokens]:
    """The token arrays `columns` of these replies of a step, in that order.

    Raises ValueError as `reply_preview` does.
    """
    with run.kept_batch(step) as (db, batch_id):
        quoted = "".join(f', "{column}"' for column in columns)
        query = (
            f"SELECT reply, prompt_index, prompt_group, ids, mask, bootstrap_value{quoted} FROM replies "
            "WHERE batch_id = ? AND reply = ?"
        )
        rows = [db.execute(query, (batch_id, reply)).fetchone() for reply in replies]
        if None in rows:
            missing = [reply for reply, row in zip(replies, rows, strict=True) if row is None]
            raise ValueError(_no_such_reply(db, batch_id, step, missing))
        seen = _sightings(db, batch_id, replies)
    return [_reply_tokens(row, columns, seen[row[0]]) for row in rows]


def _previews(db: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> list[ReplyPreview]:
    previews = []
    for *head, reward, terms, failures, finish_reason, prompt, prompt_bytes, text, text_bytes in db.execute(
        query, values
    ):
        scored = (number(reward), from_json(terms), json.loads(failures), finish_reason)
        shown = (_whole_characters(prompt), prompt_bytes, _whole_characters(text), text_bytes)
        previews.append(ReplyPreview._make((*head, *scored, *shown)))
    return previews


def _whole_characters(cut: bytes | None) -> str:
    """What was cut within a character loses that character. SQLite's part of an empty blob is NULL."""
    return "" if cut is None else cut.decode("utf-8", "ignore")


def _reply_tokens(row: Sequence[Any], columns: Sequence[str], sightings: list[Sighting]) -> ReplyTokens:
    reply, prompt_index, group, ids, mask, bootstrap_value, *blobs = row
    arrays = {
        name: floats_from_blob(blob) for name, blob in zip(columns, blobs, strict=True) if blob is not None
    }
    ids, mask = np.frombuffer(ids, dtype="<i4"), np.frombuffer(mask, dtype=bool)
    require_length(reply, len(ids), {"mask": mask, **arrays})
    for seen in sightings:
        require_length(reply, len(ids), {"logprobs": seen.logprobs})
    return ReplyTokens(reply, prompt_index, group, ids, mask, bootstrap_value, arrays, sightings)


def _sightings(db: sqlite3.Connection, batch_id: int, replies: Sequence[int]) -> dict[int, list[Sighting]]:
    seen: dict[int, list[Sighting]] = {reply: [] for reply in replies}
    query = (
        "SELECT reply, optimizer_step, logprobs FROM updates "
        "WHERE batch_id = ? AND reply BETWEEN ? AND ? ORDER BY optimizer_step"
    )
    for reply, optimizer_step, blob in db.execute(
        query, (batch_id, min(replies, default=0), max(replies, default=-1))
    ):
        if reply in seen:
            seen[reply].append(Sighting(optimizer_step, floats_from_blob(blob)))
    return seen


def _no_such_reply(db: sqlite3.Connection, batch_id: int, step: int, missing: Sequence[int]) -> str:
    count = db.execute("SELECT COUNT(*) FROM replies WHERE batch_id = ?", (batch_id,)).fetchone()[0]
    return f"step {step} has {count} replies, counted from 0: there is no {', '.join(map(str, missing))}"
