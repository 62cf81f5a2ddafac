from __future__ import annotations

import json

import numpy as np
import pytest

from taut.rollout.source import PromptSource
from taut.types import Prompt


def source(count: int, seed: int = 0) -> PromptSource:
    return PromptSource([Prompt(index=10 * i, text=str(i), ids=(i,)) for i in range(count)], seed)


def take(prompts: PromptSource, count: int, without=()) -> list[int]:
    return [prompt.index for prompt in prompts.take(count, without)]


def test_goes_through_all_before_repeating_and_reshuffles():
    prompts = source(6)
    passes = [take(prompts, 3) + take(prompts, 3) for _ in range(4)]
    assert all(sorted(one) == [0, 10, 20, 30, 40, 50] for one in passes)
    assert len({tuple(one) for one in passes}) == 4


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_across_two_passes_holds_no_prompt_twice_and_loses_none(seed):
    prompts = source(5, seed)
    taken = [take(prompts, 3) for _ in range(10)]
    assert all(len(set(batch)) == 3 for batch in taken)
    counts = [sum(batch.count(index) for batch in taken) for index in (0, 10, 20, 30, 40)]
    assert counts == [6] * 5


def test_gives_fewer_only_where_fewer_exist():
    prompts = source(3)
    assert sorted(take(prompts, 9)) == [0, 10, 20]
    assert take(prompts, 9, without=(0, 10, 20)) == []
    assert take(prompts, 2, without=(0, 10)) == [20]


def test_what_is_left_out_comes_first_later():
    prompts = source(6)
    order = take(source(6), 6)
    assert take(prompts, 2, without=order[:2]) == order[2:4]
    assert take(prompts, 4) == order[:2] + order[4:]


def test_leaving_out_what_is_not_there_costs_nothing():
    assert len(take(source(3), 3, without=(99,))) == 3


@pytest.mark.parametrize("before", [0, 2, 7])
def test_restores_from_its_state_as_json(before):
    one, other = source(5), source(5)
    for _ in range(before):
        take(one, 2)
    state = json.loads(json.dumps(one.state()))
    other.restore(state)
    assert [take(other, 2) for _ in range(6)] == [take(one, 2) for _ in range(6)]


def test_a_state_is_not_changed_by_going_on():
    prompts = source(5)
    take(prompts, 1)
    state = prompts.state()
    copy = json.loads(json.dumps(state))
    prompts.restore(state)
    take(prompts, 2)
    assert state == copy


def test_the_seed_decides_the_order():
    assert take(source(20, seed=1), 20) == take(source(20, seed=1), 20) != take(source(20, seed=2), 20)


def test_prompts_that_share_an_index_are_refused():
    with pytest.raises(AssertionError, match="share an index"):
        PromptSource([Prompt(index=1, text="", ids=(1,))] * 2, seed=0)


def test_a_pass_takes_each_prompt_as_often_as_its_weight_says():
    weights = [0.25, 1.0, 2.5]
    prompts = PromptSource([Prompt(i, "", (i,), weight=w) for i, w in enumerate(weights)], seed=1)
    drawn = [prompts.take(2) for _ in range(1500)]
    assert all(first.index != second.index for first, second in drawn)
    single = PromptSource([Prompt(i, "", (i,), weight=w) for i, w in enumerate(weights)], seed=1)
    taken = np.bincount([single.take(1)[0].index for _ in range(3750)], minlength=3) / 3750
    assert taken == pytest.approx(np.array(weights) / sum(weights), abs=0.03)


def test_weights_of_one_change_nothing():
    even = PromptSource([Prompt(i, "", (i,)) for i in range(5)], seed=1)
    rng = np.random.default_rng([1, 2, 0])
    assert [p.index for p in even.take(5)] == rng.permutation(5).tolist()
