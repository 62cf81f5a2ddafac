"""The fewest that do it together."""

import math

import pytest

from taut.checks.bisect import fewest


@pytest.mark.parametrize("guilty", [{0}, {5}, {15}, {0, 15}, {3, 4}, {1, 7, 8}, set(range(16))])
def test_those_that_do_it_together_are_found_and_no_other(guilty):
    found = fewest(range(16), lambda rows: guilty <= set(rows))
    assert sorted(found) == sorted(guilty)


def test_one_among_many_takes_few_tries():
    tries = []

    def do_it(rows):
        tries.append(rows)
        return 700 in rows

    assert fewest(range(1024), do_it) == [700]
    assert len(tries) <= 2 * math.log2(1024)


def test_either_of_two_is_enough():
    assert fewest(range(8), lambda rows: bool({2, 6} & set(rows))) == [2]
