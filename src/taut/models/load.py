"""Causal language models and tokenizers from a folder, a hub id or a GGUF file."""

from __future__ import annotations

import copy
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from taut.models.four_bit import four_bit_settings, prepare_packed

UNREADABLE = (
    OSError,
    ValueError,
    ImportError,  # also an attention that is not installed
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
    StrictDataclassError,
    SafetensorError,
    pickle.UnpicklingError,
)
"""What transformers raises where a folder is damaged: whatever its own code runs into."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "temperature": (1.0,),
    "top_k": (0,),
    "top_p": (1.0,),
    "min_p": (0.0,),
    "typical_p": (1.0,),
    "repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "min_new_tokens": (0,),
    "bad_words_ids": (),
    "suppress_tokens": (),
    "begin_suppress_tokens": (),
    "sequence_bias": (),
}
"""Settings of a generation config that change sampling, and the values beside None that do not."""

SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
"""Of a model, by transformers' common names."""


def load_tokenizer(
    path: str, gguf_file: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    """Raises ValueError where there is no tokenizer at `path`."""
    _need_gguf(gguf_file)
    try:
        return AutoTokenizer.from_pretrained(path, gguf_file=gguf_file, trust_remote_code=trust_remote_code)
    except UNREADABLE as error:
        raise ValueError(not_loaded("tokenizer", path, error)) from error


def load_model(
    path: str,
    gguf_file: str | None = None,
    dtype: torch.dtype = torch.float32,
    attention: str | None = None,
    trust_remote_code: bool = False,
    four_bit: bool = False,
) -> Any:
    """A causal language model on the CPU, in eval mode, its weights in `dtype` whatever they were saved in.

    With `four_bit` the matrices of its layers are packed into 4 bits each.

    Raises ValueError where there is none, and where the files lack weights, which transformers would draw at random.
    """
    _refuse_classifier(path, gguf_file, trust_remote_code)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path,
            gguf_file=gguf_file,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            quantization_config=four_bit_settings() if four_bit else None,
            ignore_mismatched_sizes=True,  # which are then refused, by name
            use_safetensors=None if trust_remote_code or gguf_file else True,
        )
    except UNREADABLE as error:
        raise ValueError(not_loaded("causal language model", path, error)) from error
    model, info = loaded
    refuse_incomplete(info, f"model.path {path}", "causal language model")
    _refuse_non_finite(model, f"model.path {path}")
    if four_bit:
        prepare_packed(model)
    return (_as_ordinary_model(model) if gguf_file else model).eval()


