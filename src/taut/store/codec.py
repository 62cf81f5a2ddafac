"""Between Python objects and database cells: blobs, text, strict JSON, and a reply's row, both ways."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taut.store.record import TOKEN_COLUMNS, ReplyRecord

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ENCODER = json.JSONEncoder(allow_nan=False)

REPLY_COLUMNS = (
    *("prompt_index", "prompt_group", "sample", "version", "prompt_text", "prompt_ids"),
    *("text", "ids", "mask", "reward", "terms", "failures", "extra", "finish_reason"),
    "bootstrap_value",
    *TOKEN_COLUMNS,
)
"""The order in which `reply_to_row` writes and `reply_from_row` reads."""


def to_json(value: Any) -> str:
    """Strict JSON. Numbers it cannot hold are written as the strings "NaN", "Infinity" and "-Infinity"."""
    return _ENCODER.encode(_mark_non_finite(value))


def from_json(text: str) -> Any:
    """The inverse of `to_json`; a string that spells one of its three marks comes back as that number."""
    return _unmark_non_finite(json.loads(text))


def to_text(text: str) -> str:
    """`text` as UTF-8 can hold it: a lone surrogate becomes "?". All else, NUL included, stays."""
    return text.encode("utf-8", "replace").decode("utf-8")


def floats_to_blob(values: np.ndarray) -> bytes:
    return np.asarray(values, dtype="<f4").tobytes()


class DamagedError(ValueError):
    """A cell that no store of ours would hold."""


def floats_from_blob(blob: bytes, column: str = "logprobs", length: int | None = None) -> np.ndarray:
    """Raises DamagedError where they aren't `length` numbers, or no whole number of them."""
    return _from_blob(blob, "<f4", column, length)


def _from_blob(blob: bytes, dtype: str, column: str, length: int | None) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    if len(blob) % size:
        raise DamagedError(f"{column} holds {len(blob)} bytes, no multiple of {size}")
    if length is not None and len(blob) != length * size:
        raise DamagedError(f"{column} holds {len(blob) // size} entries for {length} tokens")
    return np.frombuffer(blob, dtype=dtype)


def reply_to_row(reply: ReplyRecord) -> tuple[Any, ...]:
    """The cells of REPLY_COLUMNS."""
    length = len(reply.ids)
    bootstrap = None if reply.bootstrap_value is None else float(reply.bootstrap_value)
    assert len(reply.mask) == length, f"mask has {len(reply.mask)} entries, the reply {length} tokens"
    return (
        *(int(reply.prompt_index), int(reply.group), int(reply.sample), int(reply.version)),
        *(to_text(reply.prompt_text), _ints_to_blob(reply.prompt_ids)),
        *(to_text(reply.text), _ints_to_blob(reply.ids), np.asarray(reply.mask, dtype=bool).tobytes()),
        *(float(reply.reward), to_json(reply.terms), to_json(reply.failures), to_json(reply.extra)),
        *(reply.finish_reason, bootstrap),
        *(_token_blob(reply, column) for column in TOKEN_COLUMNS),
    )


def reply_from_row(row: Sequence[Any]) -> ReplyRecord:
    """The inverse of `reply_to_row`. Arrays are read-only views of what SQLite returned.

    Raises DamagedError where one of them isn't an entry a token.
    """
    cells = dict(zip(REPLY_COLUMNS, row, strict=True))
    cells["group"] = cells.pop("prompt_group")
    cells["prompt_ids"] = _from_blob(cells["prompt_ids"], "<i4", "prompt_ids", None)
    cells["ids"] = _from_blob(cells["ids"], "<i4", "ids", None)
    length = len(cells["ids"])
    cells["mask"] = _from_blob(cells["mask"], "?", "mask", length)
    for column in TOKEN_COLUMNS:
        if cells[column] is not None:
            cells[column] = floats_from_blob(cells[column], column, length)
    cells["reward"] = number(cells["reward"])
    for column in ("terms", "extra"):
        cells[column] = from_json(cells[column])
    cells["failures"] = json.loads(cells["failures"])  # texts, also those that read as a number's mark
    return ReplyRecord(**cells)


def number(cell: float | None) -> float:
    """A REAL cell as a float: SQLite holds infinities, but stores NaN as NULL."""
    return math.nan if cell is None else cell


def _token_blob(reply: ReplyRecord, column: str) -> bytes | None:
    values = getattr(reply, column)
    if values is None:
        return None
    assert len(values) == len(reply.ids), f"{column} has {len(values)} entries for {len(reply.ids)} tokens"
    return floats_to_blob(values)


def _ints_to_blob(values: Any) -> bytes:
    return np.asarray(values, dtype="<i4").tobytes()


def _mark_non_finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _mark_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mark_non_finite(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _mark_non_finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _unmark_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmark_non_finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unmark_non_finite(item) for item in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value
