"""From a Renyi curve to (epsilon, delta): the best order is really the best."""

import math
import random

import mpmath
import pytest

from csgm_cli.core import oracle
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Geometry, Mechanism, Target
from csgm_cli.renyi import log_moment
from csgm_cli.renyi.conversion import best_epsilon, best_log_delta, epsilon_at, log_delta_at, log_shrink
from csgm_cli.renyi.curves import renyi_curve
from csgm_cli.renyi.moment import gaussian_moment


def random_mechanism(rng):
    """Any L2-CSGM of the promised domain."""
    return Mechanism(
        "l2-csgm",
        10 ** rng.uniform(-9, 0),
        Geometry(10 ** rng.uniform(0, 6)),
        round(10 ** rng.uniform(0, 9)),
        rng.choice(list(Adjacency)),
    )


def random_points(count, seed):
    """(mechanism, sigma, delta, epsilon): noise around what the target asks for."""
    rng = random.Random(seed)
    for _ in range(count):
        mechanism = random_mechanism(rng)
        delta, epsilon = 10 ** rng.uniform(-40, -0.1), 10 ** rng.uniform(-4, 3)
        sigma = calibrate(mechanism, Target(epsilon, delta), Accountant.RDP).sigma
        yield mechanism, sigma * 10 ** rng.uniform(-0.3, 0.3), delta, epsilon


def around(order, reach=4.0, count=81):
    """Orders on a grid that is even in log(order - 1) and contains ``order``."""
    half = count // 2
    return [1 + (order - 1) * math.exp(reach * step / half) for step in range(-half, half + 1)]


# ---------------------------------------------------------------- one order


@pytest.mark.parametrize("order", [1 + 1e-9, 1.01, 2.0, 7.5, 1e6, 1e15])
def test_one_order_by_hand(order):
    """Both conversions in 40 digits, and their error bounds hold."""
    moment = gaussian_moment(order, 0.3)
    log_delta, epsilon = math.log(1e-9), 0.7
    with mpmath.workdps(60):
        a, kay = mpmath.mpf(order), mpmath.mpf(moment.value)
        cost = (mpmath.mpf(log_delta) + mpmath.log(a)) / (a - 1)
        exact = kay / (a - 1) + mpmath.log1p(-1 / a) - cost
        exact_log = kay - (a - 1) * mpmath.mpf(epsilon) - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)
        found, found_log = epsilon_at(order, moment, log_delta), log_delta_at(order, moment, epsilon)
        assert abs(found.value - exact) <= found.error
        assert abs(found_log.value - exact_log) <= found_log.error
    assert found.error < 1e-12 * (1 + moment.value / (order - 1) + 21 / (order - 1))


def test_the_two_conversions_are_each_others_inverse():
    """Epsilon at delta, then delta at that epsilon, at one and the same order."""
    for order in (1.2, 3.0, 50.0):
        moment = gaussian_moment(order, 0.3)
        epsilon = epsilon_at(order, moment, math.log(1e-6)).value
        assert log_delta_at(order, moment, epsilon).value == pytest.approx(math.log(1e-6), rel=1e-12)


@pytest.mark.parametrize("gap", [2.0**-40, 1e-7, 0.01, 0.9])
def test_log_delta_next_to_one_keeps_its_digits(gap):
    """As the order tends to 1 log delta tends to K - (order - 1) epsilon, and so does its error."""
    order, epsilon = 1.0 + gap, 0.7
    moment = gaussian_moment(order, 0.3)
    found = log_delta_at(order, moment, epsilon)
    with mpmath.workdps(60):
        a = mpmath.mpf(order)
        value = mpmath.mpf(3) / 20 * a * (a - 1) - (a - 1) * mpmath.mpf(epsilon)
        exact = value - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)
        assert abs(found.value - exact) <= found.error
    assert found.error <= 1e-14 * abs(found.value)


