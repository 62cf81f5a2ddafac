"""Operations counted by hand, on models small enough for it."""

import torch
from ceilings import gemm_rate, matrices_of, pass_operations, read_bandwidth, update_operations
from transformers import LlamaConfig, LlamaForCausalLM

from taut.models.tiny import tiny_gpt2


def little_llama() -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
    )


def test_matrices_of_a_llama():
    matrices = matrices_of(little_llama())
    # q and o are 8×8, k and v 4×8, gate and up 16×8, down 8×16; two layers of them.
    assert matrices.body == {(8, 8): 4, (4, 8): 4, (16, 8): 4, (8, 16): 2}
    assert matrices.body_weights == 2 * (2 * 64 + 2 * 32 + 3 * 128)
    assert matrices.head == (32, 8)
    assert matrices.attention == 2 * 8


def test_matrices_of_a_gpt2_are_not_transposed():
    matrices = matrices_of(tiny_gpt2(13, 12, seed=0, layers=1, width=16))
    assert matrices.body == {(48, 16): 1, (16, 16): 1, (64, 16): 1, (16, 64): 1}


def test_a_prompt_is_counted_once_for_its_replies():
    matrices = matrices_of(little_llama())
    # One prompt of 3 tokens, two replies of 2: 3 + 2 · 1 tokens pass the layers, 4 reach the head.
    products = 2 * (1152 * 5 + 256 * 4)
    # The prompt's tokens look at 1, 2 and 3 tokens, the first of each reply at 4.
    attention = 4 * 16 * (6 + 2 * 4)
    assert pass_operations(matrices, 1, 3, 2, 2) == products + attention
    assert update_operations(100, epochs=4) == 1200


def test_torch_counts_the_same_products():
    """The oracle is torch's own counter, on one row that has its prompt to itself."""
    from torch.utils.flop_counter import FlopCounterMode

    model = little_llama()
    model.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.zeros(1, 6, dtype=torch.long), use_cache=False)
    matrices = matrices_of(model)
    # It counts all pairs of tokens and the head at all positions; here only what is needed is counted.
    everything = 2 * (matrices.body_weights + matrices.head_weights) * 6 + 4 * matrices.attention * 36
    assert counter.get_total_flops() == everything
    needed = pass_operations(matrices, 1, 4, 1, 3)
    assert needed == everything - 2 * matrices.head_weights * 3 - 4 * matrices.attention * (36 - 21)


def test_rates_are_of_this_machine():
    assert 1e7 < gemm_rate(matrices_of(little_llama()), tokens=64, head_tokens=32, repeats=2) < 1e14
    assert 1e7 < read_bandwidth(megabytes=8, repeats=2) < 1e13
