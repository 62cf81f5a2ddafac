"""The console everything is printed through, and what it can and may show."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text


@dataclass(frozen=True)
class Glyphs:
    """The signs that are beyond ASCII, and so not on every console."""

    bars: str
    """From low to high, for sparklines."""
    high: str
    low: str
    outside_high: str
    outside_low: str
    dual: str
    dot: str
    plus_minus: str
    ellipsis: str
    branch: str
    """Before a fork of the run above it."""
    observed: str
    """Beneath what an environment told the model."""


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "▲", "▼", "△", "▽", "◆", "·", "±", "…", "└", "┈")
ASCII = Glyphs("_.-~=+*#", "^", "v", "'", ",", "*", "|", "+-", "...", "`-", ":")


def make_console(quiet: bool = False) -> Console:
    """Standard output. Nothing printed to it is read as markup, and no character it lacks is an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(highlight=False, markup=False, emoji=False, quiet=quiet)


def glyphs_of(console: Console) -> Glyphs:
    return ASCII if console.options.ascii_only else UNICODE


def printable(text: str, console: Console) -> str:
    """Text from a model, a prompt or a path on one line: what a terminal would obey, or lacks, is escaped."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    if console.options.ascii_only:
        visible = visible.translate({ord("⟨"): "<", ord("⟩"): ">"})  # around bytes and ids in place of texts
    return visible.encode(console.encoding, "backslashreplace").decode(console.encoding)


def foreign(text: str, console: Console, style: str = "") -> Text:
    """`printable` text as rich takes it without reading markup in it."""
    return Text(printable(text, console), style=style)
