"""Causal language models and tokenizers from a folder, a hub id or a GGUF file."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from taut.models.four_bit import four_bit_settings, prepare_packed

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


def load_tokenizer(
    path: str, gguf_file: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    """Raises ValueError where there is no tokenizer at `path`."""
    _need_gguf(gguf_file)
    try:
        return AutoTokenizer.from_pretrained(path, gguf_file=gguf_file, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ValueError(_not_loaded("tokenizer", path, error)) from error


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
        )
    except (OSError, ValueError, ImportError) as error:  # ImportError: an attention that is not installed
        raise ValueError(_not_loaded("causal language model", path, error)) from error
    model, info = loaded
    _refuse_missing(info, f"model.path {path}", "causal language model")
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
        )
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(_not_loaded("decoder", path, error, "critic.path")) from error
    _refuse_missing(info, f"critic.path {path}", "decoder")
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


def _refuse_missing(info: Any, path: str, what: str) -> None:
    """transformers would fill the gaps with random numbers and go on."""
    if missing := sorted(info["missing_keys"]):
        raise ValueError(
            f"{path} is no complete {what}: it lacks {len(missing)} of its weights, {missing[0]} among them"
        )


def check_is_model(path: str, gguf_file: str | None, setting: str = "model.path") -> None:
    """Raises ValueError before anything is loaded where `path` is neither a model's folder nor what a hub id may be.

    `setting` is where the path was given.
    """
    if not Path(path).is_dir():
        try:
            validate_repo_id(path)
        except HFValidationError:
            raise ValueError(
                f"{setting} {path}: there is no such folder, and a hub id is owner/name"
            ) from None
    elif not gguf_file and not (Path(path) / "config.json").is_file():
        if gguf := sorted(Path(path).glob("*.gguf")):
            raise ValueError(
                f"{setting} {path} holds GGUF weights and no config.json: set model.gguf_file, to {gguf[0].name}"
            )
        raise ValueError(f"{setting} {path} is not a model folder: it holds no config.json")


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
        return AutoConfig.from_pretrained(path, gguf_file=gguf_file, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ValueError(_not_loaded("model's config", path, error, setting)) from error


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


def _not_loaded(what: str, path: str, error: Exception, setting: str = "model.path") -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"no {what} could be loaded from {setting} {path}: {reason}"
