"""From log-moments to (epsilon, delta): the best order is really the best."""

import math
import random

import mpmath
import pytest

from csgm_cli.bounds.matched import matched_add, matched_remove
from csgm_cli.bounds.worst_case import paper_law, worst_case_law
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.renyi import log_moment
from csgm_cli.renyi.conversion import (
    allowed_moment,
    best_epsilon,
    best_log_delta,
    log_shrink,
    renyi_log_delta,
)
from csgm_cli.renyi.law import Coordinates, Law
from csgm_cli.renyi.moment import INFINITE_MOMENT, LogMoment, gaussian_moment
from csgm_cli.renyi.orders import RenyiCurve, adjacent_integers
from csgm_cli.verify.renyi import epsilon as precise_epsilon

CONVERSIONS = [renyi_log_delta, matched_add, matched_remove]


def curve_of(mechanism, sigma, *, paper=False):
    """The curve that the accountants rdp and paper convert."""
    law = (paper_law if paper else worst_case_law)([(mechanism, sigma)])
    return RenyiCurve(law, mechanism.adjacency is Adjacency.REPLACE_ONE, integer_orders=paper)


def epsilon_at(order, moment, log_delta):
    """Equation (3) of docs/theory.md."""
    return moment / (order - 1) + log_shrink(order) - (log_delta + math.log(order)) / (order - 1)


def random_mechanism(rng, least):
    """An L2-CSGM of the promised domain with gamma from 10^least on."""
    return Mechanism(
        "l2-csgm",
        10 ** rng.uniform(least, 0),
        Geometry(10 ** rng.uniform(0, 6)),
        round(10 ** rng.uniform(0, 9)),
        rng.choice(list(Adjacency)),
    )


def random_points(count, seed, least=-9):
    """(mechanism, sigma, delta, epsilon): noise around what the target asks for."""
    rng = random.Random(seed)
    for _ in range(count):
        mechanism = random_mechanism(rng, least)
        delta, epsilon = 10 ** rng.uniform(-40, -0.1), 10 ** rng.uniform(-4, 3)
        sigma = calibrate(mechanism, Target(epsilon, delta), Accountant.RDP).sigma
        yield mechanism, sigma * 10 ** rng.uniform(-0.3, 0.3), delta, epsilon


def around(order, reach=4.0, count=81):
    """Orders on a grid that is even in log(order - 1) and contains ``order``."""
    half = count // 2
    return [1 + (order - 1) * math.exp(reach * step / half) for step in range(-half, half + 1)]


# ---------------------------------------------------------------- one order


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.7, 1e4])
@pytest.mark.parametrize("order", [1 + 1e-9, 1 + 2.0**-40, 1 + 1e-7, 1.01, 1.9, 2.0, 7.5, 1e6, 1e15])
def test_conversion_at_one_order_is_an_upper_bound_and_keeps_its_digits(order, epsilon):
    """Equation (2) in 60 digits; as the order tends to 1 its value and error vanish."""
    moment = gaussian_moment(order, 0.3)
    found = renyi_log_delta(order, moment, epsilon)
    with mpmath.workdps(60):
        a = mpmath.mpf(order)
        value = mpmath.mpf(0.3) / 2 * a * (a - 1)
        cost = (a - 1) * mpmath.mpf(epsilon)
        exact = value - cost - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)
        terms = value + cost + (abs((a - 1) * mpmath.log(a - 1)) if a < 2 else mpmath.log(a))
        assert 0 <= found - exact <= 4e-15 * terms


@pytest.mark.parametrize("order", [1 + 2.0**-40, 1.5, 2.0, 2.5, 1e9])
def test_log_shrink(order):
    """log(1 - 1/a) for orders near 1 and huge ones."""
    with mpmath.workdps(40):
        assert log_shrink(order) == pytest.approx(float(mpmath.log(1 - 1 / mpmath.mpf(order))), rel=4e-16)


def test_infinite_moments_convert_to_no_bound():
    """Never NaN."""
    assert renyi_log_delta(3.0, INFINITE_MOMENT, 1.0) == math.inf


@pytest.mark.parametrize("convert", CONVERSIONS)
@pytest.mark.parametrize(("order", "epsilon"), [(1.001, 0.5), (2.7, 1e-3), (40.0, 5.0), (1e4, 0.01)])
def test_allowed_moment_is_the_largest_that_meets_delta(convert, order, epsilon):
    """And is 0 where even the least moment does not, that is above the order's limit for K -> 0."""
    for log_delta in (-30.0, -200.0):
        allowed = allowed_moment(order, convert, epsilon, log_delta)
        if allowed > 0.0:
            more = [LogMoment(factor * allowed, 0.0, 0.0, 2.0**-50) for factor in (1.0, 1 + 3e-13)]
            meets, misses = (convert(order, moment, epsilon) for moment in more)
            assert meets <= log_delta < misses
        else:
            least = LogMoment(math.exp(-60.0), 0.0, 0.0, 2.0**-50)
            assert convert(order, least, epsilon) > log_delta


