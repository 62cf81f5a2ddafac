"""Several turns as one reply: ids as sampled, observations that do not train, limits, failures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from taut.models.policy import Policy
from taut.models.sequences import pad_sequences
from taut.models.tiny import character_tokenizer
from taut.rollout.episodes import EpisodeSampler, Limits
from taut.rollout.local import LocalSampler
from taut.rollout.sampling import Sampling
from taut.tasks.environments.host import Failure, Turn
from taut.types import Prompt

SAMPLING = Sampling(replies_per_prompt=3, max_new_tokens=6, temperature=1.2, seed=5, step=1)
PLAIN = "0123456789+=;"


class Scripted:
    """An environment's host in this process: answers turn n of every episode with `answers[n]`."""

    name, tools = "scripted", None

    def __init__(self, *answers, openings=None):
        self.answers, self.openings = answers, openings
        self.turns, self.seen, self.ended = {}, {}, []
        self.were_cut, self.for_cut = {}, Turn(None, 0.0)

    def reset(self, rows):
        self.turns |= dict.fromkeys(numbers := range(len(self.turns), len(self.turns) + len(rows)), 0)
        return list(numbers), [
            self.openings.get(n, row["prompt"]) if self.openings else row["prompt"]
            for n, row in zip(numbers, rows, strict=True)
        ]

    def step(self, replies):
        found = []
        for number, reply in replies.items():
            self.seen.setdefault(number, []).append(reply)
            found.append(self.answers[self.turns[number]])
            self.turns[number] += 1
        return found

    def cut(self, replies):
        self.were_cut |= replies
        return [self.for_cut] * len(replies)

    def end(self, numbers):
        self.ended += numbers
        return [{"turns": float(self.turns[number])} for number in numbers]


@pytest.fixture
def policy(make_model):
    return Policy(make_model("Llama"))


@pytest.fixture
def plain_prompts():
    tokenizer = character_tokenizer(PLAIN, ";")
    rows = [{"prompt": text} for text in ("1+2=", "30+41=", "5")]
    return [
        Prompt(3 * n, row["prompt"], tuple(tokenizer.encode(row["prompt"])), row=row)
        for n, row in enumerate(rows)
    ]


def plain(policy, host, limits=None, end_ids=(12,), max_sequences=64):
    tokenizer = character_tokenizer(PLAIN, ";")
    local = LocalSampler(policy, tokenizer, end_ids, max_sequences)
    return EpisodeSampler(local, host, tokenizer, end_ids, limits or Limits(9))


def pieces(rollout):
    """The reply cut where policy and environment take turns: [(who, ids)]."""
    found = []
    for token, own in zip(rollout.ids, rollout.sampled, strict=True):
        if not found or found[-1][0] != own:
            found.append((own, []))
        found[-1][1].append(token)
    return found


def check_logprobs(policy, rollouts):
    """What the sampler recorded is what the learner computes, in one pass over the whole sequence."""
    mask = torch.nn.utils.rnn.pad_sequence([torch.tensor(r.sampled) for r in rollouts], batch_first=True)
    sequences = pad_sequences([r.prompt.ids for r in rollouts], [r.ids for r in rollouts], "cpu", mask)
    with torch.no_grad():
        logprobs, _ = policy(sequences, SAMPLING.temperature)
    for row, rollout in enumerate(rollouts):
        own = rollout.sampled
        assert rollout.behavior_logprobs.dtype == np.float32
        np.testing.assert_array_equal(np.isnan(rollout.behavior_logprobs), ~own)
        np.testing.assert_allclose(
            rollout.behavior_logprobs[own], logprobs[row, : len(own)][torch.tensor(own)], atol=1e-4
        )
        assert not logprobs[row, : len(own)][~torch.tensor(own)].any()


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Gemma2"])
def test_logprobs_of_several_turns_equal_the_learners_own(make_model, plain_prompts, family):
    policy = Policy(make_model(family))
    answers = Turn("1+1", 0.25), Turn("=", 0.5), Turn(None, 1.0)
    rollouts = plain(policy, Scripted(*answers)).generate(plain_prompts, SAMPLING)
    assert {r.episode.turns for r in rollouts} >= {1, 3}, "some must be cut early for rows to be dropped"
    check_logprobs(policy, rollouts)


