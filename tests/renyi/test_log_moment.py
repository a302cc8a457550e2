"""The log-moment of one coordinate: reference values, second methods, limits, and its own error estimate."""

import math
import random

import mpmath
import numpy as np
import pytest

from csgm_cli.renyi import log_moment as module
from csgm_cli.renyi import tilt
from csgm_cli.renyi.complex_log_moment import complex_log_moment
from csgm_cli.renyi.log_moment import log_moment
from csgm_cli.verify.contour import TiltedNodes
from csgm_cli.verify.log_moment import log_moment as precise_log_moment

FLOAT = 1e-13  # what the float64 path reaches; the promise is 1e-10


def relative(value, expected):
    """Relative difference of a float from a number of any precision."""
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def binomial_sum(order, gamma, t):
    """K at an integer order by the plain sum from l = 2, in floats summed without rounding."""
    return math.log1p(
        math.fsum(
            math.comb(order, level)
            * (1 - gamma) ** (order - level)
            * gamma**level
            * math.expm1(level * (level - 1) * t / 2)
            for level in range(2, order + 1)
        )
    )


def paths_taken(monkeypatch, *names):
    """Record which of the functions of the module run, and whether they had a result."""
    taken = []

    def watch(name):
        original = getattr(module, name)

        def watched(*arguments):
            result = original(*arguments)
            taken.append((name, bool(result)))
            return result

        monkeypatch.setattr(module, name, watched)

    for name in names:
        watch(name)
    return taken


# ---------------------------------------------------------------- values


def test_printed_values(reference):
    """Every reference value is met, from K = 1e-22 to 8e8."""
    for row in reference["accounting"]["log_moment"]:
        found = log_moment(row["alpha"], row["gamma"], row["t"])
        assert relative(found.value, row["K"]) < FLOAT, row


@pytest.mark.parametrize("order", [2, 3, 5, 17, 40])
@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.03, 0.5, 0.999])
@pytest.mark.parametrize("t", [1e-18, 1e-6, 0.01, 0.4])
def test_integer_orders_match_the_binomial_sum(order, gamma, t):
    """A finite sum of positive terms, which shares nothing with the quadrature, gives the same."""
    assert relative(log_moment(order, gamma, t).value, binomial_sum(order, gamma, t)) < FLOAT


@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.4, 1 - 1e-9])
@pytest.mark.parametrize("t", [1e-20, 1e-8, 1e-3, 1.0, 30.0, 400.0])
def test_order_two_in_closed_form(gamma, t):
    """E[Y^2] = 1 + g^2 (e^t - 1), worked by hand."""
    assert relative(log_moment(2.0, gamma, t).value, math.log1p(gamma**2 * math.expm1(t))) < FLOAT


@pytest.mark.parametrize("order", [1 + 1e-9, 1.5, 7.25, 1e6])
@pytest.mark.parametrize("t", [1e-20, 0.3, 1e4])
def test_gamma_one_is_the_gaussian(order, t):
    """With every coordinate sent K = a(a-1) t/2, with the derivatives of that."""
    found = log_moment(order, 1.0, t)
    assert found.value == order * (order - 1) * t / 2
    assert found.d_order == pytest.approx((2 * order - 1) * t / 2, rel=1e-15)
    assert found.d2_order == t


@pytest.mark.parametrize(("order", "t"), [(1.5, 0.25), (8.0, 0.01), (30.5, 4.0), (3.0, 100.0)])
def test_gamma_close_to_one_tends_to_the_gaussian(order, t):
    """The last gamma below 1 differs from the Gaussian by little, and from below."""
    gaussian = order * (order - 1) * t / 2
    assert 0 <= 1 - log_moment(order, 1 - 2.0**-53, t).value / gaussian < 1e-13
    assert log_moment(order, 0.999, t).value < gaussian


@pytest.mark.parametrize("order", [1.0001, 2.0, 60.5, 1e5])
def test_small_signals_follow_the_leading_term(order):
    """K = a(a-1) g^2 t/2 to first order in t, however small; and 0 without signal."""
    gamma, t = 1e-6, 1e-20
    assert log_moment(order, gamma, t).value == pytest.approx(
        order * (order - 1) * gamma**2 * t / 2, rel=1e-12
    )
    assert log_moment(order, gamma, 0.0).value == 0.0


