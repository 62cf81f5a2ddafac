"""A model weighed from its config alone weighs what the model weighs, and keeps what its passes keep."""

from typing import Any

import pytest
import torch
import transformers

from taut.config import LoraConfig
from taut.models.adapter import add_adapter
from taut.models.decoder import last_hidden_states
from taut.models.footprint import Footprint

ROWS, WIDTH = 3, 20


def kept_by(model: Any, adapter: Any = None, autocast: bool = False) -> int:
    """Bytes of the storages that a real pass saves for its backward pass."""
    own = {weight.data_ptr() for weight in model.parameters()}
    storages = {}

    def keep(x):
        if x.untyped_storage().data_ptr() not in own:
            storages[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        ids = torch.zeros(ROWS, WIDTH, dtype=torch.long)
        last_hidden_states(model.base_model, adapter, autocast, input_ids=ids, use_cache=False)
    return sum(storage.nbytes() for storage in storages.values())


def test_every_family_is_weighed_as_it_is(family, make_model):
    model = make_model(family)
    footprint = Footprint(model.config)
    assert footprint.parameters == footprint.trained == sum(p.numel() for p in model.parameters())
    assert footprint.backbone == sum(p.numel() for p in model.base_model.parameters())
    assert footprint.head == model.get_output_embeddings().weight.numel()


def test_every_family_keeps_what_its_passes_keep(family, make_model):
    model = make_model(family)
    # Of a sliding window transformers makes a mask, at most [T, T] booleans a row, which is not counted.
    mask = ROWS * WIDTH * WIDTH * 4 * model.config.num_hidden_layers
    window = getattr(model.config, "sliding_window", None)
    gap = kept_by(model) - Footprint(model.config).kept(ROWS, WIDTH)
    assert 0 <= gap <= (mask if window else 0)


def test_what_a_layer_of_llama_keeps_is_what_its_formula_says():
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    # Of each norm its input, that normed, and its output, with one deviation; queries, keys, values, what attention
    # gives and a normaliser a head; of the MLP the gate, its activation, the other half, and their product.
    norms, attention, mlp = 2 * (3 * 64 + 1), 64 + 2 * 32 + 64 + 4, 4 * 160
    last_norm = 2 * 64 + 1  # its output is no part of the backbone's backward pass
    of_a_token = 4 * (3 * (norms + attention + mlp) + last_norm) + 8  # and its id
    rotation = 4 * 2 * 32 * 16  # cosines and sines, one for all rows
    assert Footprint(config).kept(2, 32) == 64 * of_a_token + rotation


def test_an_adapter_trains_and_its_base_does_not(make_model):
    model = make_model("Llama", head_dim=8)
    footprint = Footprint(model.config, lora=LoraConfig(rank=4))
    # Of each matrix [out, in] rank · (out + in): q, k, v, o, gate, up, down of two layers.
    sizes = [(16, 16), (8, 16), (8, 16), (16, 16), (32, 16), (32, 16), (16, 32)]
    assert footprint.trained == 2 * 4 * sum(out + inner for out, inner in sizes)
    adapter = add_adapter(model, LoraConfig(rank=4))
    assert footprint.kept(ROWS, WIDTH) == kept_by(model, adapter)


def test_in_bfloat16_less_is_kept_beside_a_copy_of_the_weights(make_model):
    model = make_model("Llama")
    assert Footprint(model.config, autocast=True).kept(ROWS, WIDTH) == kept_by(model, autocast=True)


def test_in_four_bits_only_the_matrices_of_layers_are_packed(make_model):
    model = make_model("Llama", head_dim=8)
    lora = LoraConfig(rank=4)
    footprint = Footprint(model.config, dtype=torch.bfloat16, lora=lora, four_bit=True)
    matrices = 2 * (2 * 16 * 16 + 2 * 8 * 16 + 3 * 16 * 32)
    # 64 weights take 32 bytes and a scale of one; 256 scales take one of four.
    assert footprint.bytes == int(2 * (footprint.parameters - matrices) + matrices * (33 + 4 / 256) / 64)
    assert Footprint(model.config).bytes == 4 * footprint.parameters


def test_a_cache_holds_keys_and_values_of_every_layer():
    config = transformers.LlamaConfig(
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, hidden_size=64, intermediate_size=8
    )
    assert Footprint(config).cache_per_token == 3 * 2 * 2 * 16


def test_a_model_that_no_machine_here_could_hold_is_weighed():
    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
    )
    assert Footprint(config).parameters == pytest.approx(70.6e9, rel=0.01)
