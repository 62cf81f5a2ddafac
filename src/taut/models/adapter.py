"""LoRA (2106.09685): adapters on one frozen base, for policy, critic and reference. The only file that names peft."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from taut.config import LoraConfig, ModelConfig
from taut.models.four_bit import need_bitsandbytes, plain_state_dict


@dataclass
class Base:
    """A frozen model, the LoRA layers within it, and the one adapter that its passes run through now."""

    peft_model: Any
    layers: list[Any]
    active: str | None = "policy"


@dataclass(frozen=True)
class Adapter:
    """One of a base's adapters, or with `name` None the base itself, every adapter off."""

    base: Base
    name: str | None

    def activate(self) -> None:
        """Makes this the one that passes run through, and the only one whose weights require a gradient."""
        if self.base.active == self.name:
            return
        for layer in self.base.layers:
            if self.name is not None:
                layer.set_adapter(self.name)
            layer.enable_adapters(self.name is not None)
        self.base.active = self.name

    def another(self, name: str) -> Adapter:
        """A new adapter of the same shape on the same base; it starts as no change."""
        peft_model = self.base.peft_model
        peft_model.add_adapter(name, peft_model.peft_config[self.name])
        return Adapter(self.base, name)

    def off(self) -> Adapter:
        """The base alone."""
        return Adapter(self.base, None)

    def parameters(self) -> list[nn.Parameter]:
        """This adapter's weights, float32; none of the base."""
        return [
            weight
            for layer in self.base.layers
            for name, weight in layer.named_parameters()
            if name.startswith((f"lora_A.{self.name}.", f"lora_B.{self.name}."))
        ]

    def save(self, folder: Path) -> None:
        """Writes `folder/<name>`, which `peft.PeftModel.from_pretrained` loads onto the same base."""
        config = self.base.peft_model.peft_config[self.name]
        if isinstance(
            config.target_modules, set
        ):  # the file would list them in another order in each process
            config.target_modules = sorted(config.target_modules)
        # The embeddings are frozen; left to itself, peft looks for the base on the hub to see whether they changed.
        self.base.peft_model.save_pretrained(
            str(folder), selected_adapters=[self.name], save_embedding_layers=False
        )

    @torch.no_grad()
    def merged_weights(self, module: nn.Module) -> dict[str, Tensor]:
        """The weights of `module`, the base or a part of it, by the names and in the shapes they had before LoRA.

        An adapted weight is W + (alpha / rank) · B A, in new memory, and so is one that was in 4 bits; the others are
        the module's own.
        """
        layers, weights = dict(module.named_modules()), {}
        for name, weight in plain_state_dict(module).items():
            owner, is_base, rest = name.partition(".base_layer.")
            if is_base and rest == "weight":
                weight = weight + layers[owner].get_delta_weight(self.name).to(weight)
            if ".lora_" not in name:
                weights[f"{owner}.{rest}" if is_base else name] = weight
        return weights


def check_adapter(model: ModelConfig, lora: LoraConfig) -> None:
    """Asked before any weights load.

    Raises ImportError where adapters or a base in 4 bits are asked for and what they need is not installed, and
    ValueError where weights in 4 bits would have to be trained.
    """
    if lora.rank and find_spec("peft") is None:
        raise ImportError("lora.rank needs peft: pip install 'taut[lora]'")
    if model.dtype != "nf4":
        return
    need_bitsandbytes()
    if not lora.rank:
        raise ValueError(
            "model.dtype = nf4 holds weights in 4 bits, which cannot be trained: set lora.rank, to 16 for example, so "
            "that an adapter is trained instead, or model.dtype to bfloat16"
        )
    if model.gguf_file:
        raise ValueError(
            "model.dtype = nf4 packs ordinary weights, and model.gguf_file names packed ones: unset one of them"
        )


def add_adapter(model: Any, config: LoraConfig) -> Adapter:
    """Freezes a causal language model or a backbone and puts an adapter, `policy`, on it, in place.

    It starts as no change. Raises ValueError where `lora.target_modules` names nothing in the model, or its embeddings
    or LM head: the head's weight is read as it stands, and may be tied to the embeddings.
    """
    import peft
    from peft.tuners.lora import LoraLayer

    settings = peft.LoraConfig(
        task_type="CAUSAL_LM" if model.get_output_embeddings() is not None else None,
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=config.target_modules,
        lora_dropout=0.0,  # it would make the ratio of unchanged weights differ from 1
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),  # GPT-2's matrices
    )
    try:
        with warnings.catch_warnings():
            # peft asks transformers something by a name that will be gone in its next major version.
            warnings.simplefilter("ignore", FutureWarning)
            peft_model = peft.get_peft_model(model, settings, adapter_name="policy")
    except ValueError as error:
        raise ValueError(f"lora.target_modules = {config.target_modules}: {error}") from error
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    if {model.get_input_embeddings(), model.get_output_embeddings()} & set(layers):
        raise ValueError(
            f"lora.target_modules = {config.target_modules} names the embeddings or the LM head, which stay frozen "
            "here: name matrices of the layers, or all-linear"
        )
    return Adapter(Base(peft_model, layers), "policy")
