"""Steered searches on made-up functions: estimates decide how soon they end, never where."""

import math

import pytest

from csgm_cli.core.steered import Search, settled

ROOT, ROOM = 0.7, 1e-11


def excess(x):
    """Falls like log x^-10 through 0 at the root; exactly 0 a little beyond it."""
    return settled(-10.0 * math.log(x / ROOT), ROOM)


def search(again, size=lambda x: 0.0):
    return Search(excess, again, size, 10.0)


GUIDES = {
    "right": lambda x: lambda there: -10.0 * math.log(there / ROOT) + ROOM,
    "about right": lambda x: lambda there: excess(x) - 9.0 * math.log(there / x),
    "none": lambda x: None,
    "wrong way": lambda x: lambda there: excess(x) + 10.0 * math.log(there / x),
    "nonsense": lambda x: lambda there: math.nan,
    "overflow": lambda x: lambda there: math.exp(1e6),
}


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize("start", [1.0, 0.75, 0.6])
def test_the_end_does_not_depend_on_the_guide(name, start):
    """Where the excess is at most 0, and within the width of the root."""
    found = search(GUIDES[name]).root(start, 1.0, 1e-6, 1e-12)
    assert ROOT <= found <= ROOT * (1 + 3e-12)


def test_a_good_guide_is_quick():
    """One look at the start, one at the end."""
    looks = []
    guided = Search(lambda x: looks.append(x) or excess(x), GUIDES["right"], lambda x: 0.0, 10.0)
    guided.root(1.0, 1.0, 1e-6, 1e-12)
    assert len(looks) == 2


def test_what_differs_slowly_is_followed():
    """An estimate that is off by a parabola in x is as good as the function from three looks on."""
    looks = []
    size = lambda x: -10.0 * math.log(x) + 0.3 * x * x
    guided = Search(lambda x: looks.append(x) or excess(x), lambda x: None, size, 10.0)
    assert ROOT <= guided.root(0.8, 1.0, 1e-6, 1e-12) <= ROOT * (1 + 3e-12)
    assert len(looks) <= 4


def test_the_highest_stays_where_nothing_less_will_do():
    """A function that is positive there is not looked for any lower."""
    assert search(GUIDES["right"]).root(0.5, 0.6, 1e-6, 1e-12) == 0.6
