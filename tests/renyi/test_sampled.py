"""Log-moments of one round with client sampling against published values, quadrature and limits."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from csgm_cli.bounds.by_order import RENYI
from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.model.geometry import Geometry
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.renyi.law import Coordinates, Law, SampledRounds
from csgm_cli.renyi.sampled import LARGEST_ORDER, LEAST_ORDER, sampled_log_moment


def log_moment(row, k, gamma, sigma, order, rate=None):
    """The log-moment of one round at kappa*, through the mechanism."""
    geometry = Geometry(norm_ratio=math.sqrt(k))
    mechanism = Mechanism("l2-csgm", gamma, geometry, rounds=1, sampling_rate=rate or row["q"])
    return worst_case_law([(mechanism, sigma)]).log_moment(order).value


@pytest.mark.parametrize(("key", "error"), [("rdp", 1e-9), ("real_order", 1e-9)])
def test_reference_log_moments(reference, key, error):
    """Values in 40 digits at integer orders, and from a Mellin-Barnes integral at real ones."""
    for row in reference["client_sampling"][key]:
        found = log_moment(row, row["k"], row["gamma"], row["sigma_over_D2"], row["order"])
        assert found == pytest.approx(row["log_moment"], rel=error)


def test_limits_are_subsampled_gaussians(reference):
    """gamma = 1; k = 1 with the rate q gamma; and so many coordinates that y is lognormal."""
    for row in reference["client_sampling"]["limits"]:
        x, q, order = row["x"], row["q"], row["order"]
        epsilon = row["dp_accounting"] * (order - 1)
        assert log_moment(row, 1.0, 1.0, x, order) == pytest.approx(epsilon, rel=1e-9)
        if 4 * q <= 1.0:  # q = 4 q gamma
            assert log_moment(row, 1.0, 0.25, x, order, 4 * q) == pytest.approx(epsilon, rel=1e-9)
        assert log_moment(row, 1e12, 0.1, 0.1 * x, order) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize(("rate", "noise", "rounds"), [(1e-3, 0.6, 2000), (0.02, 1.1, 50), (0.3, 3.0, 7)])
def test_subsampled_gaussian_of_dp_accounting(rate, noise, rounds):
    """RDP of several rounds: equal at integer orders; at others dp-accounting's value is an upper bound."""
    orders = [2.0, 3.7, 8.0, 31.3, 60.0]
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    known = RdpAccountant(orders=orders).compose(event, rounds)._rdp
    for order, epsilon in zip(orders, known, strict=True):
        value = rounds * sampled_log_moment(order, rate, Law((), noise**-2)).value / (order - 1)
        assert value <= epsilon * (1 + 1e-11)
        assert value == pytest.approx(epsilon, rel=1e-9 if order.is_integer() else 0.02)
        exact = rounds * quadrature(order, rate, 1.0, noise**-2) / (order - 1)
        assert value == pytest.approx(exact, rel=1e-11)


def quadrature(order, rate, gamma, t):
    """log E[(1 - q + q y)^a] for one coordinate, by the trapezoid rule in 30 digits."""
    with mpmath.workdps(30):
        s, g, q, step = mpmath.sqrt(t), mpmath.mpf(gamma), mpmath.mpf(rate), mpmath.mpf(1) / 8
        total = mpmath.mpf(0)
        for i in range(-100, 100 + math.ceil(8 * order * math.sqrt(t))):
            x = i * step
            above = q * g * mpmath.expm1(s * x - s * s / 2)
            total += ((1 + above) ** order - 1 - order * above) * mpmath.npdf(x)
        return float(mpmath.log1p(step * total))


@pytest.mark.parametrize("rate", [1e-9, 0.03, 0.49, 0.51, 1 - 1e-9])
@pytest.mark.parametrize("order", [1.2000001, 1.21, 1.5, 1.999, 2.001, 2.5, 2.99999, 5.3, 17.9, 63.7])
def test_real_orders_by_quadrature(order, rate):
    """One coordinate in a round: the Mellin-Barnes integral against one-dimensional quadrature."""
    for gamma, t in ((0.3, 0.5), (0.9, 2.0)):
        found = sampled_log_moment(order, rate, Law((Coordinates(1.0, gamma, t),)))
        known = quadrature(order, rate, gamma, t)
        assert found.value == pytest.approx(known, rel=found.error + 1e-12, abs=0.0)


