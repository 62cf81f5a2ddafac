"""The sampler of one process: batched decoding with a KV cache, each prompt computed once for its group.

Replies that end leave at once, and waiting prompts take their places.
"""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from taut.models.checksum import weights_checksum
from taut.models.kv_cache import KVCache
from taut.models.policy import Policy
from taut.models.sequences import pad_ids
from taut.rollout.noise import uniform_noise
from taut.rollout.sampler import OnDone, Unfinished
from taut.rollout.sampling import Sampling, draw_tokens
from taut.types import Prompt, Rollout

LOOK_EVERY = {"cpu": 1}
"""Draws between two looks at which replies have ended. A look lets a GPU run dry, and on a CPU costs nothing."""
LOOK_EVERY_ELSEWHERE = 8


class LocalSampler:
    """Samples from the learner's own policy, whose weights it shares, or from a copy of it."""

    def __init__(
        self, policy: Policy, tokenizer: PreTrainedTokenizerBase, end_ids: Sequence[int], max_sequences: int
    ) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        device = next(policy.parameters()).device
        self.device = str(device)
        self.look_every = LOOK_EVERY.get(device.type, LOOK_EVERY_ELSEWHERE)
        self.end_ids = torch.tensor(list(end_ids), dtype=torch.long, device=device)
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

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_done: OnDone | None = None
    ) -> list[Rollout]:
        """`replies_per_prompt` replies to each prompt, side by side, `max_sequences` decoded at once."""
        replies = [
            Unfinished(prompt, sample, (), sampling.max_new_tokens)
            for prompt in prompts
            for sample in range(sampling.replies_per_prompt)
        ]
        return self._write([prompt.ids for prompt in prompts], replies, sampling, on_done)

    def resume(self, replies: Sequence[Unfinished], sampling: Sampling) -> list[Rollout]:
        """A further turn of each reply, after its prompt and what there is of it are computed again."""
        return self._write([(*reply.prompt.ids, *reply.ids) for reply in replies], replies, sampling)

    @torch.inference_mode()
    def _write(
        self,
        prefixes: Sequence[tuple[int, ...]],
        replies: Sequence[Unfinished],
        sampling: Sampling,
        on_done: OnDone | None = None,
    ) -> list[Rollout]:
        """As many replies behind each prefix as there are more of them than prefixes."""
        if not replies:
            return []
        copies = len(replies) // len(prefixes)
        page = _Page(replies, copies, sampling, self.device)
        slots = min(len(replies), max(self.max_sequences, copies))
        columns = max(map(len, prefixes)) + max(reply.max_new_tokens for reply in replies)
        writing = _Writing(KVCache(self.policy.model.config, slots, columns), self.device)
        waiting = deque(range(len(prefixes)))
        hidden = torch.empty(0, device=self.device)
        done: dict[int, list[Rollout]] = {}
        with self.policy.inference():
            while len(done) < len(prefixes):
                if coming := _admitted(len(waiting), copies, slots, writing.count):
                    groups = [waiting.popleft() for _ in range(coming)]
                    begun = self._read(writing, [prefixes[group] for group in groups], copies)
                    hidden = begun if writing.count == 0 else torch.cat([hidden, begun])
                    writing.add(groups, copies, [len(prefixes[group]) for group in groups], page)
                self._draw(writing, page, hidden, sampling)
                if writing.unseen == self.look_every or writing.most_left == 0:
                    for group in page.groups_without(writing.drop_ended(page)):
                        done[group] = self._to_rollouts(page, group * copies, (group + 1) * copies)
                        if on_done is not None:
                            on_done(group, done[group])
                if writing.count:
                    hidden = self._feed(writing)
        return [rollout for _, own in sorted(done.items()) for rollout in own]

    def _read(self, writing: _Writing, prefixes: Sequence[tuple[int, ...]], copies: int) -> Tensor:
        """Computes each prefix once, into its replies' cache; returns the hidden states [b, H] that start them."""
        ids = pad_ids(prefixes, self.device)
        writing.cache.adds(copies)
        positions = torch.arange(ids.shape[1], device=self.device)[None]
        states = self._states(writing, input_ids=ids, position_ids=positions)
        writing.cache.added(*ids.shape)
        ends = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=self.device)
        return states[torch.arange(len(prefixes), device=self.device), ends].repeat_interleave(copies, 0)

    def _draw(self, writing: _Writing, page: _Page, hidden: Tensor, sampling: Sampling) -> None:
        """The next token of each reply, from the hidden states [b, H] before it."""
        logits = self.policy.next_token_logits(hidden)
        where = writing.number, writing.place
        tokens, page.logprobs[where] = draw_tokens(logits, page.noise[where], sampling)
        page.ids[where] = writing.tokens = tokens
        writing.place = writing.place + writing.going
        over = writing.place >= writing.limit
        if len(self.end_ids):
            over |= (tokens[:, None] == self.end_ids).any(1)
        writing.going = writing.going & ~over
        writing.unseen += 1
        writing.most_left -= 1

    def _feed(self, writing: _Writing) -> Tensor:
        """Reads the newest token of each reply; returns the hidden states [b, H] that the next are drawn from."""
        ids, seen = writing.tokens[:, None], writing.cache.grows(writing.column)
        writing.column = writing.column + writing.going
        return self._states(writing, input_ids=ids, **seen)[:, 0]

    def _states(self, writing: _Writing, **inputs: Tensor) -> Tensor:
        cache = {self._cache_argument: writing.cache.cache}
        states: Tensor = self.policy.backbone(**inputs, **cache, use_cache=True).last_hidden_state
        return states

    def _to_rollouts(self, page: _Page, start: int, stop: int) -> list[Rollout]:
        lengths, logprobs = page.lengths[start:stop].tolist(), page.logprobs[start:stop].cpu().numpy()
        ids = page.ids[start:stop].tolist()
        written = [tuple(row[:length]) for row, length in zip(ids, lengths, strict=True)]
        texts = self.tokenizer.batch_decode([list(own) for own in written], skip_special_tokens=True)
        ends = set(self.end_ids.tolist())
        return [
            Rollout(
                prompt=reply.prompt,
                sample=reply.sample,
                ids=own,
                text=text,
                behavior_logprobs=own_logprobs[: len(own)].copy(),
                finish_reason="stop" if own[-1] in ends else "length",
                version=self.version,
            )
            for reply, own, text, own_logprobs in zip(
                page.replies[start:stop], written, texts, logprobs, strict=True
            )
        ]