@pytest.mark.parametrize("family", ["GPT2", "Qwen2"])
def test_a_conversation_of_several_turns_is_its_template_around_sampled_ids(
    make_model, chat_tokenizer, family
):
    tokenizer, end = chat_tokenizer, chat_tokenizer.eos_token_id
    policy = Policy(
        make_model(
            family,
            vocab_size=len(tokenizer),
            **{"n_positions": 256} if family == "GPT2" else {"max_position_embeddings": 256},
        )
    )
    opening = [{"role": "user", "content": "1+1"}]
    text = tokenizer.apply_chat_template(opening, tokenize=False, add_generation_prompt=True)
    prompt = Prompt(0, text, tuple(tokenizer.encode(text)), messages=tuple(opening), row={"prompt": opening})
    told = [{"role": "tool", "content": "no"}]
    # Any odd id ends a turn too, so that turns end.
    ends = [end, *range(1, 40, 2)]
    local = LocalSampler(policy, tokenizer, ends, 64)
    host = Scripted(Turn(told, 0.0), Turn("why", 0.0), Turn(None, 1.0))
    rollouts = EpisodeSampler(local, host, tokenizer, ends, Limits(9)).generate(
        [prompt], replace(SAMPLING, replies_per_prompt=8)
    )
    between = [
        tokenizer.encode(f"\n<|im_start|>{role}\n{said}<|im_end|>\n<|im_start|>assistant\n")
        for role, said in (("tool", "no"), ("user", "why"))
    ]
    whole = [r for r in rollouts if r.episode.turns == 3]
    assert whole
    for rollout in whole:
        own = [ids for sampled, ids in pieces(rollout) if sampled]
        assert [ids for sampled, ids in pieces(rollout) if not sampled] == between
        turns = [tokenizer.decode(ids, skip_special_tokens=True) for ids in own]
        assert list(rollout.episode.messages) == [
            {"role": "assistant", "content": turns[0]},
            *told,
            {"role": "assistant", "content": turns[1]},
            {"role": "user", "content": "why"},
            {"role": "assistant", "content": turns[2]},
        ]
    check_logprobs(policy, rollouts)


def test_greedy_turns_equal_a_plain_loop_over_the_model(policy, plain_prompts):
    host = Scripted(Turn("+1", 0.0), Turn("+2", 0.0), Turn(None, 1.0))
    ends = (12, 0, 3, 5, 7)
    rollouts = plain(policy, host, end_ids=ends).generate(
        plain_prompts, replace(SAMPLING, greedy=True, replies_per_prompt=1)
    )
    for prompt, rollout in zip(plain_prompts, rollouts, strict=True):
        ids, turn, told = list(prompt.ids), 0, {1: (10, 1), 2: (10, 2)}
        while turn < 3:
            for _ in range(6):
                ids.append(policy.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax().item())
                if ids[-1] in ends:
                    break
            turn += 1
            if ids[-1] not in ends:
                break
            ids += told.get(turn, ())
        assert rollout.ids == tuple(ids[len(prompt.ids) :])


def test_an_episode_is_paid_for_all_its_turns_and_closed_once(policy, plain_prompts):
    host = Scripted(Turn("+", 0.25), Turn("", 0.5), Turn(None, 1.0))
    rollouts = plain(policy, host, end_ids=range(13)).generate(plain_prompts, SAMPLING)
    assert [(r.prompt.index, r.sample) for r in rollouts] == [(3 * n, m) for n in range(3) for m in range(3)]
    for number, rollout in enumerate(rollouts):
        assert [len(ids) for _, ids in pieces(rollout)] == [1, 1, 2], "nothing was said after the second turn"
        assert (rollout.episode.turns, rollout.episode.reward) == (3, 1.75)
        assert rollout.episode.logged == {"turns": 3.0}
        assert rollout.finish_reason == "stop"
        assert rollout.episode.failure is None
        assert rollout.episode.messages is None
        assert [turn["role"] for turn in rollout.episode.dialogue] == ["assistant", "user"] * 2 + [
            "assistant"
        ]
        assert rollout.episode.dialogue[1]["content"] == "+"
        assert rollout.text == "".join(PLAIN[i] for i in rollout.ids).replace(";", "")
        assert host.seen[number] == [
            PLAIN[i].replace(";", "") for i in np.array(rollout.ids)[rollout.sampled]
        ]
    assert sorted(host.ended) == list(range(9))


def test_replies_are_the_same_in_any_chunks(policy, plain_prompts):
    def ids(max_sequences):
        host = Scripted(Turn("+1", 0.0), Turn("+2", 0.0), Turn(None, 1.0))
        sampler = plain(policy, host, end_ids=(12, 0, 3), max_sequences=max_sequences)
        return [r.ids for r in sampler.generate(plain_prompts, SAMPLING)]

    assert ids(1) == ids(2) == ids(64)
    first = plain(policy, Scripted(Turn(None, 1.0)), end_ids=(12, 0, 3)).generate(plain_prompts, SAMPLING)
    for whole, turn in zip(ids(64), first, strict=True):
        assert whole[: len(turn.ids)] == turn.ids, "the first turn is that of a run without an environment"


