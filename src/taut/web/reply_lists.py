"""The replies of a step as lists: filtered, sorted and paged here, since a step may hold more than a page can."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from taut.store import Run
from taut.store.part import (
    ReplyPreview,
    batch_head,
    prompt_history,
    reply_preview,
    reply_previews,
    reply_text,
    reply_tokens,
)
from taut.web.reply_numbers import Numbers, reply_numbers

LIMIT = 500
"""Most replies in one answer."""
SHOWN = 20_000
"""Characters of a prompt or a reply that a page shows; the whole text is a download."""
_AT_ONCE = 32
"""Replies whose token arrays are in memory at one time."""

Row = dict[str, Any]

SORTS: Mapping[str, Callable[[Row], float | None]] = {
    "reply": lambda row: row["reply"],
    "group": lambda row: row["group"],
    "reward": lambda row: row["reward"],
    "length": lambda row: row["length"],
    "clip": lambda row: row["clip/binding"],
    "kl": lambda row: row["kl/old_k3"],
    "kl_ref": lambda row: row["kl/ref_k3"],
    "failures": lambda row: len(row["failures"]),
}
_WORDS: Mapping[str, Callable[[Row], bool]] = {
    "failed": lambda row: bool(row["failures"]),
    "cut": lambda row: row["finish_reason"] == "length",
    "held": lambda row: bool(row["clip/binding"]),
}
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}


def list_replies(
    run: Run,
    step: int,
    sort: str = "reply",
    order: str = "asc",
    filter: str = "",
    search: str = "",
    offset: int = 0,
    limit: int = 50,
) -> dict[str, Any]:
    """A page of the replies of a step.

    `filter` is a comma-separated list that must hold as a whole: failed, cut, held, or a comparison such as
    reward>=0.5 with a key of SORTS. What has no value stands last in either order and meets no comparison.
    Raises ValueError for a step that is not kept, and for a sort, order or filter that there is not.
    """
    if sort not in SORTS:
        raise ValueError(f"replies cannot be sorted by {sort!r}: choose from {', '.join(SORTS)}")
    if order not in ("asc", "desc"):
        raise ValueError(f"order is asc or desc, not {order!r}")
    conditions = [_condition(part.strip()) for part in filter.split(",") if part.strip()]
    head = batch_head(run, step)
    numbers = _numbers(run, step)
    rows = [_row(preview, numbers.get(preview.reply, {})) for preview in reply_previews(run, step, search)]
    rows = [row for row in rows if all(holds(row) for holds in conditions)]
    rows = _sorted(rows, SORTS[sort], order == "desc")
    return {
        "step": step,
        "kept": run.kept_steps(),
        "constants": dict(head.constants),
        "optimizer_steps": [taken._asdict() for taken in head.optimizer_steps],
        "size": head.size,
        "matched": len(rows),
        "offset": offset,
        "replies": rows[offset : offset + min(limit, LIMIT)],
    }


def one_reply(run: Run, step: int, reply: int) -> dict[str, Any]:
    """A reply with its texts as far as a page shows them, in characters, and what its reward function logged."""
    [tokens] = reply_tokens(run, step, [reply])
    texts = reply_text(run, step, reply)
    return {
        **_row(reply_preview(run, step, reply), _numbers(run, step).get(reply, {})),
        "prompt": texts.prompt[-SHOWN:],
        "text": texts.text[:SHOWN],
        "shown": SHOWN,
        "extra": dict(texts.extra),
        "trained": int(tokens.mask.sum()),
        "kept": run.kept_steps(),
    }


def follow_prompt(run: Run, prompt_index: int) -> dict[str, Any]:
    """One row of the data through training: every kept reply to it. Raises ValueError where there is none."""
    rows = [_row(preview, {}) for preview in prompt_history(run, prompt_index)]
    if not rows:
        raise ValueError(
            f"run {run.name!r} keeps no reply to prompt {prompt_index}; steps kept: {run.kept_steps()}"
        )
    return {"prompt_index": prompt_index, "prompt": rows[-1]["prompt"], "replies": rows}


def step_states(run: Run) -> dict[str, list[int]]:
    """Which steps' replies are kept, which were dropped since, and which a resume took again."""
    with run.snapshot() as db:
        rows = db.execute(
            "SELECT step, kept, superseded FROM batches WHERE step > 0 ORDER BY step"
        ).fetchall()
    return {
        "kept": [step for step, kept, superseded in rows if kept and not superseded],
        "dropped": [step for step, kept, superseded in rows if not kept and not superseded],
        "superseded": [step for step, _, superseded in rows if superseded],
    }


def _row(preview: ReplyPreview, numbers: Numbers) -> Row:
    absent: Numbers = dict.fromkeys(("clip/binding", "kl/old_k3", "kl/ref_k3"))
    return {**preview._asdict(), **absent, **numbers}


def _condition(text: str) -> Callable[[Row], bool]:
    if text in _WORDS:
        return _WORDS[text]
    found = re.fullmatch(r"(\w+)\s*(<=|>=|<|>|=)\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)", text)
    if found is None or found[1] not in SORTS:
        raise ValueError(
            f"there is no filter {text!r}: write {', '.join(_WORDS)}, or a comparison such as reward>=0.5 with one of "
            + ", ".join(SORTS)
        )
    value_of, compare, bound = SORTS[found[1]], _COMPARE[found[2]], float(found[3])

    def holds(row: Row) -> bool:
        value = value_of(row)
        return value is not None and bool(compare(value, bound))

    return holds


def _sorted(rows: list[Row], value_of: Callable[[Row], float | None], descending: bool) -> list[Row]:
    def missing(row: Row) -> bool:
        value = value_of(row)
        return value is None or math.isnan(value)

    there = sorted((row for row in rows if not missing(row)), key=value_of, reverse=descending)  # type: ignore[arg-type]
    return there + [row for row in rows if missing(row)]


def _numbers(run: Run, step: int) -> dict[int, Numbers]:
    """By reply."""
    return _numbers_of(run.directory, run.created, step, batch_head(run, step).batch_id)


@lru_cache(maxsize=16)
def _numbers_of(directory: Path, created: float, step: int, batch_id: int) -> dict[int, Numbers]:
    """Computed once: what is stored under one `batch_id`, in the run `created` then, never changes."""
    run = Run(directory)
    head = batch_head(run, step)
    applied = [taken.applied for taken in head.optimizer_steps]
    numbers: dict[int, Numbers] = {}
    for first in range(0, head.size, _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, head.size))
        for tokens in reply_tokens(run, step, some, ("old_logprobs", "ref_logprobs", "advantages")):
            numbers[tokens.reply] = reply_numbers(tokens, head.constants, applied)
    return numbers