def test_the_sum_as_the_paper_prints_it_is_not_what_is_computed():
    """From l = 1 beside its prefix the sum counts l = 1 twice, and a loss stays when sigma -> infinity."""

    def printed(order, gamma, t):
        head = (1 - gamma) ** (order - 1) * (gamma * (order - 1) + 1)
        levels = range(1, order + 1)
        terms = [
            math.comb(order, level)
            * (1 - gamma) ** (order - level)
            * gamma**level
            * math.exp(level * (level - 1) * t / 2)
            for level in levels
        ]
        return math.log(head + math.fsum(terms))

    losses = [printed(8, 0.01, 1 / sigma**2) for sigma in (10.0, 1e3, 1e6, 1e9)]
    assert min(losses) > 0.07  # log(1 + 8 g (1-g)^7) = 0.0719 never goes away
    ours = [log_moment(8.0, 0.01, 1 / sigma**2).value for sigma in (10.0, 1e3, 1e6, 1e9)]
    assert ours == sorted(ours, reverse=True)
    assert ours[-1] < 1e-18


# ---------------------------------------------------------------- derivatives


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [
        (1.0001, 0.1, 0.25),
        (2.5, 0.3, 1e-3),
        (7.25, 0.01, 0.5),
        (40.5, 0.05, 0.02),
        (300.0, 1e-3, 0.04),
        (12.25, 0.2, 100.0),
        (1e5, 0.02, 1e-6),
        (1.01, 1e-3, 600.0),
        (2.75, 1e-3, 2500.0),
        (1000.0, 1e-9, 0.05),
    ],
)
def test_derivatives_against_finite_differences(order, gamma, t):
    """Differences of mpmath values in the order, first and second; they only guide searches."""
    with mpmath.workdps(60):
        a, time, small = mpmath.mpf(order), mpmath.mpf(t), mpmath.mpf(10) ** -10
        gap = small * (a - 1)
        below, here, above = (precise_log_moment(a + side * gap, gamma, time, 35) for side in (-1, 0, 1))
        slope, bend = (above - below) / (2 * gap), (above - 2 * here + below) / gap**2
    found = log_moment(order, gamma, t)
    assert relative(found.d_order, slope) < 1e-7
    assert relative(found.d2_order, bend) < 1e-4


# ---------------------------------------------------------------- the error estimate


def random_points(count, seed):
    """Points over the whole domain of the promise; a fifth of the gammas are close to 1."""
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        order, t = 1 + 10 ** rng.uniform(-4, 6), 10 ** rng.uniform(-20, 4)
        gamma = 10 ** rng.uniform(-9, 0) if rng.random() < 0.8 else 1 - 10 ** rng.uniform(-12, -0.3)
        if order * math.sqrt(t) <= 1e3:
            found.append((order, gamma, t))
    return found


def steep_points(count, seed):
    """Points where the peak at a sqrt(t) overtakes that at 0, so that K and its error rise steeply."""
    rng = random.Random(seed)
    found = []
    while len(found) < count:
        root, height = 10 ** rng.uniform(-3, 1.3), rng.uniform(0.5, 41.0)
        order = 1 + height / root**2
        gamma = math.exp(-height / 2 * rng.uniform(0.9, 1.05) + rng.uniform(-50, 50) / order)
        if order * root <= 2e4 and 1e-9 <= gamma < 1:
            found.append((order, gamma, root**2))
    return found


def assert_error_is_honest(points):
    """The estimate bounds the real error; 1e-16 is the resolution of the comparison itself."""
    for point in points:
        found = log_moment(*point)
        real = relative(found.value, precise_log_moment(*point, 25))
        assert real <= found.error + 1e-16, (point, real, found.error)
        assert found.error < 1e-8, point


def test_the_error_estimate_is_never_smaller_than_the_error():
    """200 points over all of order, gamma and t, against mpmath."""
    assert_error_is_honest(random_points(200, seed=1))


def test_the_error_estimate_holds_at_the_steep_rise():
    """60 points where K grows e-fold within a relative 1e-6 of the order."""
    assert_error_is_honest(steep_points(60, seed=1))


