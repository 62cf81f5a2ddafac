"""The sampler of one process: batched decoding with a KV cache, each prompt computed once for its group."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase

from taut.models.checksum import weights_checksum
from taut.models.policy import Policy
from taut.models.sequences import pad_ids
from taut.rollout.noise import uniform_noise
from taut.rollout.sampling import Sampling, draw_tokens
from taut.types import Prompt, Rollout


class LocalSampler:
    """Samples from the learner's own policy: its weights are shared, so there is nothing to load."""

    def __init__(
        self, policy: Policy, tokenizer: PreTrainedTokenizerBase, end_ids: Sequence[int], max_sequences: int
    ) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        self.device = str(next(policy.parameters()).device)
        self.end_ids = torch.tensor(list(end_ids), dtype=torch.long, device=self.device)
        self.max_sequences = max_sequences
        self.version = 0
        # transformers 5.24 renamed the argument in every model that it has reworked.
        parameters = inspect.signature(policy.backbone.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Notes the version."""
        self.version = version

    def weights_checksum(self) -> str:
        return weights_checksum(self.policy.model.state_dict())

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Rollout]:
        """`replies_per_prompt` replies to each prompt, side by side, `max_sequences` decoded at once."""
        at_once = max(1, self.max_sequences // sampling.replies_per_prompt)
        rollouts: list[Rollout] = []
        for start in range(0, len(prompts), at_once):
            rollouts += self._generate_together(prompts[start : start + at_once], sampling)
        return rollouts

    def _generate_together(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Rollout]:
        decoding, hidden = self._prefill(prompts, sampling)
        count = len(prompts) * sampling.replies_per_prompt
        ids = torch.zeros(count, sampling.max_new_tokens, dtype=torch.long, device=self.device)
        logprobs = torch.zeros(count, sampling.max_new_tokens, device=self.device)
        lengths = torch.full((count,), sampling.max_new_tokens, device=self.device)
        ended = torch.zeros(count, dtype=torch.bool, device=self.device)
        for position in range(sampling.max_new_tokens):
            rows = decoding.rows
            noise = uniform_noise(sampling.seed, sampling.step, decoding.prompts, decoding.samples, position)
            logits = self.policy.next_token_logits(hidden)
            ids[rows, position], logprobs[rows, position] = draw_tokens(logits, noise, sampling)
            done = torch.isin(ids[rows, position], self.end_ids)
            lengths[rows[done]] = position + 1
            ended[rows[done]] = True
            if done.all() or position + 1 == sampling.max_new_tokens:
                break
            if done.any():
                decoding.keep(~done)
            hidden = self._decode(decoding, ids[decoding.rows, position])
        return self._to_rollouts(prompts, sampling, ids, logprobs, lengths.tolist(), ended.tolist())

    def _prefill(self, prompts: Sequence[Prompt], sampling: Sampling) -> tuple[_Decoding, Tensor]:
        """Computes each prompt once; returns the state of all its replies and the hidden states that start them."""
        replies = sampling.replies_per_prompt
        indices = torch.tensor([prompt.index for prompt in prompts], device=self.device)
        ids, attention_mask = self._left_padded(prompts)
        decoding = _Decoding(
            cache=DynamicCache(config=self.policy.model.config),
            attention_mask=attention_mask,
            rows=torch.arange(len(prompts) * replies, device=self.device),
            prompts=indices.repeat_interleave(replies),
            samples=torch.arange(replies, device=self.device).repeat(len(prompts)),
        )
        hidden = self._last_hidden(decoding, ids)
        decoding.cache.batch_repeat_interleave(replies)
        decoding.attention_mask = attention_mask.repeat_interleave(replies, 0)
        return decoding, hidden.repeat_interleave(replies, 0)

    def _left_padded(self, prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
        """Ids and attention mask, both [b, P].

        The learner pads on the right, but here a reply follows, and pads between prompt and reply would count in
        the distances by which a sliding window forgets.
        """
        flipped = pad_ids([prompt.ids[::-1] for prompt in prompts], self.device)
        lengths = torch.tensor([len(prompt.ids) for prompt in prompts], device=self.device)
        mask = torch.arange(flipped.shape[1], device=self.device) < lengths[:, None]
        return flipped.flip(1), mask.long().flip(1)

    def _decode(self, decoding: _Decoding, tokens: Tensor) -> Tensor:
        """Feeds one token to every reply that goes on; returns the hidden states [b, H] of the next."""
        ones = torch.ones_like(decoding.attention_mask[:, :1])
        decoding.attention_mask = torch.cat([decoding.attention_mask, ones], 1)
        return self._last_hidden(decoding, tokens[:, None])

    def _last_hidden(self, decoding: _Decoding, ids: Tensor) -> Tensor:
        """Appends ids [b, n] to the cache; returns the hidden states [b, H] at the last of them."""
        positions = (decoding.attention_mask.cumsum(1) - 1).clamp(min=0)
        hidden = self.policy.hidden_states(
            input_ids=ids,
            attention_mask=decoding.attention_mask,
            position_ids=positions[:, -ids.shape[1] :],
            use_cache=True,
            **{self._cache_argument: decoding.cache},
        )
        return hidden[:, -1]

    def _to_rollouts(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling,
        ids: Tensor,
        logprobs: Tensor,
        lengths: list[int],
        ended: list[bool],
    ) -> list[Rollout]:
        all_ids, all_logprobs = ids.tolist(), logprobs.cpu().numpy()
        replies = [tuple(row[:length]) for row, length in zip(all_ids, lengths, strict=True)]
        texts = self.tokenizer.batch_decode([list(reply) for reply in replies], skip_special_tokens=True)
        return [
            Rollout(
                prompt=prompts[row // sampling.replies_per_prompt],
                sample=row % sampling.replies_per_prompt,
                ids=reply,
                text=texts[row],
                behavior_logprobs=all_logprobs[row, : lengths[row]].copy(),
                finish_reason="stop" if ended[row] else "length",
                version=self.version,
            )
            for row, reply in enumerate(replies)
        ]


@dataclass
class _Decoding:
    """The b replies that are still being written."""

    cache: Any
    attention_mask: Tensor  # [b, tokens so far], 0 at the pads of prompts
    rows: Tensor  # [b], which replies of the batch
    prompts: Tensor  # [b], their prompts' indices
    samples: Tensor  # [b], their numbers among the prompt's replies

    def keep(self, alive: Tensor) -> None:
        """Drops the replies that ended."""
        self.cache.batch_select_indices(alive.nonzero()[:, 0])
        self.attention_mask, self.rows = self.attention_mask[alive], self.rows[alive]
        self.prompts, self.samples = self.prompts[alive], self.samples[alive]