# ---------------------------------------------------------------- one stationary order


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("gamma", "ratio", "sigma"), [(0.01, 1.0, 0.7), (0.01, 30.3, 0.05), (0.4, 2.0, 3.0)])
def test_epsilon_and_delta_fall_and_then_rise_with_the_order(gamma, ratio, sigma, adjacency):
    """(a-1)^2 d eps/da and d log delta/da are increasing in the order, so each has one stationary point."""
    curve = curve_of(Mechanism("l2-csgm", gamma, Geometry(ratio), 3, adjacency), sigma)
    orders = [1 + 10 ** (step / 40) for step in range(-120, 80)]
    moments = [curve.moment(order) for order in orders]
    known = [(a, m) for a, m in zip(orders, moments, strict=True) if m.value < 1e12]
    assert len(known) > 120
    for_epsilon = [(a - 1) * m.d_order - m.value + math.log(a) for a, m in known]
    for_delta = [m.d_order + log_shrink(a) for a, m in known]
    for slopes in (for_epsilon, for_delta):
        assert slopes == sorted(slopes)
    for log_delta in (math.log(0.9), -11.5, -300.0):
        values = [epsilon_at(a, m.value, log_delta) for a, m in known]
        lowest = values.index(min(values))
        assert values[:lowest] == sorted(values[:lowest], reverse=True)
        assert values[lowest:] == sorted(values[lowest:])


# ---------------------------------------------------------------- the best order


@pytest.mark.parametrize("kind", ["rdp", "paper", "replace_one"])
def test_printed_noise_gives_the_printed_epsilon(reference, kind):
    """Epsilon and delta of every recorded sigma; the rdp order is recorded to about 1e-8."""
    for row in reference["accounting"][kind]:
        adjacency = Adjacency.REPLACE_ONE if kind == "replace_one" else Adjacency.ADD_REMOVE
        ratio = math.sqrt(row["k"])
        mechanism = Mechanism("l2-csgm", row["gamma"], Geometry(ratio), row["rounds"], adjacency)
        sigma = row.get("noise_multiplier", row["effective"] * row["gamma"])
        curve = curve_of(mechanism, sigma, paper=kind == "paper")
        epsilon, order = best_epsilon(curve, renyi_log_delta, math.log(row["delta"]))
        assert epsilon == pytest.approx(row["epsilon"], rel=1e-10)
        log_delta, same = best_log_delta(curve, renyi_log_delta, row["epsilon"])
        assert log_delta == pytest.approx(math.log(row["delta"]), rel=1e-10)
        if "order" in row:
            assert order == pytest.approx(row["order"], rel=1e-5)
            assert same == pytest.approx(row["order"], rel=1e-5)


def test_no_order_of_a_fine_grid_has_a_smaller_epsilon():
    """30 mechanisms, 81 orders from e^-4 to e^4 times the distance to 1."""
    for mechanism, sigma, delta, _ in random_points(30, seed=11):
        curve, log_delta = curve_of(mechanism, sigma), math.log(delta)
        best, at = best_epsilon(curve, renyi_log_delta, log_delta)
        scale = curve.moment(at).value / (at - 1) + best
        for order in around(at):
            value = epsilon_at(order, curve.moment(order).value, log_delta)
            assert best <= max(value, 0.0) + 1e-12 * scale, (mechanism, sigma, delta, order)


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_epsilon_and_delta_are_each_others_inverse(convert):
    """The epsilon found at delta has that delta, to the rounding of (a - 1) epsilon and of K."""
    positive = 0
    for mechanism, sigma, delta, _ in random_points(12, seed=13, least=-3):
        curve, log_delta = RenyiCurve(worst_case_law([(mechanism, sigma)])), math.log(delta)
        epsilon, order = best_epsilon(curve, convert, log_delta)
        found, _ = best_log_delta(curve, convert, epsilon)
        room = 1e-13 * (1 + abs(log_delta) + (order - 1) * epsilon)
        assert found <= log_delta + room, (mechanism, sigma, delta)
        if epsilon > 0.0:
            assert found >= log_delta - 10 * room, (mechanism, sigma, delta)
            positive += 1
    assert positive >= 6


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
        curve = curve_of(mechanism, sigma, paper=True)
        found, order = best_epsilon(curve, renyi_log_delta, math.log(delta))
        orders = [float(order) for order in range(2, 401)]
        values = [epsilon_at(order, curve.moment(order).value, math.log(delta)) for order in orders]
        assert order == orders[values.index(min(values))]
        assert found == pytest.approx(min(values), rel=1e-12)
        inside += 2 < order < 400
    assert inside >= 3


def test_integers_adjacent_to_an_order():
    assert adjacent_integers(1.2) == [2.0]
    assert adjacent_integers(7.0) == [7.0]
    assert adjacent_integers(7.3) == [7.0, 8.0]


def test_a_known_order_does_not_change_the_best_delta():
    """From any order, near or far, on either side."""
    curve = curve_of(Mechanism("l2-csgm", 0.01, Geometry(156.25)), 0.02)
    cold, at = best_log_delta(curve, renyi_log_delta, 5.0)
    for start in (1 + 1e-8, 1.5, at, 100.0, 1e5):
        warm, _ = best_log_delta(curve, renyi_log_delta, 5.0, start)
        assert warm == pytest.approx(cold, rel=1e-11)