@pytest.mark.parametrize("order", [1 + 2.0**-40, 1.5, 2.0, 2.5, 1e9])
def test_log_shrink(order):
    """log(1 - 1/a) for orders near 1 and huge ones."""
    with mpmath.workdps(40):
        assert log_shrink(order) == pytest.approx(float(mpmath.log(1 - 1 / mpmath.mpf(order))), rel=4e-16)


# ---------------------------------------------------------------- one stationary order


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("gamma", "ratio", "sigma"), [(0.01, 1.0, 0.7), (0.01, 30.3, 0.05), (0.4, 2.0, 3.0)])
def test_both_objectives_fall_and_then_rise(gamma, ratio, sigma, adjacency):
    """(a-1)^2 d eps/da and d log delta/da are increasing in the order, so each has one stationary point."""
    curve = renyi_curve(Mechanism("l2-csgm", gamma, Geometry(ratio), 3, adjacency), Bound.RDP)
    orders = [1 + 10 ** (step / 40) for step in range(-120, 80)]
    moments = [curve.moment(order, sigma) for order in orders]
    known = [(a, m) for a, m in zip(orders, moments, strict=True) if m.value < 1e12]
    assert len(known) > 120
    for_epsilon = [(a - 1) * m.d_order - m.value + math.log(a) for a, m in known]
    for_delta = [m.d_order + log_shrink(a) for a, m in known]
    for slopes in (for_epsilon, for_delta):
        assert slopes == sorted(slopes)
    for log_delta in (math.log(0.9), -11.5, -300.0):
        values = [epsilon_at(a, m, log_delta).value for a, m in known]
        lowest = values.index(min(values))
        assert values[:lowest] == sorted(values[:lowest], reverse=True)
        assert values[lowest:] == sorted(values[lowest:])


# ---------------------------------------------------------------- the best order


def test_no_order_of_a_fine_grid_beats_the_best_epsilon():
    """30 mechanisms, 81 orders from e^-4 to e^4 times the distance to 1."""
    for mechanism, sigma, delta, _ in random_points(30, seed=11):
        curve, log_delta = renyi_curve(mechanism, Bound.RDP), math.log(delta)
        best = best_epsilon(curve, sigma, log_delta)
        scale = best.moment.value / (best.order - 1)
        for order in around(best.order):
            value = epsilon_at(order, curve.moment(order, sigma), log_delta).value
            assert best.value <= value + 1e-12 * scale, (mechanism, sigma, delta, order)


def test_no_order_of_a_fine_grid_beats_the_best_delta():
    """The same for log delta at a given epsilon; a delta above 1 counts as 1."""
    for mechanism, sigma, _, epsilon in random_points(30, seed=12):
        curve = renyi_curve(mechanism, Bound.RDP)
        best = best_log_delta(curve, sigma, epsilon)
        for order in around(best.order):
            value = log_delta_at(order, curve.moment(order, sigma), epsilon).value
            assert min(best.value, 0.0) <= value + 1e-12 * (1 + abs(value)), (
                mechanism,
                sigma,
                epsilon,
                order,
            )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_integer_orders_are_the_best_integers(adjacency):
    """The paper's accountant against all integers up to 400, where the best one is inside."""
    inside = 0
    for gamma, ratio, rounds, epsilon, delta in (
        (0.01, 100.0, 1, 5.0, 1e-8),
        (0.01, 3.0, 100, 1.0, 1e-6),
        (0.3, 20.0, 1, 0.2, 1e-5),
        (0.05, 50.01, 10, 0.5, 1e-6),
        (0.5, 1.0, 4, 30.0, 1e-3),
    ):
        mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds, adjacency)
        sigma = calibrate(mechanism, Target(epsilon, delta), Accountant.PAPER).sigma
        curve = renyi_curve(mechanism, Bound.PAPER)
        found = best_epsilon(curve, sigma, math.log(delta))
        orders = [float(order) for order in range(2, 401)]
        points = [epsilon_at(order, curve.moment(order, sigma), math.log(delta)) for order in orders]
        best = min(points, key=lambda point: point.value)
        assert found.order == best.order == int(found.order)
        assert found.value == best.value
        inside += 2 < found.order < 400
    assert inside >= 3


