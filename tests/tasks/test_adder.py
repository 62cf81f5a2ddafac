"""The careless adder's facts, as the documentation states them."""

from __future__ import annotations

import numpy as np
import pytest

from taut.tasks.adder import CHARACTERS, END, adder_world, careless_answer


@pytest.fixture(scope="module")
def world():
    return adder_world(seed=0)


def test_sizes(world):
    assert (len(world.held_out), len(world.demonstrated), len(world.rl_prompts)) == (200, 500, 80)
    assert world.rl_prompts == world.demonstrated[:80]


def test_a_row_is_a_sum_of_two_numbers_from_10_to_49_and_its_answer(world):
    for row in world.held_out + world.demonstrated:
        left, right = row["prompt"].removesuffix("=").split("+")
        assert 10 <= int(left) <= 49
        assert 10 <= int(right) <= 49
        assert row["answer"] == str(int(left) + int(right))
        assert len(row["answer"]) == 2
        assert set(row["prompt"] + row["answer"] + END) <= set(CHARACTERS)


def test_held_out_sums_are_never_demonstrated(world):
    held_out, demonstrated = (
        {row["prompt"] for row in rows} for rows in (world.held_out, world.demonstrated)
    )
    assert (len(held_out), len(demonstrated)) == (200, 500)
    assert not held_out & demonstrated


def test_the_splits_are_drawn_from_all_1600_sums():
    drawn = {row["prompt"] for seed in range(30) for row in adder_world(seed).held_out}
    assert "10+10=" in drawn
    assert 1540 < len(drawn) <= 1600  # each sum is missed with probability (7/8)^30 = 1.8 %


def test_the_seed_decides():
    assert adder_world(3) == adder_world(3) != adder_world(4)


def test_vocabulary():
    assert (CHARACTERS, END) == ("0123456789+=;", ";")


@pytest.fixture(scope="module")
def demonstrations():
    rng = np.random.default_rng(0)
    return [careless_answer("68", rng) for _ in range(20_000)]


def share(those) -> float:
    return sum(those) / 20_000


def test_about_37_percent_of_demonstrations_are_right(demonstrations):
    # Each of two digits is right with 0.7 + 0.3/10, and no digit too many is typed with 0.7.
    assert share(d == "68;" for d in demonstrations) == pytest.approx(0.73 * 0.73 * 0.7, abs=0.01)


def test_slips_are_digits_anywhere_and_one_more_at_the_end(demonstrations):
    assert {len(d) for d in demonstrations} == {3, 4}
    assert all(d.endswith(";") and d[:-1].isdigit() for d in demonstrations)
    assert share(len(d) == 4 for d in demonstrations) == pytest.approx(0.3, abs=0.01)
    assert share(d[0] == "6" for d in demonstrations) == pytest.approx(0.73, abs=0.01)
    assert share(d[1] == "8" for d in demonstrations) == pytest.approx(0.73, abs=0.01)
    assert share(d[1] == "3" for d in demonstrations) == pytest.approx(0.03, abs=0.005)


def test_slips_are_fresh_each_time_and_repeat_with_their_generator():
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    drawn = [careless_answer("42", one) for _ in range(50)]
    assert drawn == [careless_answer("42", other) for _ in range(50)]
    assert len(set(drawn)) > 5
