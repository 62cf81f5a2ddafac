"""Replies of several turns: a sampler and an environment take turns, and the loop sees a sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from taut.models.tokens import as_messages, observation_ids
from taut.rollout.sampler import OnDone, ResumableSampler, Unfinished
from taut.rollout.sampling import Sampling
from taut.tasks.data import template_arguments
from taut.tasks.environments.host import EnvironmentHost, Failure, Turn
from taut.tasks.environments.protocol import Messages
from taut.types import Episode, Message, Prompt, Rollout


@dataclass(frozen=True)
class Limits:
    """Where an episode is cut. Its last turn is then the last thing in the reply."""

    turns: int
    positions: int | None = None
    """That the model has, for prompt and reply; None: no limit."""

    def tokens(self, prompt: Prompt) -> float:
        """Of a reply to this prompt."""
        return math.inf if self.positions is None else self.positions - len(prompt.ids)


class EpisodeSampler:
    """Samples turns, tells the environment, appends what it answers as ids that do not train, and goes on.

    All episodes take their turns together. One ends when the environment says so, when it fails, or as `length` when
    a turn, the number of turns or the tokens reach their limit: a turn that was cut is not shown to the environment.
    """

    def __init__(
        self,
        sampler: ResumableSampler,
        host: EnvironmentHost,
        tokenizer: PreTrainedTokenizerBase,
        end_ids: Sequence[int],
        limits: Limits,
    ) -> None:
        self.sampler, self.host, self.limits = sampler, host, limits
        self.tokenizer, self.end_ids = tokenizer, end_ids

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.sampler.load_weights(weights, version)

    def weights_checksum(self) -> str:
        return self.sampler.weights_checksum()

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_done: OnDone | None = None
    ) -> list[Rollout]:
        replies = [_Reply(first) for first in self.sampler.generate(prompts, sampling)]
        groups = _Groups(replies, sampling.replies_per_prompt, self.tokenizer, on_done)
        going_on = self._open(replies)
        groups.tell_of_done(going_on)
        while going_on:
            asked = [reply for reply in going_on if reply.finish_reason == "stop"]
            answers = self.host.step({reply.number: reply.turn for reply in asked})
            for reply, answer in zip(asked, answers, strict=True):
                self._take(reply, answer)
            over = [reply for reply in going_on if not reply.room]
            self._cut(
                [reply for reply in over if reply.finish_reason == "length" and not reply.failure], asked
            )
            self._close(over)
            going_on = [reply for reply in going_on if reply.room]
            groups.tell_of_done(going_on)
            turns = [reply.unfinished(sampling.max_new_tokens) for reply in going_on]
            for reply, turn in zip(going_on, self.sampler.resume(turns, sampling), strict=True):
                reply.add_turn(turn)
        return groups.rollouts()

    def _open(self, replies: Sequence[_Reply]) -> list[_Reply]:
        """Starts an episode for each; returns those that started."""
        rows = [reply.prompt.row for reply in replies]
        assert all(row is not None for row in rows), "an environment makes the prompts"
        numbers, openings = self.host.reset([row for row in rows if row is not None])
        for reply, number, opening in zip(replies, numbers, openings, strict=True):
            reply.number = number
            if isinstance(opening, Failure):
                reply.failure = opening.why
            elif not _is_prompt(opening, reply.prompt):
                reply.failure = "gave a row another opening than the first time"
        self._close([reply for reply in replies if reply.failure])
        return [reply for reply in replies if not reply.failure]

    def _cut(self, replies: Sequence[_Reply], asked: Sequence[_Reply]) -> None:
        whole = {reply.number for reply in asked}
        answers = self.host.cut({r.number: None if r.number in whole else r.turn for r in replies})
        for reply, answer in zip(replies, answers, strict=True):
            self._take(reply, answer)

    def _close(self, replies: Sequence[_Reply]) -> None:
        logged = self.host.end([reply.number for reply in replies])
        for reply, own in zip(replies, logged, strict=True):
            reply.logged = own

    def _take(self, reply: _Reply, answer: Turn | Failure) -> None:
        """Appends what the environment answered, and says how many tokens may follow, if any."""
        if isinstance(answer, Failure):
            reply.failure = answer.why
            return
        reply.reward += answer.reward
        if answer.messages is None:
            return
        reply.finish_reason = "length"  # unless the model gets to answer
        if reply.turns == self.limits.turns:
            return
        prompt = reply.prompt
        try:
            observed = observation_ids(
                self.tokenizer,
                prompt.messages,
                answer.messages,
                self.end_ids,
                f"environment {self.host.name}",
                template_arguments(prompt.columns, self.host.tools),
            )
        except ValueError as error:
            reply.failure = f"gave what the model cannot be told: {error}"
            return
        room = self.limits.tokens(prompt) - len(reply.ids) - len(observed)
        if room >= 1:
            reply.room = room
            reply.observe(observed, answer.messages)


def _is_prompt(opening: Messages, prompt: Prompt) -> bool:
    if isinstance(opening, str):
        return opening == (prompt.text if prompt.messages is None else prompt.messages[-1]["content"])
    return prompt.messages is not None and list(opening) == list(prompt.messages)


class _Groups:
    """The replies to each prompt, made rollouts when the last of them is over."""

    def __init__(
        self, replies: Sequence[_Reply], size: int, tokenizer: PreTrainedTokenizerBase, on_done: OnDone | None
    ) -> None:
        self._growing = {i // size: replies[i : i + size] for i in range(0, len(replies), size)}
        self._done: dict[int, list[Rollout]] = {}
        self._tokenizer, self._on_done = tokenizer, on_done

    def tell_of_done(self, going_on: Sequence[_Reply]) -> None:
        grow = set(going_on)
        for number in [n for n, group in self._growing.items() if grow.isdisjoint(group)]:
            self._done[number] = [reply.rollout(self._tokenizer) for reply in self._growing.pop(number)]
            if self._on_done is not None:
                self._on_done(number, self._done[number])

    def rollouts(self) -> list[Rollout]:
        return [rollout for _, group in sorted(self._done.items()) for rollout in group]


class _Reply:
    """A reply as it grows."""

    def __init__(self, first: Rollout) -> None:
        self.prompt, self.first = first.prompt, first
        self.number = -1
        """Of its episode."""
        self.ids: list[int] = []
        self.sampled: list[bool] = []
        self.logprobs: list[np.ndarray] = []
        self.messages: list[Message] = []
        self.turns, self.reward = 0, 0.0
        self.failure: str | None = None
        self.logged: Mapping[str, float] = {}
        self.room: float = 0
        """Tokens that may follow; 0 where none do."""
        self.add_turn(first)

    def add_turn(self, turn: Rollout) -> None:
        self._add(turn.ids, True, turn.behavior_logprobs)
        self.messages.append({"role": "assistant", "content": turn.text})
        self.turn, self.finish_reason = turn.text, turn.finish_reason
        self.turns, self.room = self.turns + 1, 0

    def observe(self, ids: Sequence[int], messages: Messages) -> None:
        self._add(ids, False, np.full(len(ids), np.nan, dtype=np.float32))
        self.messages += as_messages(messages)

    def _add(self, ids: Sequence[int], sampled: bool, logprobs: np.ndarray) -> None:
        self.ids += ids
        self.sampled += [sampled] * len(ids)
        self.logprobs.append(logprobs)

    def unfinished(self, max_new_tokens: int) -> Unfinished:
        limit = int(min(max_new_tokens, self.room))
        return Unfinished(self.prompt, self.first.sample, tuple(self.ids), limit)

    def rollout(self, tokenizer: PreTrainedTokenizerBase) -> Rollout:
        dialogue = tuple(self.messages)
        messages = None if self.prompt.messages is None else dialogue
        return replace(
            self.first,
            ids=tuple(self.ids),
            text=str(tokenizer.decode(self.ids, skip_special_tokens=True)),
            behavior_logprobs=np.concatenate(self.logprobs),
            finish_reason=self.finish_reason,
            sampled=np.array(self.sampled),
            episode=Episode(self.turns, self.reward, messages, self.failure, self.logged, dialogue),
        )
