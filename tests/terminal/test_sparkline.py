"""Numbers as bars."""

import math

import pytest

from taut.terminal.sparkline import sparkline

BARS = "12345678"


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ([], 10, ""),
        ([3.0], 10, "1"),
        ([5.0, 5.0, 5.0], 10, "111"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 10, "12345678"),
        ([0, 0, 7, 7], 2, "18"),
        ([0, 2, 4, 6, 8], 2, "18"),
        ([0, math.nan, math.inf, 1], 10, "18"),
        ([1.0, 2.0], 0, ""),
    ],
)
def test_bars(values, width, shown):
    assert sparkline(values, width, BARS) == shown


def test_every_value_is_in_some_bar():
    """A single spike among many steps moves the mean of its bar."""
    for place in range(100):
        values = [0.0] * 100
        values[place] = 1.0
        assert "8" in sparkline(values, 7, BARS)


def test_floor_holds_the_lowest_bar():
    assert sparkline([0.5, 1.0], 10, BARS) == "18"
    assert sparkline([0.5, 1.0], 10, BARS, floor=0.0) == "58"
    assert sparkline([-1.0, 1.0], 10, BARS, floor=0.0) == "18"
