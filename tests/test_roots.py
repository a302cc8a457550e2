"""The searches on made-up functions, apart from any accounting."""

import math

import pytest
from scipy.optimize import minimize_scalar

from csgm_cli.errors import NoAnswerError
from csgm_cli.roots import descend, increasing_root, interpolated, least_safe, lowest, secant


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
def test_least_safe_certifies_its_bracket(threshold, miss):
    """The answer is safe and the answer (1 - 2 width) is not, however poor the estimate was."""

    def is_safe(x):
        return x >= threshold

    found = least_safe(is_safe, threshold * (1 + miss))
    assert is_safe(found)
    assert not is_safe(found * (1 - 2 * 4e-13))


def test_least_safe_is_cheap_where_the_estimate_is_good():
    """A root known to rounding costs one look on either side."""
    counting = counted(lambda x: x >= 2.0)
    least_safe(counting, 2.0)
    assert counting.calls == 2


def test_least_safe_survives_noise_around_the_threshold():
    """Values that flicker within rounding of the threshold still leave a safe answer close to it."""

    def is_safe(x):
        wobble = 1e-14 * math.sin(1e16 * x)
        return x >= 5.0 * (1 + wobble)

    found = least_safe(is_safe, 5.0)
    assert is_safe(found)
    assert found == pytest.approx(5.0, rel=2e-12)


@pytest.mark.parametrize("always", [True, False])
def test_least_safe_refuses_what_it_cannot_certify(always):
    """Nothing safe, or nothing unsafe, within a factor two of the estimate: no answer."""
    with pytest.raises(NoAnswerError) as caught:
        least_safe(lambda x: always, 1.0)
    assert caught.value.slug == "not-certified"


FALLING = {
    "line": (lambda x: -3.0 - x, -3.0),
    "steep exponential": (lambda x: math.exp(-40 * (x + 3)) - 1, -3.0),
    "step": (lambda x: 1.0 if x < -3 else -1.0, -3.0),
    "infinite below": (lambda x: math.inf if x < -3 else -1e-9, -3.0),
    "flat foot": (lambda x: max(-1e-12, -3.0 - x), -3.0),
    "cubic": (lambda x: -((x + 3) ** 3), -3.0),
}


@pytest.mark.parametrize("name", FALLING)
def test_descend_ends_on_the_side_that_holds(name):
    """The answer is not positive, and within the width of where the function turns positive."""
    function, root = FALLING[name]
    counting = counted(function)
    found = descend(counting, 0.0, -math.inf, width=1e-10)
    assert function(found) <= 0.0
    assert root - 1e-9 <= found <= root + 1e-9
    assert counting.calls < 120


def test_descend_of_a_function_unknown_at_its_start_stays_there():
    """NaN is neither negative nor positive; what is not known to hold is not searched below."""
    assert descend(lambda _: math.nan, 2.0, 0.0) == 2.0


def test_descend_of_a_function_positive_at_its_start_stays_there():
    """Nothing below is looked at: the start is returned for the caller to judge."""
    counting = counted(lambda x: 1.0)
    assert descend(counting, 2.0, 0.0) == 2.0
    assert counting.calls == 1


@pytest.mark.parametrize("root", [0.9, 0.02, 1e-9])
def test_descend_is_as_close_to_a_small_root(root):
    """For a positive variable the width is relative to the root, however far below the start that is."""
    for floor in (0.0, 1e-40):
        found = descend(lambda x: math.log(root / max(x, 1e-300)), 1.0, floor, width=1e-12)
        assert root <= found <= root * (1 + 1.1e-12)


def test_descend_of_a_straight_line_is_quick():
    """With the right slope the first step ends next to the root."""
    counting = counted(lambda x: 10.0 * (0.3 - x) / 0.3)
    assert descend(counting, 1.0, 0.0, width=1e-12, slope=10.0) == pytest.approx(0.3, rel=1e-11)
    assert counting.calls <= 6


def test_descend_stops_at_the_floor():
    """A function that stays at most 0 leads to the floor itself."""
    assert descend(lambda x: -1.0, 8.0, 0.5) == 0.5


@pytest.mark.parametrize("slope", [0.4, 0.5, 0.6])
def test_secant_finds_a_root_from_a_rough_slope(slope):
    """log x = log 3, from 2; the slope there is 1/2."""
    counting = counted(lambda x: math.log(x / 3.0))
    assert secant(counting, 2.0, math.log(2 / 3), slope) == pytest.approx(3.0, rel=1e-12)
    assert counting.calls <= 6


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: math.log(x / 3e3), 0.5),  # far away
        (lambda x: 1.0 + x * x, 4.0),  # no root
        (lambda x: math.nan, 1.0),
        (lambda x: x - 3.0, 0.0),
    ],
)
def test_secant_gives_up(function, slope):
    """Where nothing is found close by it says so."""
    assert secant(function, 2.0, function(2.0), slope) is None


def test_a_parabola_is_interpolated_exactly():
    """Three points tell a parabola."""
    points = [(x, 3.0 * x * x - 2.0 * x + 1.0) for x in (0.5, 1.0, 3.0)]
    assert interpolated(points, 2.0) == pytest.approx(9.0, rel=1e-14)
    assert interpolated(points[:1], 2.0) == points[0][1]


VALLEYS = {
    "parabola": lambda x: (x - 0.3) ** 2,
    "steep on one side": lambda x: math.exp(8 * x) - 20 * x,
    "flat": lambda x: (x - 0.3) ** 6,
    "cusp": lambda x: abs(x - 0.3) * (2.0 + math.tanh(x)),
    "falling": lambda x: -x,
    "rising": lambda x: x**3,
    "level": lambda x: 1.0,
    "wall": lambda x: 690.0 if x < 0.2 else x,
}


@pytest.mark.parametrize("name", VALLEYS)
def test_lowest_is_as_low_as_another_method_finds_and_as_quick(name):
    """The bounded search of scipy."""
    function = counted(VALLEYS[name])
    at, value = lowest(function, -1.0, 2.0, 1e-8)
    found = minimize_scalar(VALLEYS[name], bounds=(-1.0, 2.0), options={"xatol": 1e-8})
    assert VALLEYS[name](at) == value
    assert value <= found.fun + 1e-7
    assert function.calls <= 1.3 * found.nfev + 3
