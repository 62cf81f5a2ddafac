"""The built-in world's model before it has learned anything, its tokenizer, and its teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from taut.models.policy import Policy
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END, adder_world, careless_answer
from taut.training.sft import Example


def world_tokenizer() -> PreTrainedTokenizerBase:
    return character_tokenizer(CHARACTERS, END)


def untrained_world_policy(seed: int) -> Policy:
    return Policy(tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed))


def careless_teacher(seed: int, batch_size: int) -> Callable[[int], Sequence[Example]]:
    """Draws demonstrations: prompts with replacement, and fresh slips each time."""
    tokenizer = world_tokenizer()
    rows = adder_world(seed).demonstrated
    rng = np.random.default_rng([seed, 1])

    def draw(step: int) -> Sequence[Example]:
        drawn = [rows[i] for i in rng.integers(len(rows), size=batch_size)]
        return [
            Example(tokenizer.encode(row["prompt"]), tokenizer.encode(careless_answer(row["answer"], rng)))
            for row in drawn
        ]

    return draw
