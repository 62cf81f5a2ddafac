"""Rewards by rule: 1 where a reply states the answer in the data's column `answer`, else 0.

Reward functions like a user's own: `reward: numeric`. What a reply *states* is, in this order:

1. the contents of its tags, if it has any: `<answer>…</answer>`, `\\boxed{…}`, or what follows `####` on its line. Tags
   may repeat, and all must then state the right answer: of two different ones none is paid.
2. else the reply itself: `numeric` reads its last number, `choice` and `math` its last line that is not blank.

Hedges are not paid: a tag with two different numbers, a last number joined to another one ("41 or 42", "6/7"), a line
that names two choices. An `answer` that cannot be read pays nobody.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[-+−]?)[$€£¥]?(?P<inner>[-+−]?)"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?P<exponent>[eE][-+]?\d{1,3})?"
)
_JOINED = re.compile(r"\s*(?:,|/|-|–|\bor\b|\band\b|\bto\b)\s*(?:or\b\s*)?")
_THINK = re.compile(r"<think>(?!.*<think>).*?</think>.*", re.DOTALL)


def numeric(completions: Sequence[Any], answer: Sequence[Any], **columns: Any) -> list[float]:
    """Equality as numbers: "$1,234.00", "1,234." and "+1234" are 1234, and "-0" is 0; a sign counts.

    A thousands separator is a comma before each three digits. A currency sign, a unit and a trailing period are not
    looked at. Fractions are for `math`.
    """
    return [
        _all_equal([_number(stated) for stated in _tagged(text) or [text]], _number_of_gold(gold))
        for text, gold in zip(map(_text, completions), answer, strict=True)
    ]


def choice(completions: Sequence[Any], answer: Sequence[Any], **columns: Any) -> list[float]:
    """Equality as one of the letters A to J: the only one that stands alone in what the reply states."""
    return [
        _all_equal([_letter(stated) for stated in _stated(text)], _letter(str(gold)))
        for text, gold in zip(map(_text, completions), answer, strict=True)
    ]


def math(completions: Sequence[Any], answer: Sequence[Any], **columns: Any) -> list[float]:
    """Equality as mathematics, LaTeX or plain, by math-verify. Needs `pip install 'taut[math]'`."""
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise ImportError("the reward math needs math-verify: pip install 'taut[math]'") from error
    logging.getLogger("math_verify").setLevel(
        logging.ERROR
    )  # it warns that its timeouts are off, as they must be

    def expressions(text: str) -> list[Any]:
        # Its own timeouts work by signals in the main thread alone; the function's process is killed from outside.
        return [e for e in parse(f"\\boxed{{{text}}}", parsing_timeout=None) if not isinstance(e, str)]

    def right(text: str, gold: list[Any]) -> bool:
        found = expressions(text)
        return bool(gold and found and verify(gold, found, timeout_seconds=None))

    golds = [expressions((_tagged(str(gold)) or [str(gold).strip().strip("$")])[-1]) for gold in answer]
    return [
        float(all(right(stated.strip().strip("$"), gold) for stated in _stated(text)))
        for text, gold in zip(map(_text, completions), golds, strict=True)
    ]


def think_format(completions: Sequence[Any], **columns: Any) -> list[float]:
    """1 where the reply begins with one `<think>…</think>`, whatever follows."""
    return [float(_THINK.fullmatch(text) is not None) for text in map(_text, completions)]


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]


def _all_equal(stated: Sequence[Any], gold: Any) -> float:
    return float(gold is not None and all(value == gold for value in stated))


def _stated(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    return _tagged(text) or [lines[-1] if lines else ""]


def _tagged(text: str) -> list[str]:
    tags = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return tags + _boxed(text) + re.findall(r"####(.*)", text)


def _boxed(text: str) -> list[str]:
    """The contents of every `\\boxed{…}`, braces inside included; an open one ends with the text."""
    contents = []
    for opening in re.finditer(r"\\boxed\s*{", text):
        depth, end = 1, opening.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        contents.append(text[opening.end() : end - (depth == 0)])
    return contents


def _number_of_gold(gold: Any) -> Decimal | None:
    tagged = _tagged(str(gold))
    return _number(tagged[-1] if tagged else str(gold))


def _number(text: str) -> Decimal | None:
    """The last number of a text, unless another one is joined to it."""
    found = list(_NUMBER.finditer(text.replace("\\$", "$").replace("{,}", ",")))
    if not found:
        return None
    if len(found) > 1 and _JOINED.fullmatch(found[-1].string, found[-2].end(), found[-1].start()):
        return None
    last = found[-1]
    value = Decimal(last["digits"].replace(",", "") + (last["exponent"] or ""))
    return -value if ("-" in (sign := last["sign"] + last["inner"])) != ("−" in sign) else value


def _letter(text: str) -> str | None:
    bare = text.strip().strip("().:*").upper()
    letters = {bare} if re.fullmatch("[A-J]", bare) else set(re.findall(r"(?<!\w)[A-J](?![\w'])", text))
    return letters.pop() if len(letters) == 1 else None
