"""What a user brings, by its reference: `file.py:name` or `module:name`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from taut.tasks.process.worker import RefusedError


def load_reference(reference: str, kind: str) -> Any:
    """A function or class; `kind` is what it is to be, for messages.

    Raises RefusedError naming what is missing: the file, the name in it, or an import inside it.
    """
    place, _, name = reference.rpartition(":")
    try:
        module = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # the user's own module runs here
        line = line_in(os.path.abspath(place), error)
        raise RefusedError(
            f"{kind} {reference}: importing {place} raised {type(error).__name__}: {error}{line}"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        there = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise RefusedError(f"{kind} {reference}: {place} has no {name}; it has {', '.join(there) or 'none'}")
    return found


def line_in(file: str, error: BaseException) -> str:
    """The line of a user's file that an error came from, as the end of a message; "" where it has none there."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", at {file}:{lines[-1]}" if lines else ""


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"taut_loaded_{Path(path).stem}"  # a reward file may well be called math.py
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up there
    sys.path.append(str(Path(path).resolve().parent))  # what it imports may lie beside it
    spec.loader.exec_module(module)
    return module
