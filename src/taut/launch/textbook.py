"""What PPO holds in memory for a model of a well-known shape: the plan of a run that needs no model on the disk."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from transformers import AutoConfig

from taut.checks.memory import FLOAT32, MemoryPlan, Phase, learner_memory
from taut.config import Config
from taut.launch.plan import of_run
from taut.models.footprint import Footprint

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "SmolLM2-135M": (
        "llama",
        {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
         "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True},
    ),
    "Qwen2.5-0.5B": (
        "qwen2",
        {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
         "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True},
    ),
    "Qwen2.5-1.5B": (
        "qwen2",
        {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
         "intermediate_size": 8960, "vocab_size": 151936, "tie_word_embeddings": True},
    ),
    "Llama-3.1-8B": (
        "llama",
        {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False},
    ),
}  # fmt: skip
"""transformers' model type and what its config sets, by name."""
RANK = 16
PROMPT = 512


def shape_of(size: str, positions: int) -> Any:
    """transformers' config of a size."""
    family, shape = SHAPES[size]
    return AutoConfig.for_model(family, **shape, max_position_embeddings=positions)


def textbook_memory(
    size: str,
    *,
    critic: bool = True,
    reference: bool = True,
    reward_model: bool = False,
    lora: bool = False,
    checkpointing: bool = False,
    bfloat16: bool = False,
    reply: int = 512,
) -> MemoryPlan:
    """The learner's memory, with 64 replies a batch of `reply` tokens at most to prompts of 512.

    The critic and the reward model are as large as the policy. With `lora` adapters of rank 16 train, the critic's
    on the policy's frozen base, which is the reference too. `bfloat16` is the type in which it is computed.
    Raises ValueError for a size that SHAPES lacks, and for replies that are not from 1 to 16,384 tokens.
    """
    if size not in SHAPES:
        raise ValueError(f"there is no size {size!r}: take one of {', '.join(SHAPES)}")
    if not 1 <= reply <= 16384:
        raise ValueError(f"a reply has 1 to 16384 tokens here, not {reply}")
    own = shape_of(size, PROMPT + reply)
    settings = {
        "model": {
            "path": size,
            "gradient_checkpointing": checkpointing,
            "dtype": "bfloat16" if bfloat16 else "float32",
        },
        "lora": {"rank": RANK if lora else 0},
        "algorithm": {"preset": "ppo-batch-mean", "advantage": "gae" if critic else "batch-mean"},
        "critic": {"shared": critic and lora},
        "kl": {"placement": "reward" if reference else "none"},
        "data": {"max_prompt_tokens": PROMPT},
        "sampling": {"max_new_tokens": reply},
    }
    config = Config.model_validate(settings)
    models, lengths, setting, _ = of_run(config, own, ranks=1, samplers_apart=False)
    if reward_model:
        models = replace(models, reward_models={"reward model": FLOAT32 * Footprint(own).backbone})
    return learner_memory(models, lengths, setting)


@cache
def whole_plan(size: str, reply: int, lora: bool, checkpointing: bool, bfloat16: bool) -> dict[str, Any]:
    """{"held", "phases"} as plain values, with critic, reference and reward model.

    Leaving a model out takes its terms out and changes no other: a page does that without asking again.
    """
    memory = textbook_memory(
        size, reward_model=True, reply=reply, lora=lora, checkpointing=checkpointing, bfloat16=bfloat16
    )
    return {"held": _plain(memory.held), "phases": [_plain(phase) for phase in memory.phases]}


def _plain(phase: Phase) -> dict[str, Any]:
    terms = [{"name": term.name, "formula": term.formula, "bytes": term.bytes} for term in phase.terms]
    return {"name": phase.name, "terms": terms}
