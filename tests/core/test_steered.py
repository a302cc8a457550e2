"""Steered searches on made-up functions: estimates decide how soon they end, never where."""

import math

import pytest

from csgm_cli.core.steered import Search, settled

ROOT, ROOM = 0.7, 1e-11


def excess(x):
    """Falls like log x^-10 through 0 at the root; exactly 0 a little beyond it."""
    return settled(-10.0 * math.log(x / ROOT), ROOM)


def search(again):
    return Search(excess, again, lambda x: math.cos, 10.0)


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
    guided = Search(lambda x: looks.append(x) or excess(x), GUIDES["right"], lambda x: math.cos, 10.0)
    guided.root(1.0, 1.0, 1e-6, 1e-12)
    assert len(looks) == 2


def test_what_differs_slowly_is_followed():
    """An estimate that is off by a parabola in x is as good as the function from three looks on."""
    looks = []
    size = lambda x: -10.0 * math.log(x) + 0.3 * x * x
    guided = Search(lambda x: looks.append(x) or excess(x), lambda x: None, lambda x: size, 10.0)
    assert ROOT <= guided.root(0.8, 1.0, 1e-6, 1e-12) <= ROOT * (1 + 3e-12)
    assert len(looks) <= 4


def test_the_highest_stays_where_nothing_less_will_do():
    """A function that is positive there is not looked for any lower."""
    assert search(GUIDES["right"]).root(0.5, 0.6, 1e-6, 1e-12) == 0.6


def test_an_estimate_is_that_of_the_last_look():
    """What differs slowly may be another function after each look, and is held against all of them."""
    looks = []
    size = lambda at: lambda x: -10.0 * math.log(x) + 0.3 * at * x
    guided = Search(lambda x: looks.append(x) or excess(x), lambda x: None, size, 10.0)
    assert ROOT <= guided.root(0.8, 1.0, 1e-6, 1e-12) <= ROOT * (1 + 3e-12)
    assert len(looks) <= 4


@pytest.mark.parametrize("seed", range(20))
def test_what_wobbles_is_not_narrowed_further_than_it_can_be_told(seed):
    """Nor does what points next to each other say of the slope lead anywhere far off."""
    looks = []

    def wobbling(x):
        looks.append(x)
        value = excess(x) + 1e-7 * math.sin(1e12 * x + seed)
        return value if abs(x / ROOT - 1) < 1e-2 else excess(x)

    size = lambda x: -10.0 * math.log(x)
    blind = Search(wobbling, lambda x: None, lambda x: size, 10.0, lambda x: 1e-8)
    found = blind.root(0.75, 1.0, 1e-6, 1e-12)
    assert wobbling(found) <= 0.0
    assert found == pytest.approx(ROOT, rel=5e-8)
    assert all(0.5 < x < 1.0 for x in looks)
    assert len(looks) <= 20
