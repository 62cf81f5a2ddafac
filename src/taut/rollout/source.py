"""Which prompts a batch takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from taut.types import Prompt


class Source(Protocol):
    """What the loop asks of whatever hands out prompts."""

    def take(self, count: int, without: Collection[int] = ()) -> list[Prompt]:
        """`count` prompts for a batch, or fewer, none with an index in `without`: those the batch has tried."""
        ...

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on from here."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class PromptSource:
    """Goes through the prompts pass after pass, shuffled anew each time; a batch never holds one twice.

    A pass takes a prompt as often as its weight says: 1 once, 2 twice, 0.3 in three passes of ten.
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int) -> None:
        self._by_index = {prompt.index: prompt for prompt in prompts}
        assert len(self._by_index) == len(prompts), "two prompts share an index"
        self._seed = seed
        self._passes = 0
        self._queue: list[int] = []

    def __len__(self) -> int:
        return len(self._by_index)

    def take(self, count: int, without: Collection[int] = ()) -> list[Prompt]:
        """The next `count` prompts in order, skipping for later those whose index is in `without`.

        Gives fewer only where fewer exist.
        """
        barred = self._by_index.keys() & without
        count = min(count, len(self) - len(barred))
        taken: list[int] = []
        place = 0
        while len(taken) < count:
            if place == len(self._queue):
                self._queue += self._next_pass()
            if self._queue[place] in barred:
                place += 1
            else:
                taken.append(self._queue.pop(place))
                barred.add(taken[-1])
        return [self._by_index[index] for index in taken]

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on from here."""
        return {"passes": self._passes, "queue": list(self._queue)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError where the prompts are not those that the state is about."""
        if gone := set(state["queue"]) - self._by_index.keys():
            raise ValueError(
                f"row {min(gone)} of the data is among the next prompts and no longer there: the data has "
                f"{len(self)} prompts for training now; restore it as it was when the run was begun"
            )
        self._passes, self._queue = state["passes"], list(state["queue"])

    def _next_pass(self) -> list[int]:
        indices = sorted(self._by_index)
        rounding = np.random.default_rng([self._seed, 3, self._passes]).random(len(indices))
        times = np.floor([self._by_index[index].weight for index in indices] + rounding).astype(int)
        rng = np.random.default_rng([self._seed, 2, self._passes])
        self._passes += 1
        return [int(index) for index in rng.permutation(np.repeat(indices, times))]