def test_a_warm_start_changes_the_road_and_not_the_answer():
    """From any order, near or far, on either side."""
    curve = renyi_curve(Mechanism("l2-csgm", 0.01, Geometry(156.25)), Bound.RDP)
    cold = best_epsilon(curve, 0.02, math.log(1e-8))
    for start in (1 + 1e-8, 1.5, cold.order, 100.0, 1e5):
        warm = best_epsilon(curve, 0.02, math.log(1e-8), start)
        assert warm.value == pytest.approx(cold.value, rel=1e-13)


# ---------------------------------------------------------------- the far ends


def test_the_sharpest_cliff(monkeypatch):
    """gamma 1e-9, one coordinate, epsilon 1e-6, delta 1e-300: order 7e8, minimal, after some 1000 looks."""
    mechanism, target = Mechanism("l2-csgm", 1e-9, Geometry(1.0)), Target(1e-6, 1e-300)
    looks, right = [], log_moment.mixed_log_moments
    with monkeypatch.context() as patched:
        patched.setattr(log_moment, "mixed_log_moments", lambda *asked: looks.append(asked) or right(*asked))
        found = calibrate(mechanism, target, Accountant.RDP)
    assert 0 < len(looks) < 2000
    order = found.guarantee.order
    assert 6e8 < order < 7e8
    assert oracle.epsilon(mechanism, found.sigma, 1e-300, order, Bound.RDP, 30) <= 1e-6
    smaller = found.sigma * (1 - 1e-8)
    assert account_epsilon(mechanism, smaller, [1e-300], Accountant.RDP).guarantees[0].epsilon > 1e-6
    for other in (order * (1 + step * 1e-9) for step in range(-200, 201, 5)):
        assert oracle.epsilon(mechanism, smaller, 1e-300, other, Bound.RDP, 20) > 1e-6


@pytest.mark.parametrize("bound", [Bound.RDP, Bound.PAPER])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("sigma", [1e-9, 1e-6, 1e-3])
def test_hopeless_noise_has_a_huge_epsilon_and_a_delta_near_one(bound, adjacency, sigma):
    """The best order runs into 1; real orders stop short of it and do not fail."""
    curve = renyi_curve(Mechanism("l2-csgm", 0.3, Geometry(100.0), 10**6, adjacency), bound)
    assert best_epsilon(curve, sigma, math.log(1e-6)).value > 1e6
    best = best_log_delta(curve, sigma, 0.0)
    assert best.value > -1e-6
    assert best.order > 1


def test_boundless_noise_has_a_delta_below_any_float():
    """The search for a best order ends where delta is below 1e-300 already."""
    for sigma in (1e3, 1e9, 1e18):
        curve = renyi_curve(Mechanism("l2-csgm", 1e-4, Geometry(1000.0)), Bound.RDP)
        assert best_log_delta(curve, sigma, 1.0).value < math.log(1e-300)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_loss_beyond_reach_is_no_answer(monkeypatch, adjacency):
    """Where no log-moment can be computed there is an error, not an infinite epsilon."""
    monkeypatch.setattr(log_moment, "_TOO_LONG", 10)
    curve = renyi_curve(Mechanism("l2-csgm", 0.3, Geometry(1.0), 1, adjacency), Bound.PAPER)
    with pytest.raises(NoAnswerError) as caught:
        best_epsilon(curve, 1.0, math.log(1e-6))
    assert caught.value.slug == "out-of-reach"


def test_a_search_that_starts_beyond_a_cliff_comes_back():
    """K is 5e16 where it starts, at twice the best order; next to that no step seemed to gain anything."""
    mechanism = Mechanism("l2-csgm", 1e-9, Geometry(1e6), 2141, Adjacency.REPLACE_ONE)
    curve, sigma = renyi_curve(mechanism, Bound.RDP), 2.391194586198801e-05
    found = best_epsilon(curve, sigma, math.log(1e-300))
    assert found.value <= oracle.epsilon(mechanism, sigma, 1e-300, 9537.0925, Bound.RDP, 20) <= 0.143
