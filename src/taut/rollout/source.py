"""Which prompts a batch takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from taut.types import Prompt


class PromptSource:
    """Goes through the prompts pass after pass, shuffled anew each time; a batch never holds one twice."""

    def __init__(self, prompts: Sequence[Prompt], seed: int) -> None:
        self._by_index = {prompt.index: prompt for prompt in prompts}
        self._seed = seed
        self._passes = 0
        self._queue: list[int] = []

    def __len__(self) -> int:
        return len(self._by_index)

    def take(self, count: int, without: Collection[int] = ()) -> list[Prompt]:
        """The next `count` prompts in order, skipping for later those whose index is in `without`.

        Gives fewer only where fewer exist.
        """
        taken: list[int] = []
        barred = set(without)
        count = min(count, len(self._by_index.keys() - barred))
        while len(taken) < count:
            waiting = [index for index in self._queue if index not in barred]
            if not waiting:
                self._queue += self._next_pass()
                continue
            taken.append(waiting[0])
            barred.add(waiting[0])
            self._queue.remove(waiting[0])
        return [self._by_index[index] for index in taken]

    def state(self) -> dict[str, object]:
        """What `restore` needs to go on from here."""
        return {"passes": self._passes, "queue": list(self._queue)}

    def restore(self, state: dict[str, object]) -> None:
        passes, queue = state["passes"], state["queue"]
        assert isinstance(passes, int)
        assert isinstance(queue, list)
        self._passes, self._queue = passes, queue

    def _next_pass(self) -> list[int]:
        rng = np.random.default_rng([self._seed, 2, self._passes])
        self._passes += 1
        return [int(index) for index in rng.permutation(sorted(self._by_index))]
