"""Replies with a value beneath every token, coloured by it, and readable without the colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from taut.terminal.console import Glyphs, glyphs_of, printable

ColorBy = Literal["ratio", "clip", "advantage"]
ClipName = Literal["", "high", "low", "outside-high", "outside-low", "dual"]
"""high, low: held by the clip there. outside: beyond it, on the side the advantage does not favour."""

# Black on tints is legible on dark and on light grounds, and orange and blue are told apart by everyone.
ABOVE = ("black on #fff0e0", "black on #fdbf86", "black on #f98b3c")
BELOW = ("black on #e6f0fa", "black on #a6cbe8", "black on #5fa4d6")
DUAL, UNTRAINED = "black on #c9a6e0", "dim"


@dataclass(frozen=True)
class TokenView:
    """One token as the update saw it; a quantity that is not known is None."""

    text: str
    trained: bool
    ratio: float | None
    advantage: float | None
    clip: ClipName
    observed: bool = False
    """An environment told it the model."""


@dataclass(frozen=True)
class Cell:
    """A token's text, what stands beneath it, and its colour."""

    text: str
    beneath: str
    style: str
    beneath_style: str = "dim"


def token_lines(
    tokens: Sequence[TokenView], color: ColorBy, strongest: tuple[float, float], width: int, console: Console
) -> list[Text]:
    """Lines in pairs, tokens above and their values beneath, at most `width` columns wide; blank ones are left out.

    `strongest` is the size of log ratio or advantage, below and above, from which the colour is strongest.
    """
    glyphs = glyphs_of(console)
    cells = [_cell(token, color, strongest, glyphs, console) for token in tokens]
    lines = [line for line, _ in cell_lines(cells, width)]
    return [line for number, line in enumerate(lines) if number % 2 == 0 or line.plain.strip()]


def cell_lines(cells: Sequence[Cell], width: int) -> list[tuple[Text, int]]:
    """Lines in pairs, texts above and what stands beneath them, and with each the number of its first cell."""
    lines: list[tuple[Text, int]] = []
    for number, cell in enumerate(cells):
        columns = max(cell_len(cell.text), cell_len(cell.beneath), 1)
        if not lines or lines[-1][0].cell_len + columns > width:
            lines += [(Text(), number), (Text(), number)]
        halves = ((cell.text, cell.style), (cell.beneath, cell.beneath_style))
        for (line, _), (text, style) in zip(lines[-2:], halves, strict=True):
            line.append(text + " " * (columns - cell_len(text)), style=style).append(" ")
    return lines


def observed_cell(text: str, glyphs: Glyphs) -> Cell:
    """A token that an environment told the model: dots beneath it, as many as it is wide."""
    return Cell(text, glyphs.observed * max(cell_len(text), 1), UNTRAINED)


def legend(color: ColorBy, surrogate: str, told: bool, console: Console) -> Text:
    """What colours and signs mean, on one line; one more where tokens were `told` by an environment."""
    glyphs = glyphs_of(console)
    line = Text(style="dim")
    if color != "clip":
        middle = 1 if color == "ratio" else 0
        line.append(f"below {middle} ")
        for style in (*reversed(BELOW), *ABOVE):
            line.append(" ", style=style)
        line.append(f" above {middle}   ")
    if color != "advantage":
        other = {"cispo": "weight capped", "dppo": "held by DPPO", "sapo": "held (never)"}
        held = other.get(surrogate, "held by the clip")
        line.append(f"{held} {glyphs.high} {glyphs.low}   outside, not held {glyphs.outside_high} ")
        line.append(f"{glyphs.outside_low}   dual {glyphs.dual}")
    if told:
        line.append(f"\ntold by the environment, not trained on {glyphs.observed * 4}")
    return line


def _cell(
    token: TokenView, color: ColorBy, strongest: tuple[float, float], glyphs: Glyphs, console: Console
) -> Cell:
    text = printable(token.text, console)
    if token.observed:
        return observed_cell(text, glyphs)
    return Cell(text, _beneath(token, color, glyphs), _style(token, color, strongest))


def clip_sign(clip: ClipName, glyphs: Glyphs) -> str:
    return {
        "": "",
        "high": glyphs.high,
        "low": glyphs.low,
        "outside-high": glyphs.outside_high,
        "outside-low": glyphs.outside_low,
        "dual": glyphs.dual,
    }[clip]


def clip_style(clip: ClipName) -> str:
    return {
        "": "",
        "high": ABOVE[2],
        "low": BELOW[2],
        "outside-high": ABOVE[0],
        "outside-low": BELOW[0],
        "dual": DUAL,
    }[clip]


def _beneath(token: TokenView, color: ColorBy, glyphs: Glyphs) -> str:
    sign = clip_sign(token.clip, glyphs)
    if color == "clip":
        return sign
    if color == "ratio":
        return "" if token.ratio is None else f"{token.ratio:.2f}{sign}"
    return "" if token.advantage is None else f"{token.advantage:+.2f}"


def _style(token: TokenView, color: ColorBy, strongest: tuple[float, float]) -> str:
    if not token.trained:
        return UNTRAINED
    if color == "clip":
        return clip_style(token.clip)
    if color == "ratio":
        amount = None if token.ratio is None else math.log(max(token.ratio, 1e-30))
    else:
        amount = token.advantage
    return "" if amount is None else tint(amount, strongest)


def tint(amount: float, strongest: tuple[float, float]) -> str:
    """None near nothing; else one of three, by size."""
    share = abs(amount) / (strongest[amount > 0] or math.inf)
    if not share > 0.05:
        return ""
    return (ABOVE if amount > 0 else BELOW)[0 if share < 0.5 else 1 if share < 1 else 2]
