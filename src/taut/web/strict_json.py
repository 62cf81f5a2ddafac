"""Answers in strict JSON: a number that JSON cannot hold is marked, never left out and never 0."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from taut.store.codec import to_json


class StrictJSON(Response):
    """NaN and the infinities are the strings "NaN", "Infinity", "-Infinity"; null is what is absent.

    Which fields are numbers, and so may hold such a string, is the reader's knowledge: `lib/number.js`.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content).encode("ascii")


def encode(content: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":"))
    except (
        ValueError,
        TypeError,
    ):  # a number to mark, or numpy's; rare, so that the rest isn't copied for it
        return to_json(content)


def error_answer(status: int, message: str) -> StrictJSON:
    """What went wrong and what to do about it."""
    return StrictJSON({"error": message}, status_code=status)
