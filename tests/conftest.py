"""Tiny random models of the families we promise to support, built in the test that asks for one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

VOCABULARY, END = 13, 12

# A shell has what it starts in the background ignore interrupts, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

FAMILIES: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "Llama": {"num_key_value_heads": 1},
    "Qwen2": {"num_key_value_heads": 1},
    "Qwen3": {"num_key_value_heads": 1, "head_dim": 8},
    "GPTNeoX": {"use_parallel_residual": True},  # Pythia's
    "Phi": {},  # its head has a bias
    "Mistral": {"num_key_value_heads": 1, "sliding_window": 5},
    # The caps and scales are far from neutral, so that forgetting one shows.
    "Gemma2": {
        "head_dim": 8,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 8,
        "sliding_window": 5,
        "final_logit_softcapping": 2.0,
    },
    "Gemma": {"head_dim": 8, "num_key_value_heads": 1},
    "Gemma3": {
        "head_dim": 8,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 8,
        "sliding_window": 5,
        "final_logit_softcapping": 2.0,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "Cohere": {"num_key_value_heads": 1, "logit_scale": 0.25},
    "Granite": {"num_key_value_heads": 1, "logits_scaling": 4.0},
}
_SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _trackio_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """trackio decides on its folder when it is imported, which the libraries beneath us may do at any time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKIO_DIR", str(tmp_path_factory.mktemp("trackio")))
        yield


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    """(family, seed, further config values) -> a model whose weights, biases and norms are all N(0, 0.3²)."""
    return _make_model


def _make_model(family: str, seed: int = 0, **values: Any) -> Any:
    sizes = {} if family == "GPT2" else _SIZES
    ids = {"vocab_size": VOCABULARY, "eos_token_id": END, "bos_token_id": None, "pad_token_id": None}
    config_class = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config")
    config = config_class(**{**sizes, **ids, **FAMILIES[family], **values})
    model = getattr(transformers, f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(
        config
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model.eval()


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHAT_CHARACTERS = "0123456789+=? abcdefghijklmnopqrstuvwxyz\n"


@pytest.fixture
def chat_tokenizer() -> Any:
    """One id a character, and ChatML's two marks, of which `<|im_end|>` ends a turn; new at each use."""
    from taut.models.tiny import character_tokenizer

    tokenizer = character_tokenizer(CHAT_CHARACTERS + ";", ";")
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML
    return tokenizer


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def world_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The built-in world's models are made here, ten seconds a seed, once for all processes of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.getbasetemp()
        folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
        patch.setenv("TAUT_CACHE", str(folder))
        yield folder