@pytest.mark.parametrize(
    ("limits", "lengths", "turns"),
    [
        (Limits(turns=2), [1, 2, 1], 2),  # the second turn is answered, and nobody hears it
        (Limits(turns=9, positions=4 + 6), [1, 2, 1], 2),  # 4 + 2 would leave no room for a turn
        (Limits(turns=9, positions=4 + 7), [1, 2, 1, 2, 1], 3),
    ],
)
def test_limits_cut_an_episode_behind_a_sampled_token(policy, plain_prompts, limits, lengths, turns):
    host = Scripted(*[Turn("+1", 0.5)] * 9)
    rollouts = plain(policy, host, limits, end_ids=range(13)).generate(plain_prompts[:1], SAMPLING)
    for rollout in rollouts:
        assert [len(ids) for _, ids in pieces(rollout)] == lengths
        assert rollout.sampled[-1]
        assert rollout.truncated
        assert rollout.episode.turns == turns
        assert rollout.episode.reward == 0.5 * turns
        assert rollout.episode.failure is None
    assert len(host.ended) == 3


def test_a_turn_that_is_cut_ends_the_episode_and_the_environment_never_sees_it(policy, plain_prompts):
    host = Scripted(Turn("+1", 1.0))
    rollouts = plain(policy, host, end_ids=()).generate(plain_prompts, SAMPLING)
    assert {(r.finish_reason, len(r.ids), r.episode.reward) for r in rollouts} == {("length", 6, 0.0)}
    assert host.seen == {}
    assert sorted(host.ended) == list(range(9))
    # The second turn may be cut, too: at what is left of the whole reply.
    host = Scripted(*[Turn("+1", 1.0)] * 9)
    sampler = plain(policy, host, Limits(9, positions=4 + 8), end_ids=(12, 0, 3, 5, 7))
    many = replace(SAMPLING, replies_per_prompt=40)
    rollouts = [r for r in sampler.generate(plain_prompts[:1], many) if r.episode.turns == 2]
    assert any(r.truncated and len(r.ids) == 8 for r in rollouts)


def test_an_episode_that_a_limit_ends_is_asked_once_for_what_that_pays(policy, plain_prompts):
    host = Scripted(*[Turn("+1", 0.5)] * 9)
    host.for_cut = Turn(None, 3.0)
    rollouts = plain(policy, host, Limits(2), end_ids=range(13)).generate(plain_prompts[:1], SAMPLING)
    assert host.were_cut == {0: None, 1: None, 2: None}  # their last turns were whole
    assert [rollout.episode.reward for rollout in rollouts] == [2 * 0.5 + 3.0] * 3

    host = Scripted()
    host.for_cut = Failure("raised IndexError: none")
    rollouts = plain(policy, host, end_ids=()).generate(plain_prompts[:1], SAMPLING)
    assert host.were_cut == {number: rollout.text for number, rollout in enumerate(rollouts)}
    assert {rollout.episode.failure for rollout in rollouts} == {"raised IndexError: none"}

    host = Scripted(Turn(None, 1.0))
    plain(policy, host, end_ids=range(13)).generate(plain_prompts[:1], SAMPLING)
    assert host.were_cut == {}


def test_failures_keep_the_reply_and_say_why(policy, plain_prompts):
    host = Scripted(Turn("+1", 1.0), Failure("raised ValueError: no"))
    (rollout, *_) = plain(policy, host, end_ids=range(13)).generate(plain_prompts, SAMPLING)
    assert rollout.episode.failure == "raised ValueError: no"
    assert (len(rollout.ids), rollout.sampled[-1]) == (4, True)

    openings = {0: Failure("raised KeyError: 'gold'"), 1: "another"}
    host = Scripted(Turn(None, 1.0), openings=openings)
    failed, changed, fine, *_ = plain(policy, host, end_ids=range(13)).generate(plain_prompts, SAMPLING)
    assert failed.episode.failure == "raised KeyError: 'gold'"
    assert changed.episode.failure == "gave a row another opening than the first time"
    assert (fine.episode.failure, fine.episode.reward) == (None, 1.0)

    host = Scripted(Turn("what?", 1.0))
    (rollout, *_) = plain(policy, host, end_ids=range(13)).generate(plain_prompts, SAMPLING)
    assert "cannot encode 'what?'" in rollout.episode.failure
    assert sorted(host.ended) == list(range(9))


def test_each_prompts_replies_are_told_of_when_the_last_of_them_is_over(policy, plain_prompts):
    told = []
    host = Scripted(
        Turn("+1", 1.0), Turn(None, 1.0), openings={0: Failure("raised"), 1: "another", 2: "a third"}
    )
    sampler = plain(policy, host, end_ids=range(13))

    def on_done(number, replies):
        told.append((number, list(replies), len(host.ended)))

    rollouts = sampler.generate(plain_prompts, SAMPLING, on_done)
    # The three to the first prompt never began; the other six took two turns each.
    assert [(number, ended) for number, _, ended in told] == [(0, 3), (1, 9), (2, 9)]
    assert [id(own) for _, replies, _ in told for own in replies] == [id(own) for own in rollouts]
