"""Tokens of some replies as one binary answer: a page draws thousands of them, and JSON would take too long.

    4 bytes     length of the header, little-endian
    header      UTF-8 JSON, padded with spaces to a multiple of 8
    arrays      little-endian, one behind the other, each at its `offset` behind the header

In the header: `size`, how many replies the step has; `replies`, each with its first token `start` and its `length`, its
prompt, and the optimiser steps `seen` at which its logprobs were recorded; `columns`, {name, dtype, shape, offset} with
the tokens of all replies in one row, a quantity that the run lacks being no column; `pieces`, the texts of the ids;
`optimizer_steps`; `constants`. The column `logprobs` holds a reply's sightings one
behind the other, from its `seen_start` on. NaN travels as NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from taut.launch.pieces import token_pieces
from taut.store import Run
from taut.store.codec import to_json
from taut.store.part import (
    ReplyTokens,
    batch_head,
    reply_lengths,
    reply_preview,
    reply_previews,
    reply_text,
    reply_tokens,
)
from taut.store.record import TOKEN_COLUMNS
from taut.web.reply_lists import SHOWN

MOST_TOKENS = 200_000
"""In one answer; beyond it the later replies are left out, and `left_out` names them."""


def tokens_answer(run: Run, step: int, replies: Sequence[int] | None = None) -> bytes:
    """Those replies of a step, or as many of all of them as fit. Raises ValueError as `Run.replies` does."""
    head = batch_head(run, step)
    wanted = list(range(head.size)) if replies is None else list(dict.fromkeys(replies))
    taken, left_out = _as_many_as_fit(wanted, reply_lengths(run, step))
    tokens = reply_tokens(run, step, taken)
    columns = _columns(tokens)
    ids, pieces = np.unique(columns["ids"]).tolist(), token_pieces(run)
    header = {
        "step": step,
        "size": head.size,
        "replies": _reply_headers(run, step, tokens),
        "left_out": left_out,
        "columns": _column_headers(columns),
        "pieces": {token: pieces.text_of(token) for token in ids},
        "special": [token for token in ids if token in pieces.special],
        "optimizer_steps": [taken._asdict() for taken in head.optimizer_steps],
        "constants": dict(head.constants),
    }
    text = to_json(header).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return struct.pack("<I", len(text)) + text + b"".join(_padded(array) for array in columns.values())


def _as_many_as_fit(wanted: Sequence[int], lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those to answer with, the first always, and those left out."""
    taken: list[int] = []
    total = 0
    for place, reply in enumerate(wanted):
        total += (
            lengths[reply] if 0 <= reply < len(lengths) else 0
        )  # one that is missing is told of when it is read
        if taken and total > MOST_TOKENS:
            return taken, list(wanted[place:])
        taken.append(reply)
    return taken, []


def _reply_headers(run: Run, step: int, tokens: list[ReplyTokens]) -> list[dict[str, Any]]:
    headers, start, seen_start = [], 0, 0
    whole = len(tokens) == 1  # of several, the ends of their prompts are enough
    found = [reply_preview(run, step, tokens[0].reply)] if whole else reply_previews(run, step)
    previews = {preview.reply: preview for preview in found}
    for reply in tokens:
        preview, length = previews[reply.reply], len(reply.ids)
        headers.append(
            {
                "reply": reply.reply,
                "start": start,
                "length": length,
                "seen": [seen.optimizer_step for seen in reply.sightings],
                "seen_start": seen_start,
                "prompt": reply_text(run, step, reply.reply).prompt[-SHOWN:] if whole else preview.prompt,
                "prompt_bytes": preview.prompt_bytes,
                "prompt_index": preview.prompt_index,
                "group": preview.group,
                "reward": preview.reward,
                "terms": preview.terms,
                "failures": preview.failures,
                "finish_reason": preview.finish_reason,
                "bootstrap_value": reply.bootstrap_value,
            }
        )
        start += length
        seen_start += length * len(reply.sightings)
    return headers


def _columns(tokens: list[ReplyTokens]) -> dict[str, np.ndarray]:
    columns = {
        "ids": [reply.ids for reply in tokens],
        "mask": [reply.mask.astype(np.uint8) for reply in tokens],
    }
    for name in TOKEN_COLUMNS:
        if all(name in reply.arrays for reply in tokens):
            columns[name] = [reply.arrays[name] for reply in tokens]
    columns["logprobs"] = [seen.logprobs for reply in tokens for seen in reply.sightings]
    dtypes = {"ids": "<i4", "mask": "u1"}
    return {
        name: np.concatenate([np.zeros(0, dtypes.get(name, "<f4")), *arrays], dtype=dtypes.get(name, "<f4"))
        for name, arrays in columns.items()
    }


def _column_headers(columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    headers, offset = [], 0
    for name, array in columns.items():
        headers.append(
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset}
        )
        offset += len(_padded(array))
    return headers


def _padded(array: np.ndarray) -> bytes:
    """Each array begins at a multiple of 8, so that a page can look at it in place."""
    written = array.tobytes()
    return written + b"\0" * (-len(written) % 8)