def _admitted(waiting: int, copies: int, slots: int, taken: int) -> int:
    """How many of the waiting prompts begin now: none until a quarter of the slots is free, as small passes cost."""
    room = slots - taken
    return min(waiting, room // copies) if 4 * room >= slots else 0


class _Page:
    """What is written of N replies of at most T tokens. The column behind the last takes what nobody reads."""

    def __init__(self, replies: Sequence[Unfinished], copies: int, sampling: Sampling, device: str) -> None:
        def column(numbers: Iterable[int]) -> Tensor:
            return torch.tensor(list(numbers), device=device)[:, None]

        self.replies = replies
        self._copies = copies
        self._growing = Counter(dict.fromkeys(range(len(replies) // copies), copies))
        self.limits = column(reply.max_new_tokens for reply in replies)[:, 0]
        self.lengths = self.limits.clone()
        shape = len(replies), max(reply.max_new_tokens for reply in replies) + 1
        self.ids = torch.zeros(shape, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        prompts, samples = column(r.prompt.index for r in replies), column(r.sample for r in replies)
        places = column(len(r.ids) for r in replies) + torch.arange(shape[1], device=device)
        self.noise = uniform_noise(sampling.seed, sampling.step, prompts, samples, places)

    def groups_without(self, ended: Iterable[int]) -> list[int]:
        """The groups of which the last reply is among these, that have just ended; in order."""
        touched = Counter(number // self._copies for number in ended)
        self._growing -= touched
        return sorted(group for group in touched if group not in self._growing)


@dataclass
class _Writing:
    """The b replies that are being written, in the order of their slots."""

    cache: KVCache
    device: str

    def __post_init__(self) -> None:
        none = torch.empty(0, dtype=torch.long, device=self.device)
        self.number = none
        """[b], of the N replies."""
        self.place = none
        """[b], where the next token goes."""
        self.column = none
        """[b], where in the cache the newest token goes."""
        self.limit = none
        self.tokens = none
        """[b], the newest ones."""
        self.going = none.bool()
        """[b], false where a reply has ended; its numbers then stand still."""
        self.unseen = 0
        """Draws since somebody looked for ends."""
        self.most_left = 0
        """Draws until all are at their limits."""

    @property
    def count(self) -> int:
        return len(self.number)

    def add(self, groups: Sequence[int], copies: int, lengths: Sequence[int], page: _Page) -> None:
        """Replies begin, `copies` behind each of the prefixes `groups`, which have so many tokens."""
        first = torch.tensor(groups, device=self.device) * copies
        number = (first[:, None] + torch.arange(copies, device=self.device)).flatten()
        column = torch.tensor(lengths, device=self.device).repeat_interleave(copies)
        self.number = torch.cat([self.number, number])
        self.place = torch.cat([self.place, torch.zeros_like(number)])
        self.column = torch.cat([self.column, column])
        self.limit = torch.cat([self.limit, page.limits[number]])
        self.going = torch.cat([self.going, torch.ones_like(number, dtype=torch.bool)])
        self._settle()

    def drop_ended(self, page: _Page) -> list[int]:
        """Returns which of the N replies they were. The last of those that go on move to the slots that come free."""
        self.unseen = 0
        on = self.going.nonzero()[:, 0]
        if len(on) == self.count:
            return []
        page.lengths[self.number] = self.place
        ended: list[int] = self.number[~self.going].tolist()
        free = (~self.going[: len(on)]).nonzero()[:, 0]
        order = torch.arange(len(on), device=self.device)
        order[free] = on[len(on) - len(free) :]
        self.cache.keep(order)
        for name in ("number", "place", "column", "limit", "tokens", "going"):
            setattr(self, name, getattr(self, name)[order])
        self._settle()
        return ended

    def _settle(self) -> None:
        self.cache.settle(self.column)
        self.most_left = int((self.limit - self.place).max()) if self.count else 0
