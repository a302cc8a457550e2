"""The convex test functions: values, contour factors, and where they touch the hockey-stick."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.model.certificate import Direction
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.verify import concentrated as precise

ADD = [
    ConvexFunction(Direction.ADD, 0.3, 0.0, 1.5),
    ConvexFunction(Direction.ADD, 2.0, 0.0, 0.01),
    ConvexFunction(Direction.ADD, 0.3, 1.0, 0.7),
    ConvexFunction(Direction.ADD, 0.3, 0.4, 2.0),
    ConvexFunction(Direction.ADD, 5.0, 6.5, 1.0),
    ConvexFunction(Direction.ADD, 0.3, 6.5),
    ConvexFunction(Direction.ADD, 0.3, 1.001),
]
REMOVE = [
    ConvexFunction(Direction.REMOVE, epsilon, b) for epsilon, b in ((0.3, 12.5), (4.0, 1.5), (0.1, 500.0))
]
ANY = [*ADD, *REMOVE, *(ConvexFunction(direction, 0.8) for direction in Direction)]
EXPONENT = st.sampled_from([0.0, 1.0]) | st.floats(0.05, 300.0)
LOG_RATIO = st.floats(math.log(1e-3), math.log(30.0)).map(math.exp)
EPSILON = st.floats(math.log(1e-3), math.log(60.0)).map(math.exp)


def hockey_stick(function, log_y):
    """The function of which `function` is an upper bound."""
    if function.direction is Direction.ADD:
        return np.maximum(np.exp(log_y) - math.exp(function.epsilon), 0.0)
    return np.maximum(-np.expm1(log_y + function.epsilon), 0.0)


def integrated(function, y):
    """phi(y) by quadrature of its second derivative, from the definition in docs/theory.md."""
    shape = precise.ConvexFunction(
        function.direction, function.epsilon, function.exponent, function.log_ratio
    )
    scale, log_knee = shape.shape()
    knee = mpmath.exp(log_knee)
    excess = mpmath.mpf(0)
    if y > knee:
        ends = mpmath.linspace(log_knee, mpmath.log(y), 5)
        excess = mpmath.quad(
            lambda w: (y - mpmath.exp(w)) * scale * mpmath.exp(-function.exponent * (w - log_knee)), ends
        )
    return excess if function.direction is Direction.ADD else 1 - mpmath.exp(function.epsilon) * y + excess


@pytest.mark.parametrize("function", [*ADD, *REMOVE])
def test_values_are_the_integrals_of_the_second_derivative(function):
    """phi'' = scale (y/v)^-B / y from v on; 0 and slope 0 before (add), or the line 1 - e^epsilon y."""
    log_y = function.log_threshold + np.array([-3.0, -1e-3, 1e-4, 0.02, 0.5, 3.0, 9.0])
    for at, found in zip(log_y, function(log_y), strict=True):
        with mpmath.workdps(30):
            exact = integrated(function, mpmath.exp(mpmath.mpf(at)))
            assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-15 * math.exp(max(at, 0.0)))


@given(direction=st.sampled_from(list(Direction)), epsilon=EPSILON, exponent=EXPONENT, log_ratio=LOG_RATIO)
def test_functions_are_above_the_hockey_stick_everywhere(direction, epsilon, exponent, log_ratio):
    if direction is Direction.REMOVE:
        exponent, log_ratio = 1.0 + max(exponent, 0.01), math.inf
    function = ConvexFunction(direction, epsilon, exponent, log_ratio)
    log_y = np.linspace(function.log_threshold - 3.0, max(function.log_threshold, epsilon) + 8.0, 1500)
    stick = hockey_stick(function, log_y)
    assert (function(log_y) >= stick - 1e-12 * (np.exp(log_y) + math.exp(epsilon))).all()
    assert (function(log_y) >= 0.0).all()


@given(epsilon=EPSILON, exponent=EXPONENT, log_ratio=LOG_RATIO)
def test_add_functions_touch_the_line_at_r_times_the_threshold(epsilon, exponent, log_ratio):
    """Equal values and slope 1 there: y - e^epsilon."""
    function = ConvexFunction(Direction.ADD, epsilon, exponent, log_ratio)
    touch, h = function.log_threshold + log_ratio, 1e-3 * log_ratio
    before, here, after = function(touch + h * np.array([-1.0, 0.0, 1.0]))
    y = math.exp(touch)
    assert here == pytest.approx(y - math.exp(epsilon), abs=1e-11 * (y + math.exp(epsilon)))
    slope = (after - before) / (y * 2 * math.sinh(h))
    assert slope == pytest.approx(1.0, abs=2e-3)


@settings(max_examples=30)
@given(direction=st.sampled_from(list(Direction)), epsilon=EPSILON, exponent=EXPONENT, log_ratio=LOG_RATIO)
def test_functions_are_convex_and_in_the_class_of_their_exponent(direction, epsilon, exponent, log_ratio):
    """Values are double integrals of a phi'' with phi'' y^(1 + B) constant from the threshold on."""
    if direction is Direction.REMOVE:
        exponent, log_ratio = 1.0 + max(exponent, 0.01), math.inf
    function = ConvexFunction(direction, epsilon, exponent, log_ratio)
    log_y = function.log_threshold + np.array([-1.0, 0.05, 0.3, 2.0]) / (1.0 + exponent)
    for at, found in zip(log_y, function(log_y), strict=True):
        with mpmath.workdps(30):
            exact = float(integrated(function, mpmath.exp(mpmath.mpf(at))))
        room = 1e-15 * max(function.scale * math.exp(at), 1.0 if direction is Direction.REMOVE else 0.0)
        assert found == pytest.approx(exact, rel=1e-9, abs=room)


@pytest.mark.parametrize("function", ANY)
def test_factors_are_the_mellin_transforms_of_the_functions(function):
    """phi(y) = (1/2 pi i) int y^(1+z) v^-z f(z)/(z (z+1)) dz, and y^-z v^z where removing."""
    real = 0.4 * min(function.pole, 3.0)
    height = np.arange(-4000.0, 4000.0, 0.02)
    z = real + 1j * height
    sign = 1.0 if function.direction is Direction.ADD else -1.0
    for w in (-0.7, 0.3, 1.1):
        log_y = function.log_threshold + w
        lead = math.exp(log_y) if sign > 0 else 1.0
        terms = np.exp(sign * z * w) * function.factor(z) / (z * (z + 1))
        found = lead * float(terms.real.sum()) * 0.02 / (2 * math.pi)
        assert found == pytest.approx(float(function(np.array([log_y]))[0]), abs=2e-4 * lead)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_exponents_zero_and_one_are_the_limits(exponent):
    """Where formulas divide by B and 1 - B."""
    at = ConvexFunction(Direction.ADD, 0.7, exponent, 0.9)
    near = ConvexFunction(Direction.ADD, 0.7, exponent + 1e-7, 0.9)
    log_y = np.linspace(-1.0, 4.0, 60)
    assert at.log_threshold == pytest.approx(near.log_threshold, abs=1e-6)
    assert at.scale == pytest.approx(near.scale, rel=1e-6)
    assert at(log_y) == pytest.approx(near(log_y), rel=1e-5, abs=1e-7)


def test_an_infinite_ratio_is_the_limit_of_large_ones():
    """The asymptote is the line: v = e^epsilon (B-1)/B."""
    far, limit = (ConvexFunction(Direction.ADD, 0.7, 3.0, ratio) for ratio in (40.0, math.inf))
    assert limit.log_threshold == pytest.approx(0.7 + math.log(2 / 3), rel=1e-14)
    assert limit.scale == pytest.approx(3.0, rel=1e-14)
    assert far.log_threshold == pytest.approx(limit.log_threshold, rel=1e-12)
    assert far.scale == pytest.approx(limit.scale, rel=1e-12)


@pytest.mark.parametrize("direction", Direction)
def test_large_exponents_tend_to_the_hockey_stick(direction):
    """The excess over it falls like 1/B."""
    log_y = np.linspace(-2.0, 3.0, 400)
    stick = ConvexFunction(direction, 0.8)(log_y)
    assert stick == pytest.approx(hockey_stick(ConvexFunction(direction, 0.8), log_y), abs=1e-12)
    kink = np.array([0.8 if direction is Direction.ADD else -0.8])
    gaps = [float(ConvexFunction(direction, 0.8, b)(kink)[0]) for b in (1e2, 1e3, 1e4)]
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.1)
    assert gaps[2] == pytest.approx(gaps[1] / 10, rel=0.1)


@given(epsilon=EPSILON, exponent=EXPONENT, log_ratio=LOG_RATIO)
def test_steepest_bounds_the_function_by_a_line_through_zero(epsilon, exponent, log_ratio):
    """phi(y) <= m y where adding, for the mass above a grid; phi <= 1 where removing."""
    adding = ConvexFunction(Direction.ADD, epsilon, exponent, log_ratio)
    log_y = np.linspace(adding.log_threshold, adding.log_threshold + 400.0, 300)
    log_y = log_y[log_y < 600.0]
    assert (adding(log_y) <= adding.steepest * np.exp(log_y) * (1 + 1e-12)).all()
    removing = ConvexFunction(Direction.REMOVE, epsilon, exponent + 1.1)
    assert removing.steepest == 1.0
    assert (removing(np.linspace(-50.0, 50.0, 300)) <= 1.0).all()


@pytest.mark.parametrize("function", ANY)
def test_shape_agrees_with_independent_code(function):
    """Scale and threshold of the verification package, which writes them in another way."""
    try:
        other = precise.ConvexFunction(
            function.direction, function.epsilon, function.exponent, function.log_ratio
        )
    except UsageError:
        pytest.fail("the verification refuses this function")
    scale, log_knee = other.shape()
    if function.direction is Direction.REMOVE and not function.is_hockey_stick:
        scale = (1 - 1 / mpmath.mpf(function.exponent)) * 1  # there B v e^epsilon = B - 1
    assert function.log_threshold == pytest.approx(float(log_knee), rel=1e-13)
    assert function.scale == pytest.approx(float(scale), rel=1e-13)
