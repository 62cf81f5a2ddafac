"""The policy: a causal language model whose forward returns token logprobs and entropy, never logits."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from taut.models.adapter import Adapter
from taut.models.decoder import compute_type, last_hidden_states, ready
from taut.models.layout import decoder_costs
from taut.models.sequences import Sequences
from taut.objective.logprobs import logits_from_hidden, token_logprobs


class Policy(nn.Module):
    """Wraps a transformers causal language model, whose backbone and LM head it calls apart.

    The head is applied only at the positions that sampled a reply token, in tiles, with the family's
    head bias, logit scale (Cohere multiplies, Granite divides) and final softcap (Gemma). With an adapter, its
    passes run through that one, and only that one is trained. With `autocast` they are computed in bfloat16, and
    logprobs are float32 all the same.
    """

    def __init__(self, model: Any, adapter: Adapter | None = None, autocast: bool = False) -> None:
        super().__init__()
        self.adapter, self.autocast = adapter, autocast
        # Dropout would make the ratio of unchanged weights differ from 1.
        self.model = model.eval()
        config = model.config.get_text_config()
        self.softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self.logit_scale: float = getattr(config, "logit_scale", None) or 1.0
        if divisor := getattr(config, "logits_scaling", None):
            self.logit_scale = 1.0 / divisor
        self._head_weight: Tensor | None = None
        """In the type that the sampler multiplies it in, while it does."""
        self._refuse_unknown_head()
        self.costs = decoder_costs(self.model)

    @property
    def backbone(self) -> nn.Module:
        """The decoder without its LM head."""
        return self.model.base_model

    def trained_parameters(self) -> list[nn.Parameter]:
        if self.adapter is not None:
            return self.adapter.parameters()
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def reference(self) -> Policy:
        """A frozen policy as this one was before training: a copy of its weights now, or its adapter's base."""
        if self.adapter is not None:
            return Policy(self.model, self.adapter.off(), self.autocast)
        return copy.deepcopy(self).requires_grad_(False)

    def twin(self) -> Policy:
        """A policy of the same weights now, those that are trained in memory of their own, the others shared."""
        trained = {id(parameter) for parameter in self.trained_parameters()}
        # deepcopy takes from its memo whatever is in there already.
        return copy.deepcopy(self, {id(p): p for p in self.parameters() if id(p) not in trained})

    def copied_weights(self) -> dict[str, Tensor]:
        """Those that are trained, by their names in the model, in memory of their own."""
        trained = {id(parameter) for parameter in self.trained_parameters()}
        named = self.model.named_parameters()
        return {name: own.detach().clone() for name, own in named if id(own) in trained}

    def forward(self, sequences: Sequences, temperature: float) -> tuple[Tensor, Tensor]:
        """Logprobs and entropy, both [b, T] float32, at a temperature; 0 where `reply_mask` is false."""
        inputs = sequences.inputs()
        if sequences.packing is None:
            # The last token of the longest sequence predicts nothing that was sampled.
            inputs["input_ids"] = sequences.input_ids[:, :-1]
        states = self.hidden_states(**inputs, use_cache=False)
        mask = sequences.reply_mask
        head = self.model.get_output_embeddings()
        with compute_type(states.device, self.autocast):
            logprobs, entropy = token_logprobs(
                states[sequences.before()],
                head.weight,
                sequences.reply_ids[mask],
                temperature=temperature,
                bias=head.bias,
                softcap=self.softcap,
                logit_scale=self.logit_scale,
            )
        empty = torch.zeros(mask.shape, dtype=logprobs.dtype, device=mask.device)
        return empty.masked_scatter(mask, logprobs), empty.masked_scatter(mask, entropy)

    def hidden_states(self, **inputs: Any) -> Tensor:
        """[b, L, H], the last hidden states of `input_ids` [b, L], for the LM head."""
        return last_hidden_states(self.backbone, self.adapter, self.autocast, **inputs)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """For passes through `backbone` and the LM head as the sampler takes them."""
        weight: Tensor = self.model.get_output_embeddings().weight
        self._head_weight = weight.bfloat16() if self.autocast else weight
        try:
            with ready(self.backbone, self.adapter, self.autocast, weight.device):
                yield
        finally:
            self._head_weight = None

    @torch.no_grad()
    def _refuse_unknown_head(self) -> None:
        """Raises ValueError where the family makes its logits in a way that is not known here."""
        token = torch.zeros(1, 1, dtype=torch.long, device=next(self.model.parameters()).device)
        theirs = self.model(input_ids=token, use_cache=False).logits[:, 0].float()
        ours = self.next_token_logits(self.backbone(input_ids=token, use_cache=False).last_hidden_state[:, 0])
        if (ours - theirs).abs().max() > 0.01 * theirs.abs().max():
            raise ValueError(
                f"{type(self.model).__name__} makes its logits from its last hidden states by more than an LM head, "
                "a bias, a scale and a softcap: its logprobs would be wrong here, so choose another model family"
            )

    def next_token_logits(self, hidden: Tensor) -> Tensor:
        """[b, V] float32 logits from the last hidden states [b, H], for the sampler."""
        head = self.model.get_output_embeddings()
        with compute_type(hidden.device, self.autocast):
            weight = head.weight if self._head_weight is None else self._head_weight
            return logits_from_hidden(hidden, weight, head.bias, self.softcap, self.logit_scale).float()
