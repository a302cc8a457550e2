"""The Gaussian-matched conversion in float64 against printed values, high precision and its limits."""

import itertools
import math
import random

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.bounds.matched import matched_add, matched_log_delta, matched_remove
from csgm_cli.gaussian import log_delta
from csgm_cli.model.certificate import Direction
from csgm_cli.renyi.conversion import best_log_delta, renyi_log_delta
from csgm_cli.renyi.law import Coordinates, Law, merged_law
from csgm_cli.renyi.moment import INFINITE_MOMENT, LogMoment, gaussian_moment
from csgm_cli.renyi.orders import RenyiCurve
from csgm_cli.verify.matched import conversion, matched_delta

CONVERSIONS = {Direction.ADD: matched_add, Direction.REMOVE: matched_remove}


def precise_log_delta(direction, order, log_moment, epsilon):
    """Log of the bound in 30 digits and more."""
    spare = 40
    while True:
        with mpmath.workdps(30 + spare):
            value, lost = conversion(mpmath.mpf(log_moment), epsilon, order, direction)
            if lost + 2 <= spare:
                return mpmath.log(value)
        spare = max(int(min(lost, 3000)) + 20, 2 * spare)


def law_of(row):
    """The law of a row of matched.json."""
    gamma, ratio, noise = (float(row[name]) for name in ("gamma", "norm_ratio", "noise_multiplier"))
    k, t, rounds = ratio**2, (ratio * noise) ** -2, float(row["rounds"])
    whole = math.floor(k)
    return merged_law(
        [Coordinates(rounds * whole, gamma, t)]
        + ([Coordinates(rounds, gamma, t * (k - whole))] if k > whole else [])
    )


def moment_of(value):
    """A log-moment known to float64."""
    return LogMoment(value, 0.0, 0.0, 2.0**-50)


def exponents(order, log_moment, epsilon):
    """Size of the exponents whose rounding is covered: about d^2 and (a r - d) r."""
    r = math.sqrt(2 * log_moment / (order * (order - 1)))
    far = (epsilon + abs(math.log1p(-1 / order))) / r + r
    return 1 + far * far + r * abs(order * r - far)


def any_point(rng):
    """(order, K, epsilon) around where delta is not trivial."""
    order = 1 + 10 ** rng.uniform(-2, 7)
    v = 10 ** rng.uniform(-10, 3)
    epsilon = v / 2 + math.sqrt(v) * 10 ** rng.uniform(-1.5, 1.5)
    return order, v * order * (order - 1) / 2, epsilon


# ---------------------------------------------------------------- values


def test_printed_deltas_at_the_printed_orders(reference):
    """Every row of theorem C, from 1e-5 to 1e-40."""
    for row in reference["matched"]["theorem_C"]:
        order, direction = float(row["order"]), Direction(row["direction"])
        moment = law_of(row).log_moment(order)
        assert moment.value == pytest.approx(float(row["K_sum"]), rel=1e-12)
        found = matched_log_delta(direction, order, moment, float(row["epsilon"]))
        assert found == pytest.approx(float(row["log_delta_at_order"]), abs=1e-10)


def test_printed_deltas_at_the_best_orders(reference):
    """The least over real orders, and where it is."""
    for row in reference["matched"]["theorem_C"]:
        convert = CONVERSIONS[Direction(row["direction"])]
        found, order = best_log_delta(RenyiCurve(law_of(row)), convert, float(row["epsilon"]))
        assert found == pytest.approx(float(row["min_log_delta"]), abs=1e-10)
        assert order == pytest.approx(float(row["best_order"]), rel=1e-4)


@pytest.mark.parametrize("direction", Direction)
def test_value_is_never_below_high_precision_and_close_to_it(direction):
    """500 points: most within 1e-10 of delta, the others within what float64 leaves of their exponents."""
    rng = random.Random(17)
    close = 0
    for _ in range(500):
        order, log_moment, epsilon = any_point(rng)
        found = matched_log_delta(direction, order, moment_of(log_moment), epsilon)
        exact = precise_log_delta(direction, order, log_moment, epsilon)
        assert exact <= found, (order, log_moment, epsilon)
        assert found - exact <= 1e-9 + 4e-14 * (1 + order / 10) * exponents(order, log_moment, epsilon)
        close += found - exact <= 1e-10
    assert close >= 300


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("order", "v", "epsilon"),
    [
        (11.370250909337857, 3.3960705675739945e-12, 4.53745090834e-06),  # the order is far from the best
        (1.0000034224755365, 38.96955902183283, 60.31806409599853),
        (1.0003488754502248, 4.327405804532958e-08, 7.969592840133071),
        (1.000001708208058, 0.6498522601457564, 20.370550401943742),
    ],
)
def test_rounding_is_covered_where_terms_nearly_cancel(direction, order, v, epsilon):
    """Log delta used to be up to 3e-6 too small in the remove direction."""
    log_moment = v * order * (order - 1) / 2
    found = matched_log_delta(direction, order, LogMoment(log_moment, 0.0, 0.0, 0.0), epsilon)
    assert found >= precise_log_delta(direction, order, log_moment, epsilon)


