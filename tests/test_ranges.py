"""The ranges of inputs: their ends, their words in messages, and the documented ones."""

import math

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.ranges import RANGES, Range, check_range


@pytest.mark.parametrize("name", RANGES)
def test_ranges_contain_their_ends_and_nothing_beyond(name):
    """The ends are in (the open one is not); the next float, NaN and infinities are out."""
    allowed = RANGES[name]
    check_range(name, allowed.low)
    assert (allowed.high in allowed) != allowed.open_high
    for bad in (math.nan, math.inf, -math.inf, math.nextafter(allowed.low, -math.inf), allowed.high * 2):
        with pytest.raises(UsageError) as caught:
            check_range(name, bad)
        assert name in caught.value.message
        assert str(allowed) in caught.value.message
    if allowed.integer:
        assert allowed.low + 0.5 not in allowed


def test_ranges_are_spelled_for_people():
    """What a message says of a range."""
    assert str(Range(1e-9, 1.0)) == "a number in [1e-09, 1]"
    assert str(Range(0.0, 1.0, open_high=True)) == "a number in [0, 1)"
    assert str(Range(1, 64, integer=True)) == "an integer in [1, 64]"


def test_the_promised_ranges():
    """The documented domain of every input, number by number."""
    promised = {
        "gamma": (1e-9, 1),
        "norm_ratio": (1, 1e6),
        "rounds": (1, 1e9),
        "epsilon": (1e-6, 1e4),
        "delta": (1e-300, 1),
    }
    for name, ends in promised.items():
        assert (RANGES[name].low, RANGES[name].high) == ends
