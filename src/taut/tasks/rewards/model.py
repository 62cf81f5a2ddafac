"""A reward model as a scorer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from taut.models.load import load_tokenizer
from taut.models.reward_model import RewardModel, check_is_reward_model
from taut.tasks.data import make_prompt
from taut.types import Prompt, Rollout, Score


class ModelScorer:
    """What a reward model reads at the last token of prompt and reply, right-padded.

    Where its vocabulary holds the policy's it is given the ids as they were sampled; else it is given the text, in its
    own chat template where the prompt is a conversation, with its own end-of-sequence token where the reply ended.
    """

    def __init__(
        self, name: str, path: str, policy_tokenizer: PreTrainedTokenizerBase, device: str, tokens: int
    ) -> None:
        """`tokens` is the most, pads included, in one forward pass.

        Raises ValueError where no reward model is at `path`.
        """
        check_is_reward_model(path)
        self.name = name
        self.path = path
        self.device = device
        self.tokens = tokens
        self._tokenizer = load_tokenizer(path)
        self._same_ids = policy_tokenizer.get_vocab().items() <= self._tokenizer.get_vocab().items()
        self._model: RewardModel | None = None

    def check(self, prompts: Sequence[Prompt]) -> None:
        """It needs no columns."""

    @torch.no_grad()
    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        if self._model is None:  # not before everything cheap was checked
            self._model = RewardModel.load(self.path).to(self.device)
        texts = [self._ids(rollout) for rollout in rollouts]
        rewards = [0.0] * len(texts)
        rest = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        while rest:
            longest = len(texts[rest[-1]])
            part = rest[-max(1, self.tokens // longest) :]
            del rest[-len(part) :]
            for row, reward in zip(part, self._model([texts[row] for row in part]).tolist(), strict=True):
                rewards[row] = reward
        return [self._score(reward) for reward in rewards]

    def _score(self, reward: float) -> Score:
        if math.isfinite(reward):
            return Score(reward)
        return Score(math.nan, failures={self.name: f"gave {reward}"})

    def _ids(self, rollout: Rollout) -> list[int]:
        if self._same_ids:
            return [*rollout.prompt.ids, *rollout.ids]
        prompt, text = rollout.prompt, rollout.text
        value = prompt.text if prompt.messages is None else list(prompt.messages)
        if rollout.episode is not None and rollout.episode.messages is not None:
            value, text = [*value, *rollout.episode.messages], ""  # its own template writes the turns
        ids = make_prompt(self._tokenizer, value, f"prompt {prompt.index} for reward model {self.path}").ids
        end = self._tokenizer.eos_token_id
        ended = [end] if end is not None and not rollout.truncated else []
        return [*ids, *self._tokenizer.encode(text, add_special_tokens=False), *ended]
