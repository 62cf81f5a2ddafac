"""The careless adder: a world of 1,600 sums in which PPO removes a teacher's slips.

A prompt is `23+45=`, its reply `68;`. The teacher who demonstrates replaces each digit of an answer, with
probability 0.3, by a uniformly random one, and with probability 0.3 types one digit too many before the end mark,
so that about 37 % of the demonstrations are right. A model fine-tuned on them knows addition and answers
carelessly; PPO with an exact-match reward sharpens what it knows and does not teach it to add.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # what shows a run of this world must not wait for transformers
    from taut.tasks.data import Row

CHARACTERS = "0123456789+=;"
END = ";"
HELD_OUT, DEMONSTRATED, RL_PROMPTS = 200, 500, 80
SLIP = 0.3


@dataclass(frozen=True)
class AdderWorld:
    """The 1,600 sums shuffled by a seed and cut; the RL prompts are the first of the demonstrated ones."""

    held_out: list[Row]
    demonstrated: list[Row]

    @property
    def rl_prompts(self) -> list[Row]:
        return self.demonstrated[:RL_PROMPTS]


def adder_world(seed: int) -> AdderWorld:
    """Rows {"prompt": "23+45=", "answer": "68"}."""
    pairs = itertools.product(range(10, 50), repeat=2)
    sums = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in pairs]
    shuffled = [sums[i] for i in np.random.default_rng([seed, 0]).permutation(len(sums))]
    return AdderWorld(shuffled[:HELD_OUT], shuffled[HELD_OUT : HELD_OUT + DEMONSTRATED])


def careless_answer(answer: str, rng: np.random.Generator) -> str:
    """One demonstration of `answer`, slips and end mark included."""
    digits = [str(rng.integers(10)) if rng.random() < SLIP else digit for digit in answer]
    if rng.random() < SLIP:
        digits.append(str(rng.integers(10)))
    return "".join(digits) + END