@pytest.mark.parametrize("direction", Direction)
def test_bounds_from_coordinates_agree_with_independent_code(direction):
    """From (count, gamma, t) on: log-moments and conversion, at 40 laws."""
    rng = random.Random(5)
    for _ in range(40):
        count, gamma, t = rng.randint(1, 10**6), 10 ** rng.uniform(-6, -0.05), 10 ** rng.uniform(-6, 0)
        order, epsilon = 1 + 10 ** rng.uniform(-1, 1.8), 10 ** rng.uniform(-2, 1.3)
        law = Law((Coordinates(float(count), gamma, t),), 0.01)
        moment = law.log_moment(order)
        found = matched_log_delta(direction, order, moment, epsilon)
        with mpmath.workdps(30):
            parts = [(count, gamma, t)]
            exact = mpmath.log(matched_delta(parts, mpmath.mpf(0.01), epsilon, order, direction, 20))
            assert exact <= found
        assert found - exact <= 1e-11 + 4e-14 * exponents(order, moment.value, epsilon)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(("mu", "epsilon"), [(0.05, 0.1), (0.7, 1.5), (3.0, 0.5), (8.0, 40.0)])
def test_bound_of_a_gaussian_falls_to_its_exact_profile_with_the_order(direction, mu, epsilon):
    """The distance falls like 1/order^2 until the rounding that is added counts."""
    exact = log_delta(mu, epsilon)
    orders = (30.0, 300.0, 3e3)
    found = [matched_log_delta(direction, a, gaussian_moment(a, mu * mu), epsilon) for a in orders]
    assert found[0] > found[1] > found[2] >= exact
    assert found[2] - exact < 0.02 * (found[1] - exact) < 4e-4 * (found[0] - exact)
    far = matched_log_delta(direction, 1e8, gaussian_moment(1e8, mu * mu), epsilon)
    assert exact <= far <= exact + 1e-14 * exponents(1e8, mu * mu * 5e15, epsilon)


def test_bound_of_a_gaussian_at_its_best_order_is_its_profile():
    """As the orders are unlimited, nothing is lost where gamma is 1."""
    for mu, epsilon in ((0.05, 0.1), (0.7, 1.5), (3.0, 0.5)):
        for convert in CONVERSIONS.values():
            found, _ = best_log_delta(RenyiCurve(Law((), mu * mu)), convert, epsilon)
            assert found == pytest.approx(log_delta(mu, epsilon), abs=1e-9)


def test_bound_tends_to_the_gaussian_as_gamma_tends_to_one():
    """From below that of the Gaussian of all coordinates."""
    for epsilon, direction in itertools.product((0.3, 3.0), Direction):
        order, gaps = 20.0, []
        gaussian = matched_log_delta(direction, order, gaussian_moment(order, 0.5), epsilon)
        for missing in (1e-1, 1e-3, 1e-6):
            moment = Law((Coordinates(10.0, 1 - missing, 0.05),)).log_moment(order)
            gaps.append(gaussian - matched_log_delta(direction, order, moment, epsilon))
        assert gaps[0] > gaps[1] > gaps[2] > 0.0
        assert gaps[2] < 1e-3


# ---------------------------------------------------------------- order relations


@given(
    log_gap=st.floats(-5.0, 16.0),
    log_v=st.floats(-20.0, 8.0),
    deviations=st.floats(0.0, 30.0),
)
def test_add_bound_is_below_the_renyi_bound_at_every_order(log_gap, log_v, deviations):
    """To the rounding that is added to either."""
    order, v = 1 + math.exp(log_gap), math.exp(log_v)
    moment, epsilon = moment_of(v * order * (order - 1) / 2), v / 2 + deviations * math.sqrt(v)
    found = matched_add(order, moment, epsilon)
    with mpmath.workdps(60):
        exact = precise_log_delta(Direction.ADD, order, moment.value, epsilon)
        a = mpmath.mpf(order)
        renyi = moment.value - (a - 1) * epsilon - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)
        assert exact <= renyi + mpmath.mpf(10) ** -28 * (1 + abs(renyi))
    assert found - renyi_log_delta(order, moment, epsilon) <= float(found - exact)


@given(
    direction=st.sampled_from(list(Direction)),
    order=st.floats(-4.0, 14.0).map(lambda x: 1 + math.exp(x)),
    log_moment=st.floats(-20.0, 8.0).map(math.exp),
    epsilon=st.floats(-6.0, 4.0).map(math.exp),
    more=st.floats(1.001, 3.0),
)
def test_bound_falls_with_epsilon_and_rises_with_the_moment(direction, order, log_moment, epsilon, more):
    convert = CONVERSIONS[direction]
    here = convert(order, moment_of(log_moment), epsilon)
    room = 1e-11 + 4e-14 * exponents(order, log_moment * more, epsilon * more)
    assert convert(order, moment_of(log_moment), epsilon * more) <= here + room
    assert convert(order, moment_of(log_moment * more), epsilon) >= here - room


# ---------------------------------------------------------------- the far ends


@pytest.mark.parametrize("direction", Direction)
def test_extreme_arguments_give_numbers(direction):
    """No NaN and no warning; +infinity is no bound, and only a moment of 0 gives -infinity."""
    for order in (1 + 1e-9, 1 + 1e-6, 1.5, 2.0, 1e3, 1e9, 1e12):
        for epsilon in (0.0, 1e-6, 1.0, 1e4):
            for value in (1e-300, 1e-80, 1e-60, 1e-12, 1.0, 1e12, 1e60, 1e100, 1e300):
                found = matched_log_delta(direction, order, moment_of(value), epsilon)
                assert found > -math.inf, (order, epsilon, value)
                if 1e-60 <= value <= 1e60 and order > 2:
                    assert math.isfinite(found), (order, epsilon, value)
            assert matched_log_delta(direction, order, INFINITE_MOMENT, epsilon) == math.inf
            assert matched_log_delta(direction, order, moment_of(0.0), epsilon) == -math.inf
