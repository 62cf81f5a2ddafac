"""What routes read out of a request: the run it names, and its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from taut.config.resolve import flatten
from taut.store import Run

MOST_BYTES = 1_000_000
"""Of what a page sends."""


def root_of(request: Request) -> Path:
    """The folder of runs that is served."""
    root: Path = request.app.state.root
    return root


def run_of(request: Request) -> Run:
    """The run that the path names. 404 where there is none, ValueError where it cannot be read."""
    return named_run(root_of(request), request.path_params["name"])


def named_run(root: Path, name: str) -> Run:
    """As `run_of`."""
    directory = directory_of(root, name)
    if directory is None or not (directory / "run.db").is_file():
        raise HTTPException(404, f"there is no run {name!r} here; the list of runs has those that there are")
    return Run.open(directory)


def directory_of(root: Path, name: str) -> Path | None:
    """Where a run of that name is or would be, directly in `root`; None where it would lead out of it."""
    plain = (
        name not in ("", ".", "..") and name == Path(name).name and "\\" not in name and name.isprintable()
    )
    return root / name if plain else None


def settings_of(run: Run) -> dict[str, Any]:
    """By their dotted keys. A run whose config.yaml is lost or damaged is shown all the same."""
    try:
        return flatten(run.config)
    except ValueError:
        return {}


def whole_number(request: Request, key: str, default: int, most: int | None = None) -> int:
    """A count in the query. ValueError where it is none, or above `most`."""
    text = request.query_params.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{key} is a whole number from 0, not {text[:40]!r}")
    if most is not None and int(text) > most:
        raise ValueError(f"{key} is at most {most}, not {text}")
    return int(text)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that a request sends. ValueError where it is none, 413 where it is too large."""
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > MOST_BYTES:
            raise HTTPException(413, f"a request holds at most {MOST_BYTES} bytes")
    try:
        found = json.loads(read)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError('send one JSON object, such as {"changes": {}} or {"runs": [{}]}')
    return found
