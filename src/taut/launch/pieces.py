"""From a run's token ids to their texts, without torch or transformers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from taut.config import WORLD
from taut.store import Run
from taut.tasks.adder import CHARACTERS
from taut.training.checkpoint import CHECKPOINTS, checkpoint_folder, checkpoint_steps

FILE = "tokenizer.json"


def token_pieces(run: Run) -> Callable[[int], str]:
    """The text of one id, by the tokenizer in the run's newest checkpoint, else in its model's folder.

    Where neither holds a `tokenizer.json`, the text is the id itself. Bytes that are no whole character, as
    byte-level tokenizers cut them, read as U+FFFD.
    """
    model = run.config.get("model", {})
    if model.get("path") == WORLD:
        return lambda token: CHARACTERS[token] if 0 <= token < len(CHARACTERS) else str(token)
    tokenizer = _tokenizer(run, model)
    if tokenizer is None:
        return str
    return functools.lru_cache(maxsize=None)(
        lambda token: str(tokenizer.decode([token], skip_special_tokens=False))
    )


def _tokenizer(run: Run, model: Mapping[str, Any]) -> Tokenizer | None:
    checkpoints = run.directory / CHECKPOINTS
    folders = [checkpoint_folder(checkpoints, step) for step in reversed(checkpoint_steps(checkpoints))]
    for folder in (*folders, Path(str(model.get("path", "")))):
        try:
            return Tokenizer.from_file(str(folder / FILE))
        except Exception:  # tokenizers raises bare Exceptions for a file that is missing or damaged
            continue
    return None
