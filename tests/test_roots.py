"""Root finding and minimisation on made-up functions, apart from any accounting."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from csgm_cli.errors import NoAnswerError
from csgm_cli.roots import (
    bracketed_minimum,
    brent_minimum,
    increasing_root,
    lattice_minimum,
    narrow_bracket,
    smallest_nonpositive,
    smallest_satisfying,
)


def counted(function):
    """The function, counting its calls in ``.calls``."""

    def wrapper(x):
        wrapper.calls += 1
        return function(x)

    wrapper.calls = 0
    return wrapper


CURVES = {
    "line": (lambda x: (x - 3, 1.0), 3.0),
    "cubic": (lambda x: ((x - 3) ** 3, 3 * (x - 3) ** 2), 3.0),
    "exponential": (lambda x: (math.exp(x) - 1e9, math.exp(x)), math.log(1e9)),
    "arctangent": (lambda x: (math.atan(x + 20), 1 / (1 + (x + 20) ** 2)), -20.0),
    "wrong slope": (lambda x: (x - 3, 1e-9), 3.0),
    "no slope": (lambda x: (x - 3, 0.0), 3.0),
    "slopes at random": (lambda x: (x - 3, 10 ** (4 + math.sin(1e9 * x))), 3.0),
    "staircase": (lambda x: (math.floor(1e6 * (x - 3)) + 0.5, 1e6 * 10 ** (4 + math.sin(1e9 * x))), 3.0),
    "step": (lambda x: (1.0 if x > 3 else -1.0, 0.0), 3.0),
    "infinite above": (lambda x: (math.inf, math.inf) if x > 4 else (x - 3, 1.0), 3.0),
    "infinite below": (lambda x: (-math.inf, 0.0) if x < 2 else (x - 3, 1.0), 3.0),
    "infinite on both sides": (lambda x: (math.inf, math.inf) if x > 3 else (-math.inf, 0.0), 3.0),
}


@pytest.mark.parametrize("start", [-200.0, 2.9, 3.0, 40.0, 200.0])
@pytest.mark.parametrize("name", CURVES)
def test_increasing_root_finds_the_root(name, start):
    """Straight, flat, steep, misleading and infinite functions, from near and far."""
    function, root = CURVES[name]
    counting = counted(function)
    found = increasing_root(counting, start)
    assert found == pytest.approx(root, abs=1e-9)
    assert counting.calls <= 300


def test_increasing_root_on_a_plateau_returns_a_zero():
    """Where the function is 0 on an interval any point of it will do."""
    found = increasing_root(lambda x: (min(x - 1, 0.0) + max(x - 5, 0.0), 1.0), 30.0)
    assert 1 - 1e-9 <= found <= 5 + 1e-9


def test_increasing_root_stops_by_tolerance_and_takes_the_last_step():
    """A Newton step within the tolerance is taken, so that a line is solved in one evaluation."""
    counting = counted(lambda x: (x - 3, 1.0))
    assert increasing_root(counting, 2.5, tolerance=1.0) == 3.0
    assert counting.calls == 1


def test_increasing_root_stops_where_settled():
    """``settled`` sees the point, the value and the Newton step, and ends the search at the point."""
    seen = []

    def settled(x, value, step):
        seen.append((x, value, step))
        return abs(value) < 0.5

    found = increasing_root(lambda x: (x - 3, 0.5), 10.0, settled=settled)
    assert abs(found - 3) < 0.5
    assert seen[0] == (10.0, 7.0, -14.0)
    assert seen[-1][0] == found


@pytest.mark.parametrize("value", [1.0, -1.0, math.nan])
def test_increasing_root_gives_up_without_a_sign_change(value):
    """A function without a root, or without values, is no answer instead of an endless loop."""
    with pytest.raises(NoAnswerError) as caught:
        increasing_root(lambda x: (value, 0.0), 0.0)
    assert caught.value.slug == "no-root"


@pytest.mark.parametrize("threshold", [1e-30, 0.7, 1.0, 123.456, 1e17])
@pytest.mark.parametrize("miss", [0.0, 1e-14, -1e-9, 1e-5, -0.3, 0.3])
def test_smallest_satisfying_certifies_its_bracket(threshold, miss):
    """It holds at the answer and not at the answer (1 - 2 width), however poor the estimate was."""

    def holds(x):
        return x >= threshold

    found = smallest_satisfying(holds, threshold * (1 + miss))
    assert holds(found)
    assert not holds(found * (1 - 2 * 4e-13))


def test_smallest_satisfying_is_cheap_with_a_good_estimate():
    """A root known to rounding costs one evaluation on either side."""
    counting = counted(lambda x: x >= 2.0)
    smallest_satisfying(counting, 2.0)
    assert counting.calls == 2


def test_smallest_satisfying_tolerates_rounding_around_the_threshold():
    """Values that change within rounding of the threshold still give an answer that holds, close to it."""

    def holds(x):
        rounding = 1e-14 * math.sin(1e16 * x)
        return x >= 5.0 * (1 + rounding)

    found = smallest_satisfying(holds, 5.0)
    assert holds(found)
    assert found == pytest.approx(5.0, rel=2e-12)


@pytest.mark.parametrize("always", [True, False])
def test_smallest_satisfying_refuses_what_it_cannot_certify(always):
    """No point that holds, or none that does not, within a factor two of the estimate: no answer."""
    with pytest.raises(NoAnswerError) as caught:
        smallest_satisfying(lambda x: always, 1.0)
    assert caught.value.slug == "not-certified"


FALLING = {
    "line": (lambda x: -3.0 - x, -3.0),
    "steep exponential": (lambda x: math.expm1(min(-40 * (x + 3), 700.0)), -3.0),
    "step": (lambda x: 1.0 if x < -3 else -1.0, -3.0),
    "infinite below": (lambda x: math.inf if x < -3 else -1e-9, -3.0),
    "flat foot": (lambda x: max(-1e-12, -3.0 - x), -3.0),
    "cubic": (lambda x: -((x + 3) ** 3), -3.0),
}


@pytest.mark.parametrize("slope", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("near", [-40.0, -3.1, -2.999, 0.0, 30.0])
@pytest.mark.parametrize("name", FALLING)
def test_smallest_nonpositive_has_a_value_of_at_most_zero(name, near, slope):
    """The value is at most 0 there, and above 0 a width further left."""
    function, root = FALLING[name]
    counting = counted(function)
    found = smallest_nonpositive(counting, near, slope=slope, width=1e-10)
    assert function(found) <= 0.0
    assert function(found - 1.1e-10) > 0.0 or abs(found - root) < 1e-9
    assert counting.calls < 200


def test_smallest_nonpositive_of_a_straight_line_is_quick():
    """With the right slope the first step ends next to the root."""
    counting = counted(lambda x: 10.0 * (0.3 - x))
    assert smallest_nonpositive(counting, 1.0, slope=10.0, width=1e-12) == pytest.approx(0.3, abs=1e-12)
    assert counting.calls <= 6


def test_smallest_nonpositive_stops_at_the_floor():
    """A function that stays at most 0 leads to the floor itself, also where the guess is below it."""
    for near in (8.0, 0.5, -3.0):
        assert smallest_nonpositive(lambda x: -1.0, near, slope=1.0, width=1e-9, floor=0.5) == 0.5


def test_smallest_nonpositive_refuses_a_function_above_zero_up_to_the_ceiling():
    """And looks at the ceiling before it does."""
    seen = []
    with pytest.raises(NoAnswerError) as caught:
        smallest_nonpositive(lambda x: seen.append(x) or 1.0, 0.0, slope=1.0, width=1e-9, ceiling=7.0)
    assert caught.value.slug == "no-root"
    assert max(seen) == 7.0
    assert smallest_nonpositive(lambda x: 7.0 - x, 0.0, slope=1.0, width=1e-9, ceiling=7.0) == 7.0


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("name", FALLING)
def test_narrow_bracket_ends_where_the_function_is_at_most_zero(name, relative):
    """Either end may be the newer one; the width is absolute, or relative to the root."""
    function, root = FALLING[name]
    left, right = (-5.0, function(-5.0)), (-1.0, function(-1.0))
    width = 1e-10
    for new, old in ((left, right), (right, left)):
        found = narrow_bracket(function, new, old, width, relative=relative)
        assert function(found) <= 0.0
        assert found == pytest.approx(root, abs=width * (6.0 if relative else 1.1))


def test_narrow_bracket_ends_at_a_zero():
    """No evaluation more than needed."""
    counting = counted(lambda x: 2.0 - x)
    assert narrow_bracket(counting, (0.0, 2.0), (4.0, -2.0), 1e-12) == 2.0
    assert counting.calls == 1


FUNCTIONS = {
    "parabola": lambda x: (x - 0.3) ** 2,
    "steep on one side": lambda x: math.exp(8 * x) - 20 * x,
    "flat": lambda x: (x - 0.3) ** 6,
    "cusp": lambda x: abs(x - 0.3) * (2.0 + math.tanh(x)),
    "falling": lambda x: -x,
    "rising": lambda x: x**3,
    "level": lambda x: 1.0,
    "steep rise": lambda x: 690.0 if x < 0.2 else x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_brent_minimum_is_as_low_and_as_quick_as_another_method(name):
    """The bounded search of scipy."""
    function = counted(FUNCTIONS[name])
    at, value = brent_minimum(function, -1.0, 2.0, 1e-8)
    found = minimize_scalar(FUNCTIONS[name], bounds=(-1.0, 2.0), options={"xatol": 1e-8})
    assert FUNCTIONS[name](at) == value
    assert value <= found.fun + 1e-7
    assert function.calls <= 1.3 * found.nfev + 3


@pytest.mark.parametrize("start", [-70.0, -0.9, 0.31, 1.9, 60.0])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "steep rise"])
def test_bracketed_minimum_is_as_low_as_that_of_another_method(name, start):
    """From any start, inside the limits or not."""
    function = counted(FUNCTIONS[name])
    at, value = bracketed_minimum(function, start, stride=0.3, low=-1.0, high=2.0, width=1e-8)
    found = minimize_scalar(FUNCTIONS[name], bounds=(-1.0, 2.0), options={"xatol": 1e-8})
    assert -1.0 <= at <= 2.0
    assert FUNCTIONS[name](at) == value
    assert value <= found.fun + 1e-7
    assert function.calls <= found.nfev + 60


@pytest.mark.parametrize("start", [-30.0, -4.0, 0.0, 5.0, 40.0])
def test_minimum_between_infinite_values_is_found(start):
    """If the value at the start is infinite, the search still finds the minimum."""
    walls = lambda x: (x - 1.0) ** 2 if -6.0 < x < 8.0 else math.inf
    at, value = bracketed_minimum(walls, start, stride=1.5, low=-50.0, high=50.0, width=1e-7)
    assert at == pytest.approx(1.0, abs=1e-6)
    assert value == pytest.approx(0.0, abs=1e-12)


def test_brent_minimum_ends_if_the_width_is_below_rounding():
    """Steps that do not move x would be taken for ever."""
    at, value = brent_minimum(lambda x: abs(x - 20.0), 19.0, 21.5, 1e-18)
    assert at == pytest.approx(20.0, rel=1e-15)
    assert value < 1e-14


@given(lowest=st.integers(0, 70), start=st.integers(-5, 80), reach=st.integers(5, 100))
def test_lattice_minimum_of_a_convex_function_with_walls(lowest, start, reach):
    def function(i):
        return abs(i - lowest) if abs(i - lowest) <= reach else math.inf

    assert lattice_minimum(function, start, 70) == lowest
