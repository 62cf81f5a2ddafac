"""A reward model: a transformers sequence classifier with one label, read at the last token."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase

from taut.config import LoraConfig
from taut.models.adapter import Adapter, add_adapter
from taut.models.decoder import last_hidden_states
from taut.models.load import UNREADABLE, not_loaded, read_config, refuse_incomplete
from taut.models.locate import check_is_model
from taut.models.sequences import pad_ids

PAD = "<|pad|>"


class RewardModel(nn.Module):
    """Wraps an `AutoModelForSequenceClassification`, whose backbone and head it calls apart.

    The reward of a text stands at its last token, found by its length. transformers finds it as the rightmost token
    that is not the pad: hence a pad of its own, where the tokenizer has none or pads with the end-of-sequence token.
    """

    def __init__(self, model: Any, autocast: bool = False) -> None:
        super().__init__()
        self.adapter: Adapter | None = None
        self.autocast = autocast
        self.model = model.eval()  # without dropout, so that a reward is a function of its text

    @classmethod
    def from_causal(
        cls, causal: Any, tokenizer: PreTrainedTokenizerBase, autocast: bool = False
    ) -> RewardModel:
        """The backbone of a causal language model under a new head; the tokenizer may gain a pad token.

        The head's weights are N(0, 1/(d + 1)), d the hidden size (2403.17031, detail 11). Raises ValueError where
        transformers has no sequence classifier with a linear head for the family.
        """
        config = copy.deepcopy(causal.config)
        config.num_labels = 1
        try:
            model: Any = AutoModelForSequenceClassification.from_config(config)
        except ValueError as error:
            raise ValueError(_no_classifier(causal)) from error
        head = getattr(model, "score", None)
        if not isinstance(head, nn.Linear):
            raise ValueError(_no_classifier(causal))
        model.base_model.load_state_dict(causal.base_model.state_dict())
        nn.init.normal_(head.weight, std=(head.in_features + 1) ** -0.5)
        _give_pad(model, tokenizer)
        return cls(model, autocast)

    @classmethod
    def load(cls, path: str) -> RewardModel:
        """From a folder or hub id, in float32, on the CPU.

        Raises ValueError where there is none, where its head is not linear, and where the files lack weights.
        """
        check_is_reward_model(path)
        try:
            model, info = AutoModelForSequenceClassification.from_pretrained(
                path,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                use_safetensors=True,
            )
        except UNREADABLE as error:
            raise ValueError(not_loaded("reward model", path, error, "reward model")) from error
        refuse_incomplete(info, f"reward model {path}", "sequence classifier")
        if not isinstance(getattr(model, "score", None), nn.Linear):
            raise ValueError(
                f"reward model {path} is a {type(model).__name__}, which has no linear head on a decoder"
            )
        return cls(model)

    def adapt(self, config: LoraConfig) -> None:
        """With `lora.rank` above 0 an adapter on the frozen backbone is trained, and the head, not all weights."""
        if config.rank:
            self.adapter = add_adapter(self.model.base_model, config)

    def trained_parameters(self) -> list[nn.Parameter]:
        if self.adapter is not None:
            return [*self.adapter.parameters(), *self.model.score.parameters()]
        return list(self.parameters())

    def forward(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Rewards [b], float32, of b texts as token ids, prompt and reply together."""
        return self.model.score(self.last_hidden(texts).to(self.model.dtype)).squeeze(-1).float()

    def last_hidden(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """[b, H]: the state at each text's last token. Pads stand on the right, where no token sees them."""
        device = next(self.parameters()).device
        inputs = {"input_ids": pad_ids(texts, str(device)), "use_cache": False}
        hidden = last_hidden_states(self.model.base_model, self.adapter, self.autocast, **inputs)
        last = torch.tensor([len(text) - 1 for text in texts], device=device)
        return hidden[torch.arange(len(texts), device=device), last]

    def save(self, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """A transformers folder that `AutoModelForSequenceClassification.from_pretrained` loads, the adapter merged."""
        weights = None if self.adapter is None else self.adapter.merged_weights(self.model)
        self.model.save_pretrained(folder, state_dict=weights)
        tokenizer.save_pretrained(folder)

    @torch.no_grad()
    def center(self, mean_hidden: Tensor) -> None:
        """Moves the head so that texts of mean state m, [H], have mean reward 0 (2403.17031, detail 12).

        These heads have no bias to move, and one of our own would be lost on whoever loads the folder. So the head
        w loses its part along m, w ← w - (w·m / m·m) m: the least change that does it.
        """
        weight, m = self.model.score.weight, mean_hidden.double()
        shifted = weight.double() - (weight.double() @ m / (m @ m))[:, None] * m
        weight.copy_(shifted)


def check_is_reward_model(path: str) -> None:
    """Raises ValueError, before any weights load, where there is no model, or one of more labels than one."""
    check_is_model(path, None, "reward model")
    labels = read_config(path, setting="reward model").num_labels
    if labels != 1:
        raise ValueError(
            f"reward model {path} has {labels} labels and must have one: is it a sequence classifier? "
            "`taut reward-model` trains one"
        )


def _give_pad(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        tokenizer.add_special_tokens({"pad_token": PAD})
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.config.pad_token_id = tokenizer.pad_token_id
    tokenizer.padding_side = "right"


def _no_classifier(causal: Any) -> str:
    return (
        f"transformers has no sequence classifier with a linear head for {type(causal).__name__}, so it cannot "
        "become a reward model: choose another family, such as Llama, Qwen2, Mistral or GPT2"
    )