def test_a_known_order_beyond_orders_out_of_reach_does_not_change_the_best_delta():
    """From 2e9 down to 2000 there are orders at which no moment can be computed."""
    mechanism = Mechanism("l2-csgm", 9.677569105444054e-08, Geometry(2.936878348121035), 291, "replace-one")
    curve = curve_of(mechanism, 4.03)
    assert math.isinf(curve.moment(4e8).value)
    cold, _ = best_log_delta(curve, renyi_log_delta, 0.0257)
    assert cold < -66.0
    assert best_log_delta(curve, renyi_log_delta, 0.0257, 2e9)[0] == pytest.approx(cold, rel=1e-9)


def test_best_delta_is_below_that_of_every_order_near_and_far():
    """20 mechanisms, orders from 1 + 1e-8 to 1e14 and a fine grid around the best; above 1 delta is 1."""
    for mechanism, sigma, _, epsilon in random_points(20, seed=15):
        curve = curve_of(mechanism, sigma)
        best, at = best_log_delta(curve, renyi_log_delta, epsilon)
        for order in [*around(at), *(1 + 10 ** (step / 2) for step in range(-16, 29))]:
            value = renyi_log_delta(order, curve.moment(order), epsilon)
            assert min(best, 0.0) <= value + 1e-12 * (1 + abs(value)), (mechanism, sigma, epsilon, order)


# ---------------------------------------------------------------- the far ends


def test_orders_of_a_billion_are_found(monkeypatch):
    """gamma 1e-9, one coordinate, epsilon 1e-6, delta 1e-300: order 7e8, minimal, after some 1000 moments."""
    mechanism, target = Mechanism("l2-csgm", 1e-9, Geometry(1.0)), Target(1e-6, 1e-300)
    looks, right = [], log_moment.mixed_log_moments
    with monkeypatch.context() as patched:
        patched.setattr(log_moment, "mixed_log_moments", lambda *asked: looks.append(asked) or right(*asked))
        found = calibrate(mechanism, target, Accountant.RDP)
    assert 0 < len(looks) < 4000
    order = found.guarantee.order
    assert 6e8 < order < 7e8
    releases, smaller = [(mechanism, found.sigma)], found.sigma * (1 - 1e-8)
    assert precise_epsilon(releases, 1e-300, order, Bound.RDP, 30) <= 1e-6
    assert account_epsilon(mechanism, smaller, [1e-300], Accountant.RDP).guarantees[0].epsilon > 1e-6
    for other in (order * (1 + step * 1e-9) for step in range(-200, 201, 50)):
        assert precise_epsilon([(mechanism, smaller)], 1e-300, other, Bound.RDP, 20) > 1e-6


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("sigma", [1e-9, 1e-6, 1e-3])
def test_hopeless_noise_has_a_huge_epsilon_and_a_delta_near_one(paper, adjacency, sigma):
    """The best order runs into 1; real orders stop short of it and do not fail."""
    curve = curve_of(Mechanism("l2-csgm", 0.3, Geometry(100.0), 10**6, adjacency), sigma, paper=paper)
    assert best_epsilon(curve, renyi_log_delta, math.log(1e-6))[0] > 1e6
    log_delta, order = best_log_delta(curve, renyi_log_delta, 0.0)
    assert log_delta > -1e-6
    assert order > 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_moments_out_of_reach_give_no_epsilon(monkeypatch, adjacency):
    """Where no log-moment can be computed epsilon is infinite, for the caller to refuse."""
    monkeypatch.setattr(log_moment, "_TOO_LONG", 10)
    curve = curve_of(Mechanism("l2-csgm", 0.3, Geometry(1.0), 1, adjacency), 1.0)
    assert best_epsilon(curve, renyi_log_delta, math.log(1e-6))[0] == math.inf


def test_a_search_that_starts_where_the_moment_explodes_comes_back():
    """K is 5e16 at twice the best order; next to that no step seemed to gain anything."""
    mechanism = Mechanism("l2-csgm", 1e-9, Geometry(1e6), 2141, Adjacency.REPLACE_ONE)
    sigma = 2.391194586198801e-05
    found, _ = best_epsilon(curve_of(mechanism, sigma), renyi_log_delta, math.log(1e-300))
    precise = precise_epsilon([(mechanism, sigma)], 1e-300, 9537.0925, Bound.RDP, 20)
    assert found <= float(precise) * (1 + 1e-9) <= 0.143


def test_single_mask_bits_show_at_the_best_order_from_the_first_guess():
    """A Gaussian part beside one rare coordinate: no order of a grid from 1 + 1e-6 to 1e8 is better."""
    law = Law((Coordinates(1.0, 1e-4, 4.0),), 1e-4)
    best, _ = best_log_delta(RenyiCurve(law), renyi_log_delta, 0.3)
    for step in range(-60, 81):
        order = 1 + 10 ** (step / 10)
        assert best <= renyi_log_delta(order, law.log_moment(order), 0.3) + 1e-9
