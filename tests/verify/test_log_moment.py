"""The log-moment of one coordinate in high precision against printed values and second methods."""

import math

import mpmath
import pytest

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.verify import log_moment as log_moment_module
from csgm_cli.verify.log_moment import integrated_log_moment, log_moment, summed_log_moment

PRINTED_DIGITS = 1e-15  # the reference values are printed with 16 to 17 digits


def relative(value, expected):
    """Relative difference, computed with more digits than any of the two has."""
    with mpmath.workdps(100):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def test_log_moment_gives_the_printed_values(reference):
    """Each printed log-moment is met in every printed digit."""
    for row in reference["accounting"]["log_moment"]:
        value = log_moment(row["alpha"], row["gamma"], row["t"])
        assert relative(value, row["K"]) < PRINTED_DIGITS, row


def test_order_two_is_the_hand_worked_closed_form():
    """E[Y^2] = 1 + g^2 (e^t - 1), down to K = 1e-48."""
    for gamma, t in ((0.01, 1e-6), (1e-9, 1e-30), (0.3, 2.5), (0.999, 700.0)):
        with mpmath.workdps(80):
            exact = mpmath.log1p(mpmath.mpf(gamma) ** 2 * mpmath.expm1(t))
        assert relative(log_moment(2, gamma, t), exact) < 1e-50
        assert relative(integrated_log_moment(2, gamma, t), exact) < 1e-50


@pytest.mark.parametrize("gamma", [1e-9, 0.004, 1 - 1e-12])
@pytest.mark.parametrize("t", [1e-30, 0.01, 36.0, 1e6])
@pytest.mark.parametrize("order", [2, 3, 300])
def test_sum_and_quadrature_agree(order, gamma, t):
    """Two methods that share no step give the same 50 digits at integer orders."""
    exact = summed_log_moment(order, gamma, t, 55)
    assert relative(integrated_log_moment(order, gamma, t), exact) < 1e-50


@pytest.mark.parametrize(("order", "gamma", "t"), [(1.5, 0.01, 1.0), (7.25, 0.2, 0.3), (1.0001, 0.4, 30.0)])
def test_quadrature_agrees_with_the_definition(order, gamma, t):
    """A library quadrature of the plain definition over many short pieces gives 25 digits of it."""
    with mpmath.workdps(40):
        a, g, root = mpmath.mpf(order), mpmath.mpf(gamma), mpmath.sqrt(t)

        def weighted(x):
            return (1 - g + g * mpmath.exp(x * root - root**2 / 2)) ** a * mpmath.npdf(x)

        last = math.ceil(order * float(root)) + 14
        moment = mpmath.quad(weighted, [mpmath.mpf(x) / 2 for x in range(-28, 2 * last)], maxdegree=5)
        assert relative(log_moment(order, gamma, t), mpmath.log(moment)) < 1e-25


def test_more_digits_confirm_the_digits_of_fewer():
    """At the corners of the domain 50 digits are the first 50 of 70."""
    corners = [
        (1 + 1e-9, 1e-9, 1e-30),
        (1e9, 1e-9, 1e-18),
        (1e9, 0.3, 1e-10),
        (1e8, 0.5, 1e-8),
        (1.3, 1e-9, 225.0),  # the zeros of Y matter most about here
        (1.0001, 0.01, 100.0),
        (7.5, 1e-9, 1e6),
        (2000.5, 0.02, 25.0),
    ]
    for corner in corners:
        assert relative(log_moment(*corner), log_moment(*corner, digits=70)) < 1e-50, corner


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [(1e9, 1e-9, 1e-18), (1e9, 0.7, 1e-12), (123456.789, 1e-3, 1e-6), (1.5, 0.2, 9.0)],
)
def test_log_moment_lies_between_its_proven_bounds(order, gamma, t):
    """Convexity in t gives a(a-1) g^2 t/2 <= K, and forgetting the mask K <= a(a-1) t/2."""
    gaussian = order * (order - 1) * t / 2
    value = log_moment(order, gamma, t)
    assert gaussian * gamma**2 * (1 - 1e-12) <= value <= gaussian * (1 + 1e-12)