def test_the_error_estimate_holds_where_the_log_moment_is_of_order_one():
    """Between the series and the exponential regime (a scaled sum once lost 1e-14/K here)."""
    rng = random.Random(4)
    points = []
    while len(points) < 60:
        order, gamma = 1 + 10 ** rng.uniform(-1, 5), 10 ** rng.uniform(-2, 0)
        t = 2 * 10 ** rng.uniform(-4, 1) / (order * (order - 1) * gamma**2)
        if order * math.sqrt(t) <= 1e3:
            points.append((order, gamma, t))
    assert_error_is_honest(points)


# ---------------------------------------------------------------- the branches


@pytest.mark.parametrize(
    ("order", "gamma", "t", "spans"),
    [
        (299239.93478633, 5e-7, 1.5e-4, 2),  # peaks at 0 and at a sqrt(t), both alive
        (5e6, 1e-3, 2.6e-6, 2),
        (1.5e7, 1e-9, 1.5e-6, 1),  # the far peak has vanished
        (1e8, 0.999, 1e-8, 1),
    ],
)
def test_huge_orders_are_integrated_over_their_peaks(monkeypatch, order, gamma, t, spans):
    """Where the line is long, only the narrow peaks are sampled, and the value is still right."""
    taken = paths_taken(monkeypatch, "peak_intervals", "_nonnegligible_span")
    found = log_moment(order, gamma, t)
    assert taken == [("peak_intervals", True)]
    assert len(tilt.peak_intervals(order, gamma, math.sqrt(t))) == spans
    assert relative(found.value, precise_log_moment(order, gamma, t, 20)) <= found.error


@pytest.mark.parametrize(
    ("order", "gamma", "root"),
    [
        (1e9, 1e-9, math.sqrt(1e-11)),
        (-4e5, 2.2e-8, 8e-4),
        (-1e7, 1e-3, 1e-4),
        (-300.0, 0.3, 0.5),
        (-1.5638194971242398, 7.433131039535641e-4, 19.096802279023855),  # was 740 times too small
        (-0.29469602942275475, 2.6624783123267525e-4, 19.773411824787832),
        (-1.1181588471756, 0.9936571400790697, 19.018349033378605),
    ],
)
def test_the_line_ends_where_the_order_cannot_move_the_gaussian(order, gamma, root):
    """Y^a moves it to x = a s R, and R is at most gamma on the left: the line is short, the value right."""
    found = log_moment(order, gamma, root**2)
    exact = precise_log_moment(order, gamma, root**2, 20)
    assert relative(found.value, exact) <= max(found.error, FLOAT)
    low, high = tilt.integration_interval(order, gamma, root)
    assert high - low <= 100.0


@pytest.mark.parametrize("gamma", [0.1202, 1 / (1 + math.exp(2))])
def test_a_flat_peak_of_a_huge_order_is_found_by_the_coarse_scan(monkeypatch, gamma):
    """At a t = 4, gamma = 1/(1 + e^2) the two peaks merge in a flat top; neither is narrow."""
    taken = paths_taken(monkeypatch, "peak_intervals", "_nonnegligible_span")
    order, t = 4e6, 1e-6
    found = log_moment(order, gamma, t)
    assert taken == [("peak_intervals", False), ("_nonnegligible_span", True)]
    assert relative(found.value, precise_log_moment(order, gamma, t, 20)) <= found.error


def test_a_flat_peak_too_wide_to_sample_is_out_of_reach():
    """A top that is flat over millions of standard deviations is no answer, at once."""
    assert log_moment(1.6e13, 1 / (1 + math.exp(2)), 2.5e-13) == module.INFINITE_MOMENT


@pytest.mark.parametrize("order", [1.0001, 1.02, 1.3, 2.0, 5.5, 300.0])
@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.5, 0.999999])
def test_the_two_peak_form_continues_the_quadrature(monkeypatch, order, gamma):
    """Where sqrt(t) passes 24 the method changes and the value does not."""
    t = 24.0**2
    taken = paths_taken(monkeypatch, "_separate_peaks", "_quadrature")
    before, after = log_moment(order, gamma, t * (1 - 1e-15)), log_moment(order, gamma, t)
    assert [name for name, _ in taken] == ["_quadrature", "_separate_peaks"]
    # a relative 1e-15 of t moves K by a few 1e-15, times d log K / d log t: at most that of the larger peak
    steep = 1 + order * (order - 1) * t / 2 / after.value
    assert before.value == pytest.approx(after.value, rel=1e-13 + 4e-15 * steep)
    assert before.d_order == pytest.approx(after.d_order, rel=1e-9)
    assert relative(after.value, precise_log_moment(order, gamma, t, 25)) <= after.error + 1e-16