def load_backbone(
    path: str,
    dtype: torch.dtype = torch.float32,
    attention: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """A decoder without a head for a critic, from a causal language model or a reward model at `critic.path`.

    Raises ValueError where there is none.
    """
    try:
        backbone, info = AutoModel.from_pretrained(
            path,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            use_safetensors=None if trust_remote_code else True,
        )
    except UNREADABLE as error:
        raise ValueError(not_loaded("decoder", path, error, "critic.path")) from error
    refuse_incomplete(info, f"critic.path {path}", "decoder")
    return backbone.eval()


def _refuse_classifier(path: str, gguf_file: str | None, trust_remote_code: bool) -> None:
    """With tied embeddings a reward model lacks none of a language model's weights, and would speak nonsense."""
    config = read_config(path, gguf_file, trust_remote_code)
    for architecture in config.architectures or ():
        if architecture.endswith("Classification"):
            raise ValueError(
                f"model.path {path} is a {architecture}, not a causal language model: a reward model goes into reward "
                f"as model:{path}, and model.path names what it was trained from"
            )


def refuse_incomplete(info: Any, path: str, what: str) -> None:
    """Raises ValueError where weights are missing or of another shape: transformers would draw them at random."""
    if missing := sorted(info["missing_keys"]):
        raise ValueError(
            f"{path} is no complete {what}: it lacks {len(missing)} of its weights, {missing[0]} among them"
        )
    for name, *shapes in sorted(info["mismatched_keys"]):
        saved, wanted = map(tuple, shapes)
        raise ValueError(
            f"{path}: {name} has the shape {saved} and by config.json {wanted}: one of them is another model's"
        )


def _refuse_non_finite(model: Any, path: str) -> None:
    for name, weights in model.named_parameters():
        if weights.is_floating_point() and weights.numel() and not weights.abs().max().isfinite():
            raise ValueError(f"{path}: {name} holds NaN or infinity: take weights from before that happened")


def max_positions(path: str, gguf_file: str | None = None, trust_remote_code: bool = False) -> int | None:
    """Longest sequence the model at `path` is made for, from its config alone; None where that sets no bound.

    Raises ValueError where there is no config.
    """
    config = read_config(path, gguf_file, trust_remote_code)
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def read_config(
    path: str,
    gguf_file: str | None = None,
    trust_remote_code: bool = False,
    setting: str = "model.path",
) -> Any:
    """The model's config, without its weights. Raises ValueError naming the setting where there is none."""
    _need_gguf(gguf_file)
    try:
        config = AutoConfig.from_pretrained(path, gguf_file=gguf_file, trust_remote_code=trust_remote_code)
    except UNREADABLE as error:
        raise ValueError(not_loaded("model's config", path, error, setting)) from error
    text = config.get_text_config()
    for name in SIZES:
        size = getattr(text, name, 1)
        if isinstance(size, int) and size < 1:
            raise ValueError(f"{setting} {path}: its config says {name} = {size}, and a model has at least 1")
    return config


def check_vocabulary(
    tokenizer: PreTrainedTokenizerBase,
    path: str,
    trust_remote_code: bool = False,
    setting: str = "model.path",
) -> None:
    """Raises ValueError where the tokenizer writes ids that the model has no embeddings for, by its config alone.

    Tokens that were added behind the vocabulary, such as a pad that is never read, may be without.
    """
    size = getattr(
        read_config(path, None, trust_remote_code, setting).get_text_config(),
        "vocab_size",
        tokenizer.vocab_size,
    )
    if tokenizer.vocab_size > size:
        raise ValueError(
            f"the tokenizer at {setting} {path} has {tokenizer.vocab_size} tokens and the model embeddings for {size}: "
            "it is another model's; put the model's own in its place"
        )


def end_of_sequence_ids(model: Any, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a reply: of the generation config, the model's config and the tokenizer."""
    ids: set[Any] = set()
    for holder in (model.generation_config, model.config, tokenizer):
        found = getattr(holder, "eos_token_id", None)
        ids.update(found if isinstance(found, list | tuple) else [found])
    return tuple(sorted(ids - {None}))


def shipped_sampling(model: Any) -> dict[str, Any]:
    """The settings of the model's generation config that would change what its own `generate` samples.

    Our sampler takes none of them: a run samples as its config says.
    """
    found = {name: getattr(model.generation_config, name, None) for name in NEUTRAL}
    return {name: value for name, value in found.items() if value not in (None, *NEUTRAL[name])}


def _need_gguf(gguf_file: str | None) -> None:
    if gguf_file and find_spec("gguf") is None:
        raise ImportError("GGUF files need gguf: pip install 'taut[gguf]'")


def _as_ordinary_model(model: Any) -> Any:
    """The same weights without the mark of their quantised origin, which would forbid saving them."""
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    ordinary = type(model)(config).to(model.dtype)
    ordinary.load_state_dict(model.state_dict())
    ordinary.generation_config = model.generation_config
    return ordinary


def not_loaded(what: str, path: str, error: Exception, setting: str = "model.path") -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, SafetensorError):
        reason = f"its weights are cut or damaged, copy them again ({reason})"
    elif "trust_remote_code" in str(error):
        reason = "it brings code of its own; set model.trust_remote_code to true where you have read it"
    elif not Path(path).exists():
        reason = f"there is no such folder, and as a hub id: {reason}"
    return f"no {what} could be loaded from {setting} {path}: {reason}"