def test_of_far_apart_peaks_only_the_sent_one_counts():
    """At sqrt(t) = 1000 only g^a exp(a(a-1) t/2) is left of the moment, to a thousand digits."""
    order, gamma, t = 2.5, 0.001, 1e6
    with mpmath.workdps(80):
        expected = order * mpmath.log(gamma) + mpmath.mpf(order) * (order - 1) * t / 2
    assert relative(log_moment(order, gamma, t), expected) < 1e-50


def test_both_peaks_count_where_the_moment_is_their_sum():
    """Just above order 1 the moment at sqrt(t) = 1000 is (1-g)^a + g^a exp(a(a-1) t/2)."""
    order, gamma, t = 1 + 2.0**-16, 1e-4, 1e6
    with mpmath.workdps(80):
        a, g = mpmath.mpf(order), mpmath.mpf(gamma)
        expected = mpmath.log((1 - g) ** a + g**a * mpmath.exp(a * (a - 1) * t / 2))
    assert relative(log_moment(order, gamma, t), expected) < 1e-50


def test_gamma_one_is_the_gaussian_and_the_limit():
    """K = a(a-1) t/2 at gamma = 1, and gamma -> 1 tends to it."""
    assert log_moment(3.5, 1.0, 0.25) == 3.5 * 2.5 * 0.25 / 2
    near = log_moment(3.5, 1 - 2.0**-52, 0.25)
    assert 0 < 3.5 * 2.5 * 0.25 / 2 - near < 1e-14


def test_no_signal_gives_zero():
    """At t = 0 the two worlds coincide."""
    assert log_moment(7.5, 0.1, 0.0) == 0


@pytest.mark.parametrize(
    "arguments", [(1.0, 0.1, 1.0), (2, 0.0, 1.0), (2, 1.5, 1.0), (2, 0.1, -1.0), (math.nan, 0.1, 1.0)]
)
def test_log_moment_refuses_what_it_is_not_defined_for(arguments):
    """Orders up to 1, gamma outside (0, 1], negative t and NaN are usage errors."""
    with pytest.raises(UsageError):
        log_moment(*arguments)


def test_a_quadrature_that_does_not_converge_is_no_answer(monkeypatch):
    """Running out of nodes raises instead of returning the digits so far."""
    monkeypatch.setattr(log_moment_module, "_MOST_NODES", 1000)
    with pytest.raises(NoAnswerError) as caught:
        log_moment(1.0001, 0.01, 100.0)
    assert caught.value.slug == "oracle-not-converged"


@pytest.mark.parametrize(("gamma", "t"), [(0.01, 1.0), (0.5, 1e-6), (1e-6, 9.0)])
@pytest.mark.parametrize("order", [-0.5, -40.25])
def test_negative_orders_agree_with_the_definition(order, gamma, t):
    """A library quadrature of Y^a - 1 - a (Y - 1) gives 15 digits of the moment of a negative order."""
    with mpmath.workdps(40):
        a, g, root = mpmath.mpf(order), mpmath.mpf(gamma), mpmath.sqrt(t)

        def weighted(x):
            excess = g * mpmath.expm1(x * root - root**2 / 2)
            return ((1 + excess) ** a - 1 - a * excess) * mpmath.npdf(x)

        low = math.floor(order * float(root)) - 14
        moment = mpmath.quad(weighted, range(low, 15), maxdegree=5)
        assert relative(log_moment(order, gamma, t, 30), mpmath.log1p(moment)) < 1e-15


def test_negative_orders_of_a_gaussian_are_closed():
    """At gamma = 1 the log-moment is a(a-1) t/2 for every order, and gamma -> 1 tends to it."""
    assert log_moment(-3, 1.0, 0.25) == -3 * -4 * 0.25 / 2
    assert relative(log_moment(-3, 1 - 2.0**-52, 0.25), 1.5) < 1e-12
