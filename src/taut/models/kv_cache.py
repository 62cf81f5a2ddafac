"""Keys and values of sequences that are being written: allocated once, and written in place.

A sequence has a slot, and its token at position n stands in column n: nothing stands between a prompt and its reply,
however long the prompts beside it are. So sequences may come and go while others are being written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

_KINDS: dict[type, str] = {DynamicLayer: "full_attention", DynamicSlidingWindowLayer: "sliding_attention"}


class KVCache:
    """The first `count` slots are taken, and no sequence in them uses a column from `width` on.

    The memory of a slot's columns is taken from the machine as they are first written, on a CPU. A layer with a
    sliding window keeps what it no longer sees. Raises ValueError for layers of other kinds than these two.
    """

    def __init__(self, config: Any, slots: int, columns: int) -> None:
        self.slots, self.columns = slots, columns
        self.count = self.width = 0
        self.even = True
        """Whether all sequences have the same number of tokens."""
        self._copies = 0
        """Of each row that is being added; 0 while sequences grow."""
        self._kinds, self._window = _layer_kinds(config)
        self._flash = "flash" in (config._attn_implementation or "")
        self._layers = [_Layer(self) for _ in self._kinds]
        self.cache = Cache(layers=[*self._layers])
        """What transformers is given."""

    def adds(self, copies: int) -> None:
        """The next pass reads new sequences [n, P], right-padded, each of which takes `copies` slots."""
        self._copies = copies

    def added(self, sequences: int, length: int) -> None:
        """The pass is over."""
        self.count += sequences * self._copies
        self.width = max(self.width, length)
        self._copies = 0

    def grows(self, positions: Tensor) -> dict[str, Any]:
        """The next pass reads one token of each sequence, at `positions` [count]; returns what it sees, as inputs."""
        self.width += 1
        self._at = torch.arange(self.count, device=positions.device), positions
        return {"position_ids": positions[:, None], "attention_mask": self._visible(positions)}

    def settle(self, positions: Tensor) -> None:
        """Tells where the sequences [count] will grow, after some were added or dropped."""
        low, high = torch.stack(positions.aminmax()).tolist() if len(positions) else (0, 0)
        self.even, self.width = low == high, high

    def keep(self, order: Tensor) -> None:
        """Slot n takes over what slot `order[n]` holds. Those that move are copied, none of them onto another."""
        moved = (order != torch.arange(len(order), device=order.device)).nonzero()[:, 0]
        self.count = len(order)
        if len(moved):
            for layer in self._layers:
                for held in layer.held():
                    held[moved, :, : self.width] = held[order[moved], :, : self.width]

    def write(self, held: Tensor, new: Tensor) -> Tensor:
        """Puts a layer's `new` [n, heads, P, width of a head] into `held`; returns what is attended to."""
        first, length = self.count, new.shape[2]
        if self._copies:
            own = held[first : first + len(new) * self._copies]
            own.unflatten(0, (len(new), self._copies))[:, :, :, :length] = new[:, None]
            own[:, :, length : self.width] = 0
            return new
        held[:first, :, self.width - 1 : self.width] = new
        if not self.even:
            # What was just put behind a shorter sequence is there to be a number: it is not attended to.
            held[self._at[0], :, self._at[1]] = new[:, :, 0]
        return held[:first, :, : self.width]

    def empty(self, new: Tensor) -> Tensor:
        return new.new_empty(self.slots, new.shape[1], self.columns, new.shape[3])

    def lengths(self, query: int) -> tuple[int, int]:
        """Tokens in the cache that a pass over `query` tokens will find, and those it will attend to."""
        return (0, query) if self._copies else (self.width - 1, self.width)

    def _visible(self, positions: Tensor) -> Any:
        """An additive mask [count, 1, 1, width]; one for each kind of layer where there are two; None: everything."""
        if self.even:
            return None  # transformers itself knows what a window shows of sequences that are equally long
        columns = torch.arange(self.width, device=positions.device)
        hidden = {"full_attention": columns > positions[:, None]}
        if self._flash:
            return ~hidden["full_attention"]  # it takes out what is not there, and minds the window itself
        if self._window is not None:
            too_far = columns <= positions[:, None] - self._window
            hidden["sliding_attention"] = hidden["full_attention"] | too_far
        kind = self._layers[0].held()[0].dtype
        masks = {
            name: torch.zeros(where.shape, dtype=kind, device=where.device)
            .masked_fill_(where, torch.finfo(kind).min)
            .unsqueeze(1)
            .unsqueeze(1)
            for name, where in hidden.items()
            if name in self._kinds
        }
        return masks if len(masks) > 1 else next(iter(masks.values()))


class _Layer(CacheLayerMixin):
    """What transformers asks of one layer."""

    def __init__(self, owner: KVCache) -> None:
        super().__init__()
        self.owner = owner

    def held(self) -> tuple[Tensor, Tensor]:
        assert self.keys is not None, "a prompt comes first"
        assert self.values is not None
        return self.keys, self.values

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = self.owner.empty(key_states), self.owner.empty(value_states)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self.held()
        return self.owner.write(keys, key_states), self.owner.write(values, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.lengths(query_length)[1], 0

    def get_seq_length(self) -> int:
        return self.owner.lengths(0)[0]

    def get_max_length(self) -> int:
        return self.owner.columns


def _layer_kinds(config: Any) -> tuple[list[str], int | None]:
    """Each layer's kind, and the window of those that have one."""
    named = set(getattr(config.get_text_config(decoder=True), "layer_types", None) or _KINDS.values())
    layers = DynamicCache(config=config).layers
    unknown = {type(layer).__name__ for layer in layers if type(layer) not in _KINDS}
    if unknown or not named <= set(_KINDS.values()):
        raise ValueError(
            f"{type(config).__name__} has layers that are neither full nor sliding attention "
            f"({', '.join(sorted(unknown or named))}): choose a model without them"
        )
    windows = {layer.sliding_window for layer in layers if isinstance(layer, DynamicSlidingWindowLayer)}
    assert len(windows) <= 1, windows
    return [_KINDS[type(layer)] for layer in layers], next(iter(windows), None)
