"""Pairs of replies to one prompt, one of them preferred."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from taut.config import DataConfig
from taut.tasks.data import column_of, completion_ids, make_prompts
from taut.tasks.sources import Row


@dataclass(frozen=True)
class PreferencePair:
    """Token ids; replies end with the end-of-sequence id."""

    prompt_ids: Sequence[int]
    chosen_ids: Sequence[int]
    rejected_ids: Sequence[int]
    margin: float = 0.0
    """By how much more, in units of reward, the chosen reply is to be rated."""

    @property
    def texts(self) -> tuple[list[int], list[int]]:
        """Prompt and reply together: chosen, rejected."""
        return [*self.prompt_ids, *self.chosen_ids], [*self.prompt_ids, *self.rejected_ids]

    @property
    def length(self) -> int:
        """Tokens of the longer of the two texts."""
        return len(self.prompt_ids) + max(len(self.chosen_ids), len(self.rejected_ids))


def make_pairs(
    rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase, data: DataConfig, path: str
) -> list[PreferencePair]:
    """Pairs of rows with columns `chosen`, `rejected`, the prompt's and, where there is one, `margin`.

    A reply is a text, or messages that go on from the prompt's. Fewer than the rows only where prompts
    that are too long are skipped. Raises ValueError naming the row where a column is missing or no reply, or a
    margin no finite number, and where the tokenizer has no end-of-sequence token.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError("the model's tokenizer has no end-of-sequence token to end the replies with")
    replies = [column_of(rows, name, path) for name in ("chosen", "rejected")]
    pairs = []
    for prompt in make_prompts(rows, tokenizer, data, path):
        where = f"{path}, row {prompt.index + 1}"
        chosen, rejected = (
            completion_ids(tokenizer, prompt, column[prompt.index], where) for column in replies
        )
        pairs.append(PreferencePair(prompt.ids, chosen, rejected, _margin(prompt.columns, where)))
    return pairs


def _margin(columns: Mapping[str, Any], where: str) -> float:
    value = columns.get("margin", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{where}: column 'margin' must be a finite number, not {value!r}")
    return float(value)