@pytest.mark.parametrize(("order", "t"), [(1e6, 1.0), (1e12, 0.5), (2e4, 1e3), (1e150, 1e4)])
def test_huge_values_neither_overflow_nor_warn(order, t):
    """Beyond the range of exp K is g^a e^(a(a-1)t/2), or infinite where no float holds it; no warning."""
    found = log_moment(order, 1e-3, t)
    expected = order * math.log(1e-3) + order * (order - 1) * t / 2
    if math.isfinite(found.value):
        assert found.value == pytest.approx(expected, rel=1e-9)
    else:
        assert found == module.INFINITE_MOMENT


def test_out_of_reach_is_infinite_in_every_field():
    """No derivative of an unknown value is passed off as known."""
    assert log_moment(1e200, 0.5, 1e4) == module.INFINITE_MOMENT
    assert all(math.isinf(value) for value in vars(module.INFINITE_MOMENT).values())


@pytest.mark.parametrize("order", [0.0, 1.0])
def test_the_ends_of_the_orders_are_out_of_reach(order):
    """Where a search walks up to order 1 (or 0) until rounding makes it that, there are no digits left."""
    assert log_moment(order, 0.1, 0.0025) == module.INFINITE_MOMENT


@pytest.mark.parametrize("gammas", [[0.03], [0.03, 1.0, 1e-6, 0.9]])
@pytest.mark.parametrize("most", [30_000, 400])
@pytest.mark.parametrize("order", [1.0003, 2.5, 40.0, 1e4, 1e200, -1.7])
def test_several_at_once_are_as_good_as_one(order, most, gammas, monkeypatch):
    """Grids laid end to end stay apart: scaled, closed, long and hopeless ones, of one or several gammas."""
    monkeypatch.setattr(module, "_MOST_BATCHED", most)
    coordinates = [(gamma, t) for t in (1.0, 0.0, 1e-9, 600.0, 2.25, 1e4, 0.3) for gamma in gammas]
    for (gamma, t), found in zip(coordinates, module.mixed_log_moments(order, coordinates), strict=True):
        alone = module.log_moment(order, gamma, t)
        assert (found.value == math.inf) == (alone.value == math.inf)
        if found.value < math.inf:
            for name, value in vars(found).items():
                assert value == pytest.approx(getattr(alone, name), rel=1e-12), (t, name)


def test_k_increases_and_is_convex_in_the_order_and_in_t():
    """The facts behind the best order and behind Karamata's inequality, on grids."""
    for gamma in (1e-6, 0.01, 0.6):
        over_order = [log_moment(1 + 0.37 * step, gamma, 0.8).value for step in range(1, 40)]
        over_time = [log_moment(3.7, gamma, 0.11 * step).value for step in range(1, 40)]
        for values in (over_order, over_time):
            steps = np.diff(values)
            assert (steps > 0).all()
            assert (np.diff(steps) > -1e-12 * steps[1:]).all()


@pytest.mark.parametrize("real", [1 + 1e-6, 1.001, 1.3, -1e-6, -1e-3, -0.7])
@pytest.mark.parametrize(("gamma", "t"), [(1e-6, 1e-4), (0.0135, 5.79), (0.3, 0.02), (0.9, 4.0)])
def test_complex_orders_keep_their_digits_close_to_one_and_zero(real, gamma, t):
    """Where K vanishes: next to delta 1 contours pass there, and millions of coordinates are added up."""
    away = abs(real - (real > 0.0))
    orders = real + 1j * away * np.array([0.0, 1.0, 2.0, 3.0])
    for order, found in zip(orders, complex_log_moment(orders, gamma, t), strict=True):
        with mpmath.workdps(90):
            height = mpmath.mpf(order.imag)
            nodes = TiltedNodes.at(mpmath.mpf(order.real), gamma, t, height, 45)
            turned = mpmath.fdot(nodes.weights, [mpmath.expj(height * u) for u in nodes.losses])
            expected = complex(nodes.log_moment + mpmath.log(turned))
        assert abs(found - expected) <= 3e-14 * abs(expected)
