"""The search for the least noise of a Renyi bound."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.core import oracle
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Geometry, Mechanism, Target
from csgm_cli.renyi import renyi_noise
from csgm_cli.renyi.conversion import allowed_moment, best_epsilon, best_log_delta
from csgm_cli.renyi.curves import Curve, renyi_curve
from csgm_cli.renyi.first_guess import first_guess


def least_epsilon(mechanism, sigma, delta, order):
    """The oracle's epsilon at the best integer order, downhill from ``order``: there is one minimum."""

    def at(a):
        return oracle.epsilon(mechanism, sigma, delta, a, Bound.PAPER, 20) if a >= 2 else math.inf

    while True:
        best = min((order, order - 1, order + 1), key=at)
        if best == order:
            return at(order)
        order = best


def assert_least_at_integer_orders(mechanism, target):
    """The answer meets the target by the oracle, and hardly less noise does not, at any integer order."""
    found = calibrate(mechanism, target, Accountant.PAPER)
    order = found.guarantee.order
    assert order == int(order) >= 2
    assert oracle.epsilon(mechanism, found.sigma, target.delta, order, Bound.PAPER, 20) <= target.epsilon
    less = found.sigma * (1 - 1e-8)
    assert least_epsilon(mechanism, less, target.delta, order) > target.epsilon


@pytest.mark.parametrize(
    ("mechanism", "target"),
    [
        (Mechanism("l2-csgm", 1e-9, Geometry(1.0, dim=1)), Target(7e-5, 1e-300)),
        (Mechanism("l2-csgm", 3.625128303014993e-9, Geometry(1.0)), Target(1.3297048143900593e-4, 8.32e-234)),
        (Mechanism("l2-csgm", 5.129011255e-9, Geometry(1.0), rounds=3), Target(4.126763657e-5, 2.678e-179)),
        (Mechanism("l2-csgm", 2.325667e-9, Geometry(2.55)), Target(2.4919819e-4, 4.8967e-290)),
        (
            Mechanism("l2-csgm", 2.325667e-9, Geometry(2.55), adjacency=Adjacency.REPLACE_ONE),
            Target(2.4919819e-4, 4.8967e-290),
        ),
        (Mechanism("linf-csgm", 1e-9, Geometry(1.0, dim=1)), Target(1e-6, 1e-300)),
        (Mechanism("l2-csgm", 1e-3, Geometry(1.0)), Target(1e-3, 1e-300)),
        (Mechanism("l2-csgm", 0.5, Geometry(1.0)), Target(20.0, 1e-5)),  # order 2
        (Mechanism("l2-csgm", 0.01, Geometry(1e3)), Target(1e4, 1e-8)),  # the best real order is below 2
        (Mechanism("l2-csgm", 0.3, Geometry(10.0), rounds=100), Target(2.0, 0.9)),
    ],
)
def test_the_least_noise_at_integer_orders(mechanism, target):
    """Also where the moment grows e^40-fold from one order to the next: epsilon(sigma) is a staircase."""
    assert_least_at_integer_orders(mechanism, target)


@settings(max_examples=25, deadline=None)
@given(
    gamma=st.floats(-9.0, -0.01),
    epsilon=st.floats(-6.0, 1.5),
    delta=st.floats(-300.0, -0.1),
    ratio=st.sampled_from([1.0, 2.5, 30.0]),
    rounds=st.sampled_from([1, 7]),
    adjacency=st.sampled_from(Adjacency),
)
def test_the_least_noise_at_integer_orders_anywhere(gamma, epsilon, delta, ratio, rounds, adjacency):
    """Steep or not, one coordinate or many."""
    mechanism = Mechanism("l2-csgm", 10.0**gamma, Geometry(ratio), rounds, adjacency)
    assert_least_at_integer_orders(mechanism, Target(10.0**epsilon, 10.0**delta))


@pytest.mark.parametrize(
    ("order", "epsilon", "delta"), [(2.0, 20.0, 1e-5), (1.3, 1e3, 0.9), (9.6e6, 7.3e-5, 1e-300)]
)
def test_the_allowed_moment_converts_to_epsilon(order, epsilon, delta):
    """Canonne, Kamath and Steinke's Proposition 12, written out in 30 digits."""
    allowed = allowed_moment(order, epsilon, math.log(delta))
    with mpmath.workdps(30):
        a, d = mpmath.mpf(order), mpmath.mpf(delta)
        found = allowed / (a - 1) + mpmath.log1p(-1 / a) - mpmath.log(d * a) / (a - 1)
        assert abs(found - epsilon) <= 1e-12 * max(epsilon, -mpmath.log(d) / (a - 1))


def test_the_joint_search_finds_what_the_nested_one_finds(reference):
    """Newton on noise and order at once ends at the root of the search that is safe in a bracket."""
    settled = 0
    for row in reference["accounting"]["rdp"]:
        mechanism = Mechanism("l2-csgm", row["gamma"], Geometry(math.sqrt(row["k"])), row["rounds"])
        target = Target(row["epsilon"], row["delta"])
        curve = renyi_curve(mechanism, Bound.RDP)
        guess = first_guess(curve, target)
        sigma, order = renyi_noise._nested_newton(curve, target, guess)
        quick = renyi_noise._joint_newton(curve, target, guess)
        if quick is not None:
            settled += 1
            assert quick[0] == pytest.approx(sigma, rel=1e-11), row
            assert quick[1] == pytest.approx(order, rel=1e-5), row
    assert settled >= 4


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "epsilon", "delta"),
    [
        (8.77e-8, 3.346, 8046, 0.0019487, 1.2337e-56),
        (2.18e-8, 152.0, 485572, 0.2034, 2.067e-43),
        (1e-9, 30.0, 10, 1e-3, 1e-90),
        (1e-4, 20.0, 1000, 0.01, 1e-12),
    ],
)
def test_cliffs_take_few_moments(monkeypatch, gamma, ratio, rounds, epsilon, delta):
    """Where K rises e-fold within 1e-6 of the order, no order meets the target with less noise."""
    asked, moment = [], Curve.moment
    monkeypatch.setattr(
        Curve, "moment", lambda curve, order, sigma: asked.append(order) or moment(curve, order, sigma)
    )
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    target, curve = Target(epsilon, delta), renyi_curve(mechanism, Bound.RDP)
    sigma = renyi_noise.near_renyi_sigma(mechanism, Bound.RDP, target)
    assert len(asked) <= 60  # by orders at each noise it takes hundreds
    asked.clear()
    best = best_epsilon(curve, sigma, math.log(delta))
    assert best.value == pytest.approx(epsilon, rel=1e-9)
    tail = best_log_delta(curve, sigma, epsilon)
    assert tail.value == pytest.approx(math.log(delta), abs=1e-8)
    assert len(asked) <= 20
    for factor in (1 - 1e-3, 1 - 1e-5, 1 + 1e-5, 1 + 1e-3):
        other = 1 + (best.order - 1) * factor
        room = allowed_moment(other, epsilon, math.log(delta))
        assert moment(curve, other, sigma).value >= room
