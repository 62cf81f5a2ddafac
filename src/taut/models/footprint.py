"""What a causal language model weighs, and what a pass through it keeps, from its config: nothing is allocated."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from taut.config import LoraConfig
from taut.models.adapter import add_adapter
from taut.models.decoder import last_hidden_states
from taut.models.layout import decoder_costs

# transformers makes a mask for sdpa when it sees tensors without values, and none when it sees a batch of ours.
# For an attention that it does not know it makes none.
FLOAT32 = 4
FOUR_BIT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Of a weight: 4 bits, a scale in 8 bits for 64 of them, and one in float32 for 256 scales."""
UNMASKED = "sdpa-without-mask"
AttentionInterface.register(UNMASKED, sdpa_attention_forward)


class Footprint:
    """A model of tensors that have shapes and no memory. Counts are of numbers, where they do not say bytes."""

    def __init__(
        self,
        config: Any,
        dtype: torch.dtype = torch.float32,
        attention: str | None = None,
        lora: LoraConfig | None = None,
        autocast: bool = False,
        trust_remote_code: bool = False,
        four_bit: bool = False,
    ) -> None:
        """`config` is transformers' own. With `lora` the model is frozen, and its adapter is what trains.

        `four_bit` packs the matrices of the layers, which compute in `dtype`.
        """
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                copy.deepcopy(config),
                dtype=dtype,
                attn_implementation=attention,
                trust_remote_code=trust_remote_code,
            ).eval()
        self.costs = decoder_costs(model)
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(UNMASKED)
        text, head = model.config.get_text_config(), model.get_output_embeddings()
        self.weight_bytes = dtype.itemsize
        self.autocast = autocast
        self.parameters = sum(weight.numel() for weight in model.parameters())
        self.backbone = sum(weight.numel() for weight in model.base_model.parameters())
        matrices = [module for module in model.base_model.modules() if isinstance(module, nn.Linear)]
        packed = sum(matrix.weight.numel() for matrix in matrices) if four_bit else 0
        self.bytes = int((self.parameters - packed) * dtype.itemsize + packed * FOUR_BIT_BYTES)
        self.layers: int = text.num_hidden_layers
        self.hidden: int = text.hidden_size
        self.vocabulary: int = head.weight.shape[0]
        self.head = head.weight.numel()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        head_width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        self.cache_per_token = 2 * self.layers * heads * head_width
        """Keys and values of all layers."""
        self.attention_width: int = text.num_attention_heads * head_width
        self._adapter = add_adapter(model, lora) if lora else None
        self.adapted = self._adapter is not None
        trained = [w.numel() for w in (self._adapter.parameters() if self._adapter else model.parameters())]
        self.trained, self.largest_trained = sum(trained), max(trained)
        self.trained_bytes = FLOAT32 if self._adapter else self.weight_bytes
        """Of a trained number: adapters are float32 on a base of any type."""
        self._decoder = model.base_model
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        with self._mode:
            model.to_empty(device="cpu")

    def kept(self, rows: int, width: int) -> int:
        """Bytes that autograd keeps of a pass of the backbone over [rows, width] tokens, for the backward pass.

        Counted as the pass itself saves them, each storage once, the weights not.
        """
        own = {weight.untyped_storage()._cdata for weight in self._decoder.parameters()}
        kept: dict[int, Any] = {}

        def keep(x: Tensor) -> Tensor:
            storage = x.untyped_storage()
            if storage._cdata not in own:
                kept[storage._cdata] = storage  # held, so that no later one gets its address
            return x

        with self._mode, torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            ids = torch.zeros(rows, width, dtype=torch.long)
            last_hidden_states(self._decoder, self._adapter, self.autocast, input_ids=ids, use_cache=False)
        return sum(storage.nbytes() for storage in kept.values())
