"""Moments of slices of one coordinate's loss against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.core.loss_nodes import Outside
from csgm_cli.core.sliced_law import LOWEST, Coordinates, Line, log_more, log_upper_tail, upper_tail

#: gamma, s, where the slice ends (x)
SLICES = [(1e-9, 1e-6, 4.0), (1e-6, 1.0, 9.0), (1e-4, 0.3, 25.0), (0.01, 1.0, 3.0), (0.05, 5.0, 3.5),
          (0.5, 0.1, 2.0), (0.999, 0.7, 5.0), (1.0, 0.2, 6.0), (1e-3, 30.0, 15.2)]  # fmt: skip


def moment(gamma, s, order, low, high):
    """E_Q[Y^order; low < x <= high], by Gauss-Legendre quadrature in 40 digits."""
    with mpmath.workdps(40):
        gamma, s = mpmath.mpf(gamma), mpmath.mpf(s)

        def integrand(x):  # relative to the Gaussian at the end that is nearer, for mpmath's stopping rule
            y = 1 - gamma + gamma * mpmath.exp(x * s - s * s / 2)
            return mpmath.exp((nearest**2 - x * x) / 2) * y**order

        nearest = max(mpmath.mpf(low), mpmath.mpf(0))
        panels = mpmath.linspace(low, high, math.ceil(2 * (high - low)) + 1)
        return mpmath.npdf(nearest) * mpmath.quad(integrand, panels, method="gauss-legendre", maxdegree=6)


@pytest.mark.parametrize(("gamma", "s", "high"), SLICES)
def test_loss_and_place_are_inverse(gamma, s, high):
    """The x of the loss at x is x, and the loss is log Y to 1e-14 of what it rises to."""
    part = Coordinates(1.0, gamma, s)
    for x in np.linspace(-0.9 * high, high, 7).tolist():
        loss = float(part.loss(np.array(x)))
        with mpmath.workdps(40):
            y = 1 - mpmath.mpf(gamma) + gamma * mpmath.exp(x * mpmath.mpf(s) - mpmath.mpf(s) ** 2 / 2)
            assert loss == pytest.approx(float(mpmath.log(y)), rel=1e-14, abs=1e-15 * gamma)
            slope = float(gamma * s * mpmath.exp(x * s - s * s / 2) / y)
        if slope > 1e-3 * gamma * s:
            assert part.place(loss) == pytest.approx(x, abs=1e-14 * max(abs(loss), gamma) / slope + 1e-12)


@pytest.mark.parametrize(("gamma", "s", "high"), SLICES)
@pytest.mark.parametrize("order", [1.5, -2.5])
def test_real_moments(gamma, s, high, order):
    """The log-moment below a level keeps its relative accuracy however close to 1 the moment is."""
    part = Coordinates(1.0, gamma, s)
    low, middle = -16.0, 0.6 * high
    nodes = part.nodes(low, high, 2 * abs(order), np.array([middle]))
    below, beyond = part.table(nodes, np.array([middle, high]), np.array([order]))
    with mpmath.workdps(30):
        first, rest = (moment(gamma, s, order, *ends) for ends in ((low, middle), (middle, high)))
        expected = [float(mpmath.log(first)), float(mpmath.log(first + rest))]
    assert below[0] == pytest.approx(expected, rel=1e-10, abs=1e-15)
    assert beyond[0] == pytest.approx([float(rest / first), 0.0], rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(("gamma", "s", "high"), SLICES)
@pytest.mark.parametrize("sign", [1, -1])
def test_complex_moments_are_within_their_errors(gamma, s, high, sign):
    """At orders far from the real axis too: all below a level, and a slice relative to that."""
    part = Coordinates(1.0, gamma, s)
    reach = float(np.ptp(part.loss(np.array([LOWEST, high]))))
    line = Line(sign, 1.3, 4.0 / reach, 48)  # up to 120 radians are looked at
    low = LOWEST if sign > 0 else part.lowest(line.shift)
    outside = Outside(upper_tail(high), part.excess_above(high))
    log_below, errors = part.log_moment(line, part.nodes(low, high, line.size), outside)
    jumps = part.nodes(0.3 * high, high, line.size)
    more, off, together = log_more(line, jumps, log_below, errors)
    for j in (1, 30):
        order = complex(line.orders[j])
        with mpmath.workdps(30):
            below = moment(gamma, s, mpmath.mpc(order), low, high)
            expected = complex(mpmath.log(below))
            ratio = complex(moment(gamma, s, mpmath.mpc(order), 0.3 * high, high) / below)
        assert abs(log_below[j].real - expected.real) <= errors[j] + 1e-15
        assert abs(math.remainder(log_below[j].imag - expected.imag, 2 * math.pi)) <= errors[j] + 1e-15
        assert abs(np.expm1(more[j]) - ratio) <= (off[j] + 1e-15 * abs(more[j])) * abs(1 + ratio)
        sums = np.exp(log_below[j] + more[j])
        whole = complex(below * (1 + ratio))
        assert abs(sums - whole) <= (together[j] + 1e-15 * (1 + abs(log_below[j] + more[j]))) * abs(whole)


def test_moments_far_from_one():
    """Where Y^-z is e^200 the moment is taken relative to Y at its floor."""
    part = Coordinates(1.0, 0.3, 1.0)
    line = Line(-1, 600.0, 3.0, 32)
    low = part.lowest(line.shift)
    outside = Outside(upper_tail(4.0), part.excess_above(4.0))
    log_moment, errors = part.log_moment(line, part.nodes(low, 4.0, line.size), outside)
    for j in (0, 20):
        with mpmath.workdps(30):
            exact = mpmath.log(moment(0.3, 1.0, mpmath.mpc(complex(line.orders[j])), low, 4.0))
        assert abs(log_moment[j].real - float(exact.real)) <= errors[j] + 1e-12
    assert log_moment[0].real > 150.0


@pytest.mark.parametrize("s", [0.3, 1.5])
def test_orders_do_not_see_each_other(s):
    """So many that they are worked on in blocks, at levels on both sides of the first nodes."""
    part, levels = Coordinates(1.0, 0.01, s), np.linspace(-14.0, 6.0, 30)
    nodes, outside = part.nodes(LOWEST, 6.0, 300.0, levels), Outside(upper_tail(6.0), part.excess_above(6.0))
    orders = np.geomspace(1e-3, 300.0, 40)
    assert len(nodes.blocks(orders)) > 1
    below, beyond = part.table(nodes, levels, orders)
    moments = part.real_moments(nodes, outside, orders)
    for i in (0, 17, 39):
        alone = part.table(nodes, levels, orders[[i]])
        assert np.array_equal(below[i], alone[0][0], equal_nan=True)
        assert np.array_equal(beyond[i], alone[1][0], equal_nan=True)
        assert moments[i] == pytest.approx(part.real_moments(nodes, outside, orders[[i]])[0], rel=1e-12)


@pytest.mark.parametrize("x", [-3.0, 0.0, 5.0, 34.9, 35.1, 80.0])
def test_log_upper_tail(x):
    """To 1e-12, also where the tail itself is 0 in float64."""
    with mpmath.workdps(40):
        expected = mpmath.log(mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2)
    assert log_upper_tail(x) == pytest.approx(float(expected), rel=1e-12)
    assert upper_tail(x) == pytest.approx(float(mpmath.exp(expected)), rel=1e-12, abs=1e-307)


def test_reached_says_where_a_peak_is_out_of_sight():
    """With gamma 1 the integrand of E[Y^-z] has its peak at -z s; with a floor it stops where Y does."""
    gaussian, floored = Coordinates(1.0, 1.0, 1.0), Coordinates(1.0, 0.01, 1.0)
    assert gaussian.reached(35.0)
    assert not gaussian.reached(80.0)
    assert floored.reached(1e4)


def test_slices_far_below_the_largest_term_are_seen():
    """At an order that makes the top e^800 times as large as the rest, what is below a level is not lost."""
    part, order, level, top = Coordinates(1.0, 1e-3, 0.5), 5000.0, 9.0, 15.0
    nodes = part.nodes(LOWEST, top, order, np.array([level]))
    below, _ = part.table(nodes, np.array([level, top]), np.array([order]))
    between = part.between(nodes, np.array([level, top]), np.array([order]))
    with mpmath.workdps(30):
        first, rest = (moment(1e-3, 0.5, order, *ends) for ends in ((LOWEST, level), (level, top)))
        assert float(mpmath.log(rest / first)) > 800.0
        assert below[0] == pytest.approx([float(mpmath.log(m)) for m in (first, first + rest)], rel=1e-10)
        assert between[0] == pytest.approx([float(mpmath.log(m)) for m in (first, rest)], rel=1e-10)
