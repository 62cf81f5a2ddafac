"""The sampler of one process: batched decoding with a KV cache, each prompt computed once for its group."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase

from taut.models.checksum import weights_checksum
from taut.models.policy import Policy
from taut.models.sequences import pad_ids
from taut.rollout.noise import uniform_noise
from taut.rollout.sampler import OnDone, Unfinished
from taut.rollout.sampling import Sampling, draw_tokens
from taut.types import Prompt, Rollout


class LocalSampler:
    """Samples from the learner's own policy, whose weights it shares, or from a copy of it."""

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
        """Takes those that are not its own already: a learner's own copy of the policy is shared with it."""
        for name, parameter in self.policy.model.named_parameters():
            if name in weights and weights[name].data_ptr() != parameter.data_ptr():
                parameter.data = weights[name]
        self.version = version

    def weights_checksum(self) -> str:
        return weights_checksum(self.policy.model.state_dict())

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_done: OnDone | None = None
    ) -> list[Rollout]:
        """`replies_per_prompt` replies to each prompt, side by side, `max_sequences` decoded at once."""
        copies = sampling.replies_per_prompt
        at_once = max(1, self.max_sequences // copies)
        rollouts: list[Rollout] = []
        for start in range(0, len(prompts), at_once):
            chosen = prompts[start : start + at_once]
            replies = [
                Unfinished(prompt, sample, (), sampling.max_new_tokens)
                for prompt in chosen
                for sample in range(copies)
            ]
            decoding, hidden = self._prefill([prompt.ids for prompt in chosen], copies)
            rollouts += self._write(replies, decoding, hidden, sampling)
            if on_done is not None:
                for number in range(start, start + len(chosen)):
                    on_done(number, rollouts[number * copies : (number + 1) * copies])
        return rollouts

    @torch.no_grad()
    def resume(self, replies: Sequence[Unfinished], sampling: Sampling) -> list[Rollout]:
        """A further turn of each reply, after its prompt and what there is of it are computed again."""
        rollouts: list[Rollout] = []
        for start in range(0, len(replies), self.max_sequences):
            chosen = replies[start : start + self.max_sequences]
            decoding, hidden = self._prefill([(*reply.prompt.ids, *reply.ids) for reply in chosen], copies=1)
            rollouts += self._write(chosen, decoding, hidden, sampling)
        return rollouts

    def _write(
        self, replies: Sequence[Unfinished], decoding: _Decoding, hidden: Tensor, sampling: Sampling
    ) -> list[Rollout]:
        """Draws token after token, each reply up to its end or limit, from the hidden states [b, H] that start them."""

        def column(numbers: Iterable[int]) -> Tensor:
            return torch.tensor(list(numbers), device=self.device)

        prompts, samples = column(r.prompt.index for r in replies), column(r.sample for r in replies)
        offsets, limits = column(len(r.ids) for r in replies), column(r.max_new_tokens for r in replies)
        shape = len(replies), int(limits.max())
        ids = torch.zeros(shape, dtype=torch.long, device=self.device)
        logprobs = torch.zeros(shape, device=self.device)
        lengths, ended = limits.clone(), torch.zeros_like(limits, dtype=torch.bool)
        for place in range(shape[1]):
            rows = decoding.rows
            noise = uniform_noise(
                sampling.seed, sampling.step, prompts[rows], samples[rows], offsets[rows] + place
            )
            logits = self.policy.next_token_logits(hidden)
            ids[rows, place], logprobs[rows, place] = draw_tokens(logits, noise, sampling)
            ends = torch.isin(ids[rows, place], self.end_ids)
            lengths[rows[ends]] = place + 1
            ended[rows[ends]] = True
            done = ends | (limits[rows] == place + 1)
            if done.all():
                break
            if done.any():
                decoding.keep(~done)
            hidden = self._decode(decoding, ids[decoding.rows, place])
        return self._to_rollouts(replies, ids, logprobs, lengths.tolist(), ended.tolist())

    def _prefill(self, prefixes: Sequence[tuple[int, ...]], copies: int) -> tuple[_Decoding, Tensor]:
        """Computes each prefix once; returns the state of all its replies and the hidden states that start them."""
        ids, attention_mask = self._left_padded(prefixes)
        decoding = _Decoding(
            cache=DynamicCache(config=self.policy.model.config),
            attention_mask=attention_mask,
            rows=torch.arange(len(prefixes) * copies, device=self.device),
        )
        hidden = self._last_hidden(decoding, ids)
        decoding.cache.batch_repeat_interleave(copies)
        decoding.attention_mask = attention_mask.repeat_interleave(copies, 0)
        return decoding, hidden.repeat_interleave(copies, 0)

    def _left_padded(self, prefixes: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Ids and attention mask, both [b, P].

        The learner pads on the right, but here a reply follows, and pads between the two would count in
        the distances by which a sliding window forgets.
        """
        flipped = pad_ids([ids[::-1] for ids in prefixes], self.device)
        lengths = torch.tensor([len(ids) for ids in prefixes], device=self.device)
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
        replies: Sequence[Unfinished],
        ids: Tensor,
        logprobs: Tensor,
        lengths: list[int],
        ended: list[bool],
    ) -> list[Rollout]:
        all_ids, all_logprobs = ids.tolist(), logprobs.cpu().numpy()
        written = [tuple(row[:length]) for row, length in zip(all_ids, lengths, strict=True)]
        texts = self.tokenizer.batch_decode([list(own) for own in written], skip_special_tokens=True)
        return [
            Rollout(
                prompt=reply.prompt,
                sample=reply.sample,
                ids=written[row],
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
    attention_mask: Tensor  # [b, tokens so far], 0 at the pads before prompts
    rows: Tensor  # [b], which replies of the batch

    def keep(self, alive: Tensor) -> None:
        """Drops the replies that ended."""
        self.cache.batch_select_indices(alive.nonzero()[:, 0])
        self.attention_mask, self.rows = self.attention_mask[alive], self.rows[alive]
