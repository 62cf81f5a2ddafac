"""How a reward is written: a sum of terms, each with a weight."""

from __future__ import annotations

import difflib
import math
import re
from typing import NamedTuple

VERIFIERS = ("exact-match", "numeric", "choice", "math", "think-format")
"""What can be named alone; `tasks/verifiers.py` says what each does."""
ENVIRONMENT = "environment"
"""The term that stands for what the environment paid."""

_TERM = re.compile(r"(?:([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*\*\s*)?(\S.*)", re.DOTALL)


class RewardTerm(NamedTuple):
    weight: float
    reference: str
    """A verifier, `environment`, `file.py:function`, `module:function`, or `model:` and a reward model's folder."""


def reward_terms(text: str) -> list[RewardTerm]:
    """ "rewards.py:score + 0.2*rewards.py:style" as two terms.

    Raises ValueError naming what is no term.
    """
    return [_term(part.strip()) for part in re.split(r"\s+\+\s+", text)]


def _term(text: str) -> RewardTerm:
    found = _TERM.fullmatch(text)
    weight, reference = found.groups() if found else (None, text)
    place, colon, name = reference.rpartition(":")
    if reference not in (*VERIFIERS, ENVIRONMENT) and not (colon and place and name):
        nearest = difflib.get_close_matches(reference, (*VERIFIERS, ENVIRONMENT), n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(
            f"reward: {text!r} must be one of {', '.join(VERIFIERS)}, or name a function as file.py:function or "
            f"module:function, or a reward model as model:FOLDER, with or without a weight before it, as in "
            f"0.2*file.py:function{hint}"
        )
    if not math.isfinite(float(weight or 1)):
        raise ValueError(f"reward: {text!r} has the weight {weight}, and a weight must be a finite number")
    return RewardTerm(float(weight or 1), reference)