def test_two_coordinates_by_quadrature():
    """Coordinates are dependent once the client may be absent: a two-dimensional trapezoid rule."""
    order, rate, gamma, t = 2.7, 0.2, 0.4, 0.6
    x = np.arange(-12.0, 15.0, 0.05)
    weight = 0.05 * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    one = 1 - gamma + gamma * np.exp(math.sqrt(t) * x - t / 2)
    moment = weight @ (1 - rate + rate * np.outer(one, one)) ** order @ weight
    found = sampled_log_moment(order, rate, Law((Coordinates(2.0, gamma, t),)))
    assert found.value == pytest.approx(math.log(moment), rel=1e-10)


@pytest.mark.parametrize("order", [1.001, 1.1, LEAST_ORDER - 1e-9, LARGEST_ORDER + 1e-9, 90.0])
def test_bound_beyond_the_exact_orders(order):
    """Never below the moment, which is exact for one coordinate."""
    for rate, gamma, t in ((0.01, 0.3, 0.05), (0.5, 0.9, 0.02), (1e-4, 0.05, 0.2)):
        found = sampled_log_moment(order, rate, Law((Coordinates(1.0, gamma, t),))).value
        assert found >= quadrature(order, rate, gamma, t) * (1 - 1e-12)


@pytest.mark.parametrize("order", [1.0005, 1.0025, 1.02, 1.15, 2.0, 3.0])
@pytest.mark.parametrize("rate", [1e-4, 0.5, 1 - 1e-12])
@pytest.mark.parametrize(("count", "gamma", "t"), [(7.0, 1e-9, 14850.0), (40.0, 0.05, 0.8)])
def test_sampling_does_not_increase_the_log_moment(count, gamma, t, rate, order):
    """Jensen: E[(1 - q + q y)^a] <= 1 - q + q E[y^a]."""
    inner = Law((Coordinates(count, gamma, t),))
    bound = float(mpmath.log1p(rate * mpmath.expm1(inner.log_moment(order).value)))
    assert sampled_log_moment(order, rate, inner).value <= bound * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 100.0, 9e3, 1e4])
@pytest.mark.parametrize("gamma", [1e-9, 1e-4])
def test_sampling_does_not_increase_the_renyi_bound(gamma, epsilon):
    """With few large coordinates the best order is close to 1, and log-moments jump just above it."""
    for t in (100.0, 14850.0):
        inner = Law((Coordinates(7.0, gamma, t),))
        law = Law((), sampled=(SampledRounds(2.0, 1 - 1e-12, inner),))
        without = RENYI(law.without_sampling, epsilon).log_delta
        assert RENYI(law, epsilon).log_delta <= without + 1e-5 * abs(without)


@pytest.mark.parametrize("inner", [Law((Coordinates(40.0, 0.05, 0.8),)), Law((), 0.7)])
@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.7])
def test_log_moment_is_convex_and_continuous_in_the_order(rate, inner):
    """K is a cumulant function with K(1) = 0, so K(a)/(a - 1) increases, across all three formulas."""
    orders = [1.05, 1.19, 1.21, 1.7, 1.99, 2.0, 2.01, 3.0, 3.3, 6.0, 20.4, 63.9, 64.0, 64.1, 80.0]
    slopes = [sampled_log_moment(a, rate, inner).value / (a - 1) for a in orders]
    assert all(low <= high * (1 + 1e-9) for low, high in itertools.pairwise(slopes))


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.5])
def test_sampling_rate_amplifies_quadratically_at_order_two(rate):
    """E[U^2] - 1 = q^2 (E[y^2] - 1)."""
    inner = Law((Coordinates(30.0, 0.1, 0.4),))
    expected = math.log1p(rate**2 * math.expm1(inner.log_moment(2.0).value))
    assert sampled_log_moment(2.0, rate, inner).value == pytest.approx(expected, rel=1e-12)


def test_product_of_the_rates_understates_the_loss():
    """A client's coordinates are sent together: gamma -> q gamma in a release without sampling is wrong."""
    for rate, gamma, count in ((1e-3, 0.1, 24127.0), (0.1, 0.3, 5.0), (0.5, 0.5, 2.0)):
        t = gamma**-2 / count
        for order in (2.0, 3.0, 7.0):
            wrong = Law((Coordinates(count, rate * gamma, t),)).log_moment(order).value
            assert wrong < sampled_log_moment(order, rate, Law((Coordinates(count, gamma, t),))).value


def test_infinite_moments_are_infinite():
    """Beyond float64 the bound is infinite, never a number that is too small."""
    inner = Law((Coordinates(1.0, 0.5, 1e6),))
    assert sampled_log_moment(40.5, 0.1, inner).value == math.inf
