"""From a run's token ids to the pieces of text that they stand for, without torch or transformers."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from taut.config import WORLD
from taut.store import Run
from taut.tasks.adder import CHARACTERS, END
from taut.training.checkpoint import CHECKPOINTS, checkpoint_folder, checkpoint_steps

FILE = "tokenizer.json"


class Pieces(NamedTuple):
    text_of: Callable[[int], str]
    """By id; bytes that are no whole character are "⟨e2 80⟩", an id that the tokenizer lacks is "⟨#7⟩"."""
    special: frozenset[int]
    """Ids that mark something, such as the end, rather than say it."""


def token_pieces(run: Run) -> Pieces:
    """By the tokenizer that the run saved with its newest checkpoint, else its model's; without one, bare ids.

    A run whose config.yaml is lost or damaged is shown all the same.
    """
    path = _model_path(run)
    if path == WORLD:
        texts = dict(enumerate(CHARACTERS))
        return Pieces(lambda token: texts.get(token, _unknown(token)), frozenset([CHARACTERS.index(END)]))
    tokenizer = _tokenizer(run, path)
    if tokenizer is None:
        return Pieces(_unknown, frozenset())
    added = tokenizer.get_added_tokens_decoder()
    special = frozenset(token for token, marker in added.items() if marker.special)
    return Pieces(functools.cache(_reader(tokenizer)), special)


def _model_path(run: Run) -> str | None:
    try:
        model = run.config.get("model")
    except ValueError:
        return None
    path = model.get("path") if isinstance(model, dict) else None
    return path if isinstance(path, str) else None


def _tokenizer(run: Run, path: str | None) -> Tokenizer | None:
    checkpoints = run.directory / CHECKPOINTS
    places = [checkpoint_folder(checkpoints, step) for step in reversed(checkpoint_steps(checkpoints))]
    for place in (*places, *([Path(path)] if path else [])):
        if (place / FILE).is_file():
            try:
                return Tokenizer.from_file(str(place / FILE))
            except Exception:  # tokenizers raises bare ones for a damaged file; an older one may do
                continue
    return None


def _reader(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A lone token, decoded, loses its leading space or its half of a character: read it as the vocabulary has it."""
    kinds, added = _decoder_kinds(tokenizer), tokenizer.get_added_tokens_decoder()

    def text_of(token: int) -> str:
        if token in added:
            return added[token].content
        written = tokenizer.id_to_token(token)
        if written is None:
            return _unknown(token)
        if "ByteLevel" in kinds:
            return _text(bytes(_BYTE_OF.get(character, 0x3F) for character in written))
        if "ByteFallback" in kinds and len(written) == 6 and written.startswith("<0x"):
            return _text(bytes.fromhex(written[3:5]))
        if "▁" in written:  # as SentencePiece writes a space
            return written.replace("▁", " ")
        plain = kinds <= {"Fuse", "ByteFallback", "Strip", "Replace"}
        return written if plain else tokenizer.decode([token], skip_special_tokens=False)

    return text_of


def _decoder_kinds(tokenizer: Tokenizer) -> set[str]:
    """The names of the steps that its decoder takes."""
    if tokenizer.decoder is None:
        return set()
    state: dict[str, Any] = json.loads(tokenizer.decoder.__getstate__())
    return {step["type"] for step in state.get("decoders", [state])}


def _text(written: bytes) -> str:
    try:
        return written.decode("utf-8")
    except UnicodeDecodeError:
        return f"⟨{written.hex(' ')}⟩"


def _unknown(token: int) -> str:
    return f"⟨#{token}⟩"


def _byte_alphabet() -> dict[str, int]:
    """Byte-level tokenizers write each byte as one visible character: itself where it is, else one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()
