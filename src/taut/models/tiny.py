"""A tiny GPT-2-type model and a character tokenizer, in the transformers format, from nothing."""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

POSITIONS = 64
"""Longest prompt and reply, in tokens."""


def character_tokenizer(characters: str, end: str) -> PreTrainedTokenizerFast:
    """One id a character, in the order given; `end` ends a reply and also pads."""
    tokenizer = Tokenizer(models.WordLevel({character: i for i, character in enumerate(characters)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=end, pad_token=end, clean_up_tokenization_spaces=False
    )


def tiny_gpt2(
    vocabulary: int, end_id: int, seed: int, layers: int = 2, width: int = 80, heads: int = 4
) -> GPT2LMHeadModel:
    """A random pre-norm decoder with learned positions, an untied head and no dropout.

    Initialised as PyTorch's own modules are: embeddings N(0, 1), matrices and biases U(±1/√inputs). transformers
    would draw everything from N(0, 0.02²); models that start there reach minima so sharp that PPO at a step size
    of 0.001 falls out of them within ten steps.
    """
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=POSITIONS,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=4 * width,
        activation_function="gelu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT2LMHeadModel(config)
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.reset_parameters()
            elif isinstance(module, Conv1D):  # transformers' name for GPT-2's transposed linear layer
                bound = module.weight.shape[0] ** -0.5
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.uniform_(module.bias, -bound, bound)
    return model.eval()
