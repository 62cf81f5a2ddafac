"""The sampler with its cache, against the plain model without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from taut.models.kv_cache import KVCache
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences
from taut.models.tiny import character_tokenizer
from taut.rollout.local import LocalSampler
from taut.rollout.sampler import Unfinished
from taut.rollout.sampling import Sampling
from taut.types import Prompt

LENGTHS = [3, 9, 1, 6]  # beyond and below the sliding windows of 5
PROMPTS = [
    Prompt(index=7 * row, text="", ids=tuple((5 * place + row) % 12 for place in range(length)))
    for row, length in enumerate(LENGTHS)
]
SAMPLING = Sampling(replies_per_prompt=3, max_new_tokens=8, temperature=0.8, seed=11, step=2)


def make_sampler(policy: Policy, end_ids=(12,), max_sequences=64) -> LocalSampler:
    return LocalSampler(policy, character_tokenizer("0123456789+=;", ";"), end_ids, max_sequences)


@pytest.fixture
def policy(make_model) -> Policy:
    return Policy(make_model("Llama"))


def replies_of(rollouts) -> dict[tuple[int, int], tuple[int, ...]]:
    return {(rollout.prompt.index, rollout.sample): rollout.ids for rollout in rollouts}


def test_greedy_equals_a_plain_loop_without_cache_or_padding(make_model, family):
    model = make_model(family)
    rollouts = make_sampler(Policy(model)).generate(
        PROMPTS, replace(SAMPLING, greedy=True, replies_per_prompt=1)
    )
    for prompt, rollout in zip(PROMPTS, rollouts, strict=True):
        ids = list(prompt.ids)
        while len(ids) < len(prompt.ids) + 8 and (ids == list(prompt.ids) or ids[-1] != 12):
            ids.append(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax().item())
        assert rollout.ids == tuple(ids[len(prompt.ids) :])


def test_behaviour_logprobs_equal_the_policys_own(make_model, family):
    policy = Policy(make_model(family))
    rollouts = make_sampler(policy).generate(PROMPTS, SAMPLING)
    assert len({len(rollout.ids) for rollout in rollouts}) > 1, "some must end early for rows to be dropped"
    sequences = pad_sequences([r.prompt.ids for r in rollouts], [r.ids for r in rollouts], "cpu")
    with torch.no_grad():
        logprobs, _ = policy(sequences, SAMPLING.temperature)
    for row, rollout in enumerate(rollouts):
        assert rollout.behavior_logprobs.dtype == np.float32
        np.testing.assert_allclose(rollout.behavior_logprobs, logprobs[row, : len(rollout.ids)], atol=1e-5)


def test_truncated_sampling_records_the_truncated_distributions_logprobs(policy):
    rollouts = make_sampler(policy).generate(PROMPTS, replace(SAMPLING, top_k=1))
    assert all(not rollout.behavior_logprobs.any() for rollout in rollouts)


@pytest.mark.parametrize("max_sequences", [1, 3, 7, 64])
def test_the_same_replies_in_any_chunks(policy, max_sequences):
    whole = make_sampler(policy).generate(PROMPTS, SAMPLING)
    chunked = make_sampler(policy, max_sequences=max_sequences).generate(PROMPTS, SAMPLING)
    assert [r.ids for r in chunked] == [r.ids for r in whole]


def test_the_same_replies_in_any_order_and_company(policy):
    whole = replies_of(make_sampler(policy).generate(PROMPTS, SAMPLING))
    assert replies_of(make_sampler(policy).generate(PROMPTS[::-1], SAMPLING)) == whole
    alone = replies_of(make_sampler(policy).generate(PROMPTS[1:2], replace(SAMPLING, replies_per_prompt=2)))
    assert alone == {key: whole[key] for key in alone}
    assert len(alone) == 2


def test_seed_step_and_sample_change_the_replies(policy):
    sampler = make_sampler(policy)
    first = sampler.generate(PROMPTS, SAMPLING)
    assert [r.ids for r in sampler.generate(PROMPTS, SAMPLING)] == [r.ids for r in first]
    for other in (replace(SAMPLING, seed=12), replace(SAMPLING, step=3)):
        assert [r.ids for r in sampler.generate(PROMPTS, other)] != [r.ids for r in first]
    assert len({r.ids for r in first[:3]}) > 1


def test_replies_to_a_prompt_lie_side_by_side(policy):
    sampler = make_sampler(policy)
    sampler.load_weights({}, version=5)
    rollouts = sampler.generate(PROMPTS, SAMPLING)
    assert [(r.prompt.index, r.sample) for r in rollouts] == [
        (7 * row, n) for row in range(4) for n in range(3)
    ]
    assert {r.version for r in rollouts} == {5}


def test_any_of_several_ids_ends_a_reply_and_only_the_first_one_does(policy):
    ends = {0, 4, 12}
    rollouts = make_sampler(policy, end_ids=sorted(ends)).generate(PROMPTS, SAMPLING)
    for rollout in rollouts:
        assert not ends & set(rollout.ids[:-1])
        assert (rollout.ids[-1] in ends) == (rollout.finish_reason == "stop") == (not rollout.truncated)
        assert rollout.truncated <= (len(rollout.ids) == 8)
    assert {r.ids[-1] for r in rollouts if not r.truncated} == ends
    assert any(r.truncated for r in rollouts)


def test_an_end_on_the_last_place_is_a_stop(policy):
    rollouts = make_sampler(policy, end_ids=range(13)).generate(PROMPTS, replace(SAMPLING, max_new_tokens=1))
    assert {(r.finish_reason, len(r.ids)) for r in rollouts} == {("stop", 1)}


def test_a_model_without_an_end_is_always_cut(policy):
    rollouts = make_sampler(policy, end_ids=()).generate(PROMPTS, SAMPLING)
    assert {(r.finish_reason, len(r.ids)) for r in rollouts} == {("length", 8)}


def test_text_is_the_reply_without_its_end_mark(policy):
    characters = "0123456789+=;"
    for rollout in make_sampler(policy).generate(PROMPTS, SAMPLING):
        assert rollout.text == "".join(characters[i] for i in rollout.ids).replace(";", "")


def test_each_prompt_is_computed_once_and_finished_replies_not_at_all(policy):
    shapes = []
    policy.backbone.register_forward_pre_hook(
        lambda module, args, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    lengths = [
        len(rollout.ids) for rollout in make_sampler(policy, end_ids=(0, 4, 12)).generate(PROMPTS, SAMPLING)
    ]
    going_on = [sum(length > place for length in lengths) for place in range(1, 8)]
    assert shapes == [(4, 9)] + [(rows, 1) for rows in going_on if rows]
    assert going_on[0] < 12


def test_waiting_prompts_take_the_places_of_replies_that_ended(policy):
    """Every token is fed once, but for the last of a reply; never more than the slots at once, and seldom fewer."""
    shapes = []
    policy.backbone.register_forward_pre_hook(
        lambda module, args, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    prompts = [replace(PROMPTS[n % 2], index=n) for n in range(40)]
    rollouts = make_sampler(policy, end_ids=(0, 4, 12), max_sequences=8).generate(
        prompts, replace(SAMPLING, replies_per_prompt=2)
    )
    lengths = [len(rollout.ids) for rollout in rollouts]
    decoded = [rows for rows, width in shapes if width == 1 and rows > 1]
    assert sum(rows for rows, width in shapes if width > 1) == 40
    assert sum(rows for rows, width in shapes if width == 1) == sum(lengths) - len(lengths)
    assert max(decoded) == 8
    whole_batches = sum(max(lengths[start : start + 8]) - 1 for start in range(0, 80, 8))
    assert len(decoded) < whole_batches


@pytest.mark.parametrize("max_sequences", [6, 64])
def test_looking_less_often_for_ends_changes_no_reply(make_model, family, max_sequences):
    """As on a GPU: a reply that has ended stays a few draws longer, and nothing of them is kept."""
    sampler = make_sampler(Policy(make_model(family)), end_ids=(0, 4, 12), max_sequences=max_sequences)
    at_once = sampler.generate(PROMPTS, SAMPLING)
    sampler.look_every = 3
    later = sampler.generate(PROMPTS, SAMPLING)
    assert [(r.ids, r.finish_reason) for r in later] == [(r.ids, r.finish_reason) for r in at_once]
    for one, other in zip(later, at_once, strict=True):
        np.testing.assert_allclose(one.behavior_logprobs, other.behavior_logprobs, atol=1e-5)


def test_weights_made_bfloat16_once_are_made_so_again_when_they_have_changed(make_model):
    policy = Policy(make_model("Llama"), autocast=True)
    sampler = make_sampler(policy, end_ids=())
    first = sampler.generate(PROMPTS, SAMPLING)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(-1.5)
    second = sampler.generate(PROMPTS, SAMPLING)
    fresh = make_sampler(Policy(policy.model, autocast=True), end_ids=()).generate(PROMPTS, SAMPLING)
    assert replies_of(second) == replies_of(fresh) != replies_of(first)
    sequences = pad_sequences([r.prompt.ids for r in second], [r.ids for r in second], "cpu")
    with torch.no_grad():
        logprobs, _ = policy(sequences, SAMPLING.temperature)
    for row, rollout in enumerate(second):
        np.testing.assert_allclose(rollout.behavior_logprobs, logprobs[row], atol=0.1)


def test_nothing_to_write_is_nothing_written(policy):
    assert make_sampler(policy).resume([], SAMPLING) == []


def test_layers_that_are_neither_full_nor_sliding_attention_are_refused():
    config = transformers.Qwen3NextConfig(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"]
    )
    with pytest.raises(ValueError, match="Qwen3NextConfig has layers that are neither full nor sliding"):
        KVCache(config, slots=1, columns=1)


def test_a_reply_that_goes_on_is_the_reply_in_one_piece(make_model, family):
    """The noise is that of the place in the whole reply, and the prefix is fed as it was sampled."""
    sampler = make_sampler(Policy(make_model(family)), end_ids=())
    whole = sampler.generate(PROMPTS, SAMPLING)
    cut = [place % 7 + 1 for place in range(len(whole))]
    begun = [
        Unfinished(r.prompt, r.sample, r.ids[:length], 8 - length)
        for r, length in zip(whole, cut, strict=True)
    ]
    for rest, reply, length in zip(sampler.resume(begun, SAMPLING), whole, cut, strict=True):
        assert rest.ids == reply.ids[length:]
        np.testing.assert_allclose(rest.behavior_logprobs, reply.behavior_logprobs[length:], atol=1e-5)
        assert (rest.prompt, rest.sample, rest.finish_reason) == (reply.prompt, reply.sample, "length")


def test_replies_that_go_on_end_where_they_end_or_at_limits_of_their_own(policy):
    sampler = make_sampler(policy, max_sequences=2)
    begun = [Unfinished(PROMPTS[0], sample, (1, 2), 1 + sample % 5) for sample in range(40)]
    turns = sampler.resume(begun, SAMPLING)
    assert [turn.sample for turn in turns] == list(range(40))
    for turn, reply in zip(turns, begun, strict=True):
        assert 12 not in turn.ids[:-1]
        ended = turn.ids[-1] == 12
        assert turn.finish_reason == ("stop" if ended else "length")
        assert ended or len(turn.ids) == reply.max_new_tokens
    assert {turn.finish_reason for turn in turns} == {"stop", "length"}
    assert [t.ids for t in make_sampler(policy).resume(begun, SAMPLING)] == [t.ids for t in turns]


def test_frequencies_are_the_models_probabilities(policy):
    """Of the second token, so that the cache of the first takes part."""
    prompt, count, temperature = PROMPTS[0], 4000, 1.5
    with torch.no_grad():
        first = (policy.model(input_ids=torch.tensor([prompt.ids])).logits[0, -1] / temperature).softmax(-1)
        both = torch.tensor([[*prompt.ids, token] for token in range(13)])
        second = first @ (policy.model(input_ids=both).logits[:, -1] / temperature).softmax(-1)
    sampling = Sampling(replies_per_prompt=count, max_new_tokens=2, temperature=temperature)
    rollouts = make_sampler(policy, end_ids=()).generate([prompt], sampling)
    for place, expected in enumerate((first, second)):
        seen = np.bincount([rollout.ids[place] for rollout in rollouts], minlength=13)
        chi_squared = ((seen - count * expected.numpy()) ** 2 / (count * expected.numpy())).sum()
        assert chi_squared < 32.9  # the 0.1 % point at 12 degrees of freedom


def test_each_prompts_replies_are_told_of_once_as_they_are_returned(policy):
    told = {}
    sampler = make_sampler(policy, max_sequences=SAMPLING.replies_per_prompt)
    rollouts = sampler.generate(PROMPTS, SAMPLING, lambda number, own: told.update({number: list(own)}))
    assert sorted(told) == list(range(len(PROMPTS)))
    assert [id(own) for number in sorted(told) for own in told[number]] == [id(own) for own in rollouts]
