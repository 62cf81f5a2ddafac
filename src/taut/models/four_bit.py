"""A base in 4 bits for LoRA to freeze (QLoRA, 2305.14314). The only file that names bitsandbytes."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BitsAndBytesConfig
from transformers.pytorch_utils import Conv1D


def need_bitsandbytes() -> None:
    """Raises ImportError where bitsandbytes is not installed."""
    if find_spec("bitsandbytes") is None:
        raise ImportError("model.dtype = nf4 needs bitsandbytes: pip install 'taut[qlora]'")


def four_bit_settings() -> BitsAndBytesConfig:
    """How `from_pretrained` is to pack the layers' matrices: NF4, its scales quantised too, computed in bfloat16."""
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def prepare_packed(model: nn.Module) -> None:
    """Keeps bitsandbytes from another layout of its own.

    On CPUs that multiply bfloat16 it lays the weights out anew in the first pass without a gradient, for a kernel
    that has no backward pass: gradients after that would be wrong without a word.
    Raises ValueError for GPT-2's transposed matrices, which come back from 4 bits the other way round.
    """
    packed: list[Any] = [module for module in model.modules() if _is_packed(module)]
    for module in packed:
        if getattr(module, "source_cls", None) is Conv1D:
            raise ValueError(
                f"model.dtype = nf4 does not hold the transposed matrices of {type(model).__name__}: "
                "set it to bfloat16-weights"
            )
        module.support_avx512bf16_for_cpu = False


def plain_state_dict(module: nn.Module) -> dict[str, Tensor]:
    """The state dict of a module with every packed matrix as the numbers it stands for, and no scales beside it."""
    weights: dict[str, Tensor] = module.state_dict()
    packed = {f"{name}.weight": part.weight for name, part in module.named_modules() if _is_packed(part)}
    return {
        name: _unpacked(packed[name]) if name in packed else weight
        for name, weight in weights.items()
        if not any(name.startswith(f"{matrix}.") for matrix in packed)
    }


def ordinary_shell(model: Any) -> Any:
    """A model of the same shape that holds no weights, and no mark of having been packed, which forbids saving.

    The model itself where nothing of it is packed.
    """
    if not any(_is_packed(module) for module in model.modules()):
        return model
    config = copy.deepcopy(model.config)
    del config.quantization_config
    with torch.device("meta"):
        shell = type(model)(config).to(model.dtype)
    shell.generation_config = getattr(model, "generation_config", None)
    return shell


def _is_packed(module: Any) -> bool:
    return getattr(getattr(module, "weight", None), "quant_state", None) is not None


def _unpacked(weight: Any) -> Tensor:
    """[out, in]"""
    from bitsandbytes.functional import dequantize_4bit

    return dequantize_4bit(weight.data, weight.quant_state)
