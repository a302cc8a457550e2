"""The brackets for rare mask bits against closed forms, brute force, other accountants and theorems."""

import itertools
import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from csgm_cli.core import gaussian
from csgm_cli.core.cones import lattice, touching
from csgm_cli.core.contour import Direction, Law
from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.loss_event import add_event
from csgm_cli.core.loss_far import Chernoff
from csgm_cli.core.loss_grid import Bracket, _parts_of, cell, grid_convex, grid_hockey_stick
from csgm_cli.core.loss_nodes import Nodes, TooManyNodesError
from csgm_cli.core.single_round import single_round
from csgm_cli.core.sliced_law import Coordinates

ADD, REMOVE = Direction.ADD, Direction.REMOVE
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(20)


def law_of(gamma, rounds, s):
    """That many rounds of one coordinate."""
    return Law(gamma, ((float(rounds), s * s),))


def one_round(gamma, s, direction, epsilon):
    """The hockey-stick of one coordinate-round in 60 digits, from its two crossing tails."""
    with mpmath.workdps(60):
        gamma, s, epsilon = mpmath.mpf(gamma), mpmath.mpf(s), mpmath.mpf(epsilon)
        sign = 1 if direction is ADD else -1
        m0 = (mpmath.exp(sign * epsilon) - 1 + gamma) / gamma
        if m0 <= 0:
            return mpmath.mpf(0) if direction is REMOVE else 1 - mpmath.exp(epsilon)
        x0 = (mpmath.log(m0) + s * s / 2) / s
        if direction is ADD:
            return gamma * (mpmath.ncdf(s - x0) - m0 * mpmath.ncdf(-x0))
        return mpmath.exp(epsilon) * gamma * (m0 * mpmath.ncdf(x0) - mpmath.ncdf(x0 - s))


SINGLE = [
    (ADD, 1e-9, 1e-6, 2e-15), (ADD, 1e-9, 1e-6, 3e-14), (ADD, 1e-9, 0.5, 1e-6), (ADD, 1e-9, 8.0, 1.0),
    (ADD, 1e-9, 50.0, 1000.0), (ADD, 1e-6, 1.0, 5.0), (ADD, 1e-4, 0.3, 0.1), (ADD, 1e-4, 0.3, 1.5),
    (ADD, 0.01, 1.0, 0.5), (ADD, 0.01, 30.0, 700.0), (ADD, 0.3, 1e-6, 5e-6), (ADD, 0.5, 2.0, 0.0),
    (ADD, 0.9, 50.0, 1e-3), (ADD, 1.0, 1.0, 20.0), (ADD, 1.0, 1e-6, 1e-6), (REMOVE, 1e-9, 1e-6, 2e-15),
    (REMOVE, 0.01, 1.0, 0.005), (REMOVE, 0.01, 50.0, 0.01), (REMOVE, 0.3, 1e-6, 5e-6),
    (REMOVE, 0.5, 2.0, 0.0), (REMOVE, 0.5, 0.1, 0.4), (REMOVE, 0.9, 0.5, 2.0),
    (REMOVE, 1.0, 1.0, 20.0), (REMOVE, 1.0, 30.0, 3.0),
]  # fmt: skip


def test_single_round_next_to_no_noise():
    """Epsilon is s^2/2 + log gamma and more; numbers of 1e19 cancel in the formula as it stands."""
    gamma, s = 1e-9, 5e9
    for epsilon in (s * s / 2 - 5 * s, s * s / 2, s * (s / 2 + 3)):  # ulps of epsilon move delta by 1e-6
        exact = float(one_round(gamma, s, ADD, epsilon))
        assert exact > 1e-13
        assert single_round(gamma, s * s, ADD, epsilon) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("direction", "gamma", "s", "epsilon"), SINGLE)
def test_single_round(direction, gamma, s, epsilon):
    """The closed form keeps 1e-12 relative accuracy down to 1e-300, and the bracket contains the truth."""
    exact = float(one_round(gamma, s, direction, epsilon))
    assert exact > 1e-300
    assert single_round(gamma, s * s, direction, epsilon) == pytest.approx(exact, rel=1e-12)
    bracket = grid_hockey_stick(law_of(gamma, 1, s), direction, epsilon)
    assert bracket.lower <= exact <= bracket.upper <= exact * (1 + 1e-10)


@pytest.mark.parametrize(("direction", "gamma", "s", "epsilon"), [
    (ADD, 1e-6, 2.0, 1.0), (ADD, 1e-4, 0.3, 0.1), (ADD, 0.01, 1.0, 0.5), (ADD, 0.01, 30.0, 5.0),
    (ADD, 0.5, 0.2, 0.3), (REMOVE, 0.01, 1.0, 0.005), (REMOVE, 0.5, 2.0, 0.1), (REMOVE, 0.9, 0.5, 1.0),
])  # fmt: skip
def test_general_method_on_one_round(direction, gamma, s, epsilon):
    """Beside a second coordinate that is all but invisible the general method brackets the closed form."""
    exact = float(one_round(gamma, s, direction, epsilon))
    bracket = grid_hockey_stick(Law(gamma, ((1.0, s * s), (1.0, 1e-20))), direction, epsilon)
    assert bracket.lower * (1 - 1e-7) <= exact <= bracket.upper * (1 + 1e-7)
    assert bracket.upper <= bracket.lower * (1 + 5e-3)


def stick(k, gamma, s, direction):
    """E_Q[(Y - k)_+] or E_Q[(k - Y)_+] of one coordinate-round for an array of k, by scaled Mills ratios."""
    m0 = (np.minimum(k, 1e300) - 1 + gamma) / gamma
    positive = m0 > 0
    m0 = np.where(positive, m0, 1.0)
    x0 = (np.log(m0) + s * s / 2) / s

    def mills(u):
        return math.sqrt(math.pi / 2) * special.erfcx(u / math.sqrt(2))

    density = gamma * m0 * np.exp(-x0 * x0 / 2) / math.sqrt(2 * math.pi)
    with np.errstate(all="ignore"):
        if direction is ADD:
            near = gamma * (special.ndtr(s - x0) - m0 * special.ndtr(-x0))
            return np.where(positive, np.where(x0 > 2, density * (mills(x0 - s) - mills(x0)), near), 1 - k)
        near = gamma * (m0 * special.ndtr(x0) - special.ndtr(x0 - s))
        return np.where(positive, np.where(x0 < 0, density * (mills(-x0) - mills(s - x0)), near), 0.0)


def nodes(kink, gamma, s):
    """Y and its P-masses on panels that shrink towards the place where Y = kink/(1 - gamma)."""
    edges = np.linspace(-39.0, s + 39.0, int(60 + 12 * s))
    m0 = (min(kink / (1 - gamma), 1e290) - 1 + gamma) / gamma
    if m0 > 0:
        steps = np.geomspace(1e-11, 3.0, 60)
        at = (math.log(m0) + s * s / 2) / s
        edges = np.unique(np.clip(np.concatenate([edges, at + steps, at - steps, [at]]), edges[0], edges[-1]))
    half = np.diff(edges)[:, None] / 2
    x, weight = (edges[:-1, None] + half + half * POINTS).ravel(), (half * WEIGHTS).ravel()
    y = 1 - gamma + gamma * np.exp(np.minimum(x * s - s * s / 2, 690.0))
    bells = (1 - gamma) * np.exp(-x * x / 2) + gamma * np.exp(-((x - s) ** 2) / 2)
    return y, weight * bells / math.sqrt(2 * math.pi)


def brute_force(gamma, rounds, s, direction, epsilon, last=None):
    """Two or three rounds by nested quadrature: E_Q[(Y_1 ... - k)_+] = E_P1[E_Q[(Y_2 ... - k/Y_1)_+]].

    The last one has s = ``last``, where that is given.
    """
    last = last or s
    k = math.exp(epsilon if direction is ADD else -epsilon)
    total = 0.0
    outer = [(1.0, 1.0)] if rounds == 2 else zip(*nodes(k / (1 - gamma), gamma, s), strict=True)
    for y1, p1 in outer:
        if p1 > 1e-310:
            y, p = nodes(k / y1, gamma, s)
            total += p1 * float((p * stick(np.minimum(k / y1 / y, 1e300), gamma, last, direction)).sum())
    return total if direction is ADD else total / k


@pytest.mark.parametrize(("direction", "gamma", "rounds", "s", "epsilon"), [
    (ADD, 1e-6, 2, 1.0, 0.1), (ADD, 1e-6, 2, 5.0, 1.0), (ADD, 1e-4, 2, 0.3, 0.1), (ADD, 1e-4, 2, 1.0, 5.0),
    (ADD, 0.01, 2, 0.3, 0.5), (ADD, 0.01, 2, 5.0, 5.0), (ADD, 0.05, 2, 2.0, 1.0),
    (ADD, 0.256, 2, 0.0615, 0.0119), (ADD, 0.946, 2, 0.119, 0.0176), (ADD, 0.2, 2, 12.0, 0.0),
    (ADD, 1e-3, 3, 2.0, 0.7), (ADD, 0.08, 3, 0.5, 1.0), (REMOVE, 0.01, 2, 1.0, 0.01),
    (REMOVE, 0.1, 2, 5.0, 0.1), (REMOVE, 0.5, 2, 0.1, 0.3), (REMOVE, 0.9, 2, 1.5, 4.0),
    (REMOVE, 0.3, 3, 0.7, 0.9), (REMOVE, 0.3, 3, 12.0, 1.0),
])  # fmt: skip
def test_two_and_three_rounds_by_brute_force(direction, gamma, rounds, s, epsilon):
    """The bracket contains what nested quadrature gives, and is narrow: as good as exact for add."""
    exact = brute_force(gamma, rounds, s, direction, epsilon)
    bracket = grid_hockey_stick(law_of(gamma, rounds, s), direction, epsilon)
    assert bracket.lower * (1 - 1e-9) <= exact <= bracket.upper * (1 + 1e-9)
    assert bracket.upper <= bracket.lower * (1 + (3e-8 if direction is ADD else 2e-5))


@pytest.mark.parametrize(("gamma", "rounds", "s", "epsilon", "recorded", "rel"), [
    (0.01, 300, 1.0, 1.0, 1.971908e-5, 3e-7), (0.05, 8, 1.0, 1.0, 1.9413e-4, 3e-5),
])  # fmt: skip
def test_recorded_corner_cases(gamma, rounds, s, epsilon, recorded, rel):
    """Where a fixed recipe for the contour was off by 4 %."""
    bracket = grid_hockey_stick(law_of(gamma, rounds, s), ADD, epsilon)
    assert bracket.lower * (1 - rel) <= recorded <= bracket.upper * (1 + rel)
    assert bracket.upper <= bracket.lower * (1 + 2e-5)


@pytest.mark.parametrize(("gamma", "rounds", "s", "epsilon"), [(0.01, 100, 1.0, 0.5), (0.05, 20, 2.0, 1.0)])
def test_dp_accounting_brackets_overlap(gamma, rounds, s, epsilon):
    """The pessimistic and optimistic loss distributions of dp-accounting enclose ours, both directions."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    for pessimistic in (True, False):
        losses = pld.from_gaussian_mechanism(
            1 / s,
            sampling_prob=gamma,
            value_discretization_interval=1e-4,
            pessimistic_estimate=pessimistic,
        ).self_compose(rounds)
        theirs = losses.get_delta_for_epsilon(epsilon)
        ours = [grid_hockey_stick(law_of(gamma, rounds, s), direction, epsilon) for direction in Direction]
        if pessimistic:
            assert max(bracket.lower for bracket in ours) <= theirs
        else:
            assert max(bracket.upper for bracket in ours) >= theirs


@pytest.mark.parametrize("gamma", [1e-6, 1e-3, 0.2])
@pytest.mark.parametrize("rounds", [2, 50, 10_000])
def test_noise_so_small_that_masks_show(gamma, rounds):
    """At s = 30 losses tell which coordinates were sent: delta is that of the masks alone."""
    log_nothing = rounds * math.log1p(-gamma)
    for epsilon in (1e-3, 1.0, 5.0):
        add = grid_hockey_stick(law_of(gamma, rounds, 30.0), ADD, epsilon)
        something = -math.expm1(log_nothing)
        assert add.lower <= something <= add.upper <= something * (1 + 1e-8)
        remove = grid_hockey_stick(law_of(gamma, rounds, 30.0), REMOVE, epsilon)
        expected = max(0.0, -math.expm1(epsilon + log_nothing))
        assert remove.lower <= expected * (1 + 1e-12) + 1e-15
        assert expected <= remove.upper * (1 + 1e-12) + 1e-15
        assert remove.upper <= remove.lower * (1 + 1e-5) + 1e-15


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("gamma", [1.0, 1 - 1e-12])
@pytest.mark.parametrize(
    ("rounds", "s", "epsilon"), [(2, 0.2, 1.0), (4, 1.0, 8.0), (100, 0.1, 3.0), (3, 5.0, 20.0)]
)
def test_everything_sent_is_the_gaussian_mechanism(direction, gamma, rounds, s, epsilon):
    """As gamma goes to 1."""
    exact = math.exp(gaussian.log_delta(s * math.sqrt(rounds), epsilon))
    bracket = grid_hockey_stick(law_of(gamma, rounds, s), direction, epsilon)
    assert bracket.lower * (1 - 1e-10) <= exact <= bracket.upper * (1 + 1e-10)
    assert bracket.upper <= bracket.lower * (1 + 1e-4)


def test_remove_is_zero_beyond_the_lowest_loss():
    """Delta is exactly 0 from eps = -M log(1 - gamma) on, and only from there."""
    law = law_of(0.01, 10, 1.0)
    lowest = -10 * math.log1p(-0.01)
    assert grid_hockey_stick(law, REMOVE, lowest * (1 + 1e-9)) == Bracket(0.0, 0.0)
    below = grid_hockey_stick(law, REMOVE, 0.9 * lowest)
    assert 0.0 < below.lower < below.upper < below.lower * (1 + 1e-4)


@pytest.mark.parametrize(("rounds", "gap"), [(1, 1e-3), (1, 1e-8), (1, 1e-12), (3, 1e-2), (3, 1e-3)])
def test_remove_close_to_the_lowest_loss(rounds, gap):
    """Just below it, where epsilon has few digits left to say how close, a bracket is wider, not wrong."""
    epsilon = -rounds * math.log1p(-0.3) * (1 - gap)
    with mpmath.workdps(50):  # at s = 20 all losses are the lowest but for 1e-13
        exact = 1 - (1 - mpmath.mpf(0.3)) ** rounds * mpmath.exp(mpmath.mpf(epsilon))
    bracket = grid_hockey_stick(law_of(0.3, rounds, 20.0), REMOVE, epsilon)
    assert bracket.lower * (1 - 1e-10) <= exact <= bracket.upper * (1 + 1e-10)
    assert bracket.upper < bracket.lower * (1 + 1e-2)


def bracket_in_little_memory(law, direction, epsilon):
    """The bracket, from less than 200 MB."""
    tracemalloc.start()
    try:
        bracket = grid_hockey_stick(law, direction, epsilon)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    return bracket


@pytest.mark.parametrize(("gamma", "counts", "epsilon"), [
    (3e-7, (5, 5), 1.8e-6), (1.4e-7, (5, 5), 1.176e-6), (3e-7, (20, 5), 0.0), (1e-3, (4, 1), 2e-3),
    (0.01, (15, 5), 0.2010067), (1e-3, (6, 2), 0.008004002), (3e-7, (20, 5), 7.500001e-6),
])  # fmt: skip
def test_remove_where_masks_show_beside_a_smaller_coordinate(gamma, counts, epsilon):
    """All but 1e-25 of the Q-mass is at the lowest loss, and the parts' losses begin to rise far apart.

    Also where epsilon is within 1e-6 of the lowest loss.
    """
    law = Law(gamma, tuple(zip(map(float, counts), (1228.1, 465.4), strict=True)))
    bracket = bracket_in_little_memory(law, REMOVE, epsilon)
    exact = -math.expm1(epsilon + sum(counts) * math.log1p(-gamma))
    rounding = 1e-15 * epsilon / exact + 1e-9
    assert bracket.lower * (1 - rounding) <= exact <= bracket.upper * (1 + rounding)
    assert bracket.upper <= bracket.lower * (1 + 2e-5)


@pytest.mark.parametrize(("gamma", "s", "last", "epsilon"), [
    (5.75e-9, 18.86, 9.712, 0.0), (1e-6, 40.0, 8.0, 1e-6), (1e-4, 45.0, 10.0, 1e-4), (0.02, 24.4, 8.35, 0.01),
])  # fmt: skip
def test_remove_of_two_unlike_coordinates_by_brute_force(gamma, s, last, epsilon):
    """Each coordinate's losses end where they are damped out, however far from the other's."""
    exact = brute_force(gamma, 2, s, REMOVE, epsilon, last)
    bracket = bracket_in_little_memory(Law(gamma, ((1.0, s * s), (1.0, last * last))), REMOVE, epsilon)
    rounding = 1e-14 / exact
    assert bracket.lower * (1 - rounding) <= exact <= bracket.upper * (1 + rounding)
    assert bracket.upper <= bracket.lower * (1 + 2e-5)


def test_what_takes_too_many_nodes_is_unknown():
    """Two orders for each of so many nodes would not fit, and a bracket from them is none."""
    part = Coordinates(1.0, 1e-4, 20.0)
    with pytest.raises(TooManyNodesError):
        part.nodes(-13.5, 30.0, 1e8)
    many = np.zeros(3_000_000)
    with pytest.raises(TooManyNodesError):
        Nodes(many, many, many).exponents(np.arange(4.0))
    law = Law(4.7e-41, ((2.0, 224805.7), (1.0, 57.566)))
    assert bracket_in_little_memory(law, ADD, 0.0) is None


def test_no_cone_where_means_overflow():
    """Far beyond every epsilon that matters nothing is known, and nothing fails."""
    with np.errstate(all="ignore"):
        assert grid_add_cone(Law(1.2092519e-3, ((20194.0, 1101.4462629904867),)), 1561.4117, 0.0) is None


def test_no_bracket_where_epsilon_cannot_tell_which_side_it_is_on():
    """Within rounding of the lowest loss there is no answer rather than 0."""
    assert grid_hockey_stick(law_of(0.3, 3, 20.0), REMOVE, -3 * math.log1p(-0.3)) is None


def test_too_small_to_tell_from_zero():
    """Deltas below 1e-303 are said to be below 1e-303, which is less than any delta that can be asked for."""
    for law, direction, epsilon in (
        (law_of(1e-6, 100, 0.3), ADD, 5.0),
        (law_of(1e-4, 10_000, 1.0), REMOVE, 1.0),
    ):
        bracket = grid_hockey_stick(law, direction, epsilon)
        assert (bracket.lower, bracket.upper) == (0.0, 1e-303)


LAWS = st.builds(
    lambda log_gamma, rounds, log_s: law_of(10**log_gamma, rounds, 10**log_s),
    st.floats(-7, -0.1),
    st.integers(2, 3000),
    st.floats(-1, 1.3),
)


@settings(max_examples=25, deadline=None)
@given(LAWS, st.sampled_from(Direction), st.floats(0.05, 4.0), st.floats(1.01, 1.5))
def test_brackets_are_ordered_and_decrease_in_epsilon(law, direction, epsilon, factor):
    """lower <= upper; delta and its convexity in e^eps, as far as brackets can tell."""
    strikes = [math.exp(epsilon), math.exp(epsilon * factor)]
    strikes.insert(1, sum(strikes) / 2)
    brackets = [grid_hockey_stick(law, direction, math.log(k)) for k in strikes]
    if None in brackets:
        return
    for bracket in brackets:
        assert 0.0 <= bracket.lower <= bracket.upper <= 1.0
        assert bracket.upper <= max(2 * bracket.lower, 1e-299)
    assert brackets[0].upper >= brackets[1].lower
    assert brackets[1].upper >= brackets[2].lower
    if direction is ADD:
        assert brackets[1].lower <= (brackets[0].upper + brackets[2].upper) / 2


@settings(max_examples=25, deadline=None)
@given(LAWS, st.sampled_from(Direction), st.floats(0.05, 4.0))
def test_more_rounds_cost_more(law, direction, epsilon):
    """Adding a round, or dropping all but one, cannot contradict the data-processing inequality."""
    ((rounds, t),) = law.parts
    some = grid_hockey_stick(law, direction, epsilon)
    more = grid_hockey_stick(Law(law.gamma, ((rounds, t), (1.0, t / 2))), direction, epsilon)
    if some is not None:
        assert some.upper >= single_round(law.gamma, t, direction, epsilon) * (1 - 1e-11)
        if more is not None:
            assert some.lower <= more.upper


@pytest.mark.parametrize("width", [1e-3, 0.1, 0.5, 1.0])
def test_the_blur_is_undone_safely(width):
    """The inequality between the two blurs, G_2v >= sqrt 2 e^(-v/8) G_v, at all strikes."""

    def time_value(log_moneyness, total):
        with mpmath.workdps(60):
            d = log_moneyness / total + total / 2
            call = mpmath.ncdf(d) - mpmath.exp(-log_moneyness) * mpmath.ncdf(d - total)
            return call - max(mpmath.mpf(0), 1 - mpmath.exp(-log_moneyness))

    width = mpmath.mpf(width)
    for x in mpmath.linspace(-8, 8, 65):
        wide, narrow = (time_value(x * width, total) for total in (mpmath.sqrt(2) * width, width))
        assert wide >= mpmath.sqrt(2) * mpmath.exp(-(width**2) / 8) * narrow * (1 - mpmath.mpf(10) ** -20)


def test_chernoff_bounds_hold_for_a_known_law():
    """For a lognormal: its hockey-stick, and y log(y/v) - y + v, stay below; not by more than a factor 20."""
    mu, strike = 0.7, 3.0
    shifts = np.geomspace(0.05, 50.0, 60)
    bounds = Chernoff(shifts, shifts * (shifts + 1) * mu**2 / 2)
    stick = math.exp(gaussian.log_delta(mu, strike))
    assert 1.0 < math.exp(bounds.log_bound(strike)) / stick < 20.0
    tail = sum(math.exp(gaussian.log_delta(mu, strike + 0.001 * (i + 0.5))) for i in range(5000)) * 0.001
    assert 1.0 < math.exp(bounds.log_mixture_bound(strike)) / tail < 20.0


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 20.0, 100.0])
def test_round_epsilons_are_well_inside_a_cell(epsilon):
    """So that searches around them see smooth bounds; a cell is 2^(1/64) wide, about its middle."""
    middle, inside = cell(epsilon)
    assert inside
    assert abs(math.log2(epsilon / middle)) < 0.5 / 64
    assert cell(epsilon * (1 + 1e-9))[0] == middle


def test_no_cell_is_shared_next_to_epsilon_zero():
    """There each epsilon has cuts of its own."""
    for epsilon in (0.0, 1e-12, 9e-8):
        assert cell(epsilon) == (epsilon, False)


SHARED = [(law_of(0.01, 5, 1.0), 0.5), (law_of(1e-3, 40, 1.7), 3.0), (law_of(1e-5, 1000, 1.2), 1.0)]


@pytest.mark.parametrize(("law", "epsilon"), SHARED)
def test_bounds_are_smooth_inside_a_cell(law, epsilon):
    """Along 1e-7 of epsilon all bounds are straight, but for a curvature of 1e-11 and what they say of it."""
    steps = np.linspace(-1.0, 1.0, 11)
    brackets = [grid_hockey_stick(law, ADD, epsilon * (1 + 1e-7 * x)) for x in steps.tolist()]
    cones = [grid_add_cone(law, epsilon * (1 + 1e-7 * x), 0.0) for x in steps.tolist()]
    for values, wobble in (
        ([b.upper for b in brackets], brackets[0].wobble),
        ([c.value for c in cones], cones[0].wobble),
    ):
        logs = np.log(values)
        off = logs - np.polyval(np.polyfit(steps, logs, 1), steps)
        assert wobble < 1e-10
        assert np.abs(off).max() < wobble + 1e-11


@pytest.mark.parametrize(("law", "epsilon"), SHARED)
def test_what_is_shared_serves_a_whole_cell(law, epsilon):
    """At both ends of a cell the bracket overlaps with one made for that epsilon, and is no wider."""
    middle, _ = cell(epsilon)
    parts = _parts_of(law)
    for end in (middle * 2 ** (-0.499 / 64), middle * 2 ** (0.499 / 64)):
        shared, own = grid_hockey_stick(law, ADD, end), add_event(parts, end).bracket(end)
        assert max(shared.lower, own.lower) <= min(shared.upper, own.upper)
        assert shared.upper <= shared.lower * (1 + 2e-5)


def mixture_of(sticks, log_v, end):
    """int_log_v^inf of a hockey-stick over eps, which is E_Q[Y log(Y/v) - Y + v; Y >= v]."""
    edges = log_v + np.concatenate([[0.0], np.geomspace(3e-3, end, 18)])
    half = np.diff(edges)[:, None] / 2
    at, weight = (edges[:-1, None] + half + half * POINTS).ravel(), (half * WEIGHTS).ravel()
    return sum(w * sticks(x) for x, w in zip(at.tolist(), weight.tolist(), strict=True))


@pytest.mark.parametrize(("gamma", "rounds", "s", "log_v", "end"), [
    (1e-4, 1, 0.5, 0.2, 3.0), (0.01, 1, 3.0, 1.0, 60.0), (1e-4, 2, 1.0, 0.3, 20.0), (0.05, 2, 2.0, 0.8, 30.0),
    (0.05, 1, 1.0, -0.2, 20.0), (0.2, 2, 2.0, -1.0, 30.0),
])  # fmt: skip
def test_convex_bound_is_above_the_truth_and_close(gamma, rounds, s, log_v, end):
    """Against the integral of independent hockey-sticks over strikes."""

    def sticks(epsilon):
        if rounds == 1:
            return float(one_round(gamma, s, ADD, epsilon))
        return brute_force(gamma, rounds, s, ADD, epsilon)

    exact = 3.0 * mixture_of(sticks, log_v, end)
    found = grid_convex(law_of(gamma, rounds, s), np.array([3.0]), np.array([log_v]))
    assert found.index == 0
    assert exact * (1 - 1e-8) <= found.upper <= exact * (1 + 1e-4)


def test_convex_bound_over_many_rounds():
    """The best test function that touches y - e^eps dominates it, and costs a factor of about 1.4."""
    law, epsilon = law_of(0.01, 300, 1.0), 1.0
    spreads = np.geomspace(0.05, 3.0, 40)
    weights = 1 / spreads
    log_v = epsilon - np.log(weights * np.expm1(spreads))
    best = grid_convex(law, weights, log_v)
    delta = grid_hockey_stick(law, ADD, epsilon)
    assert delta.upper < best.upper < 1.5 * delta.lower
    for other in (best.index - 3, best.index + 3):
        assert grid_convex(law, weights[[other]], log_v[[other]]).upper >= best.upper


def mean_of_two_rounds(gamma, s, weight, log_strike):
    """The mean of a test function over two coordinate-rounds, by a grid in both."""
    x, mass = np.polynomial.legendre.leggauss(1200)
    x, mass = (x + 1) * (s / 2 + 9) - 9, mass * (s / 2 + 9)
    mass = mass * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    loss = np.log1p(gamma * np.expm1(s * x - s * s / 2))
    above = np.maximum(loss[:, None] + loss - log_strike, 0.0)
    return weight * math.exp(log_strike) * float(mass @ (above * np.exp(above) - np.expm1(above)) @ mass)


@pytest.mark.parametrize(
    ("gamma", "s", "epsilon"), [(2.6e-7, 9.0, 0.1), (1e-4, 8.0, 1.5), (3e-6, 9.5, 0.5), (2e-5, 7.0, 0.01)]
)
def test_the_best_test_function_is_found(gamma, s, epsilon):
    """None of a lattice is lower, as each is where it was looked at with cuts of its own.

    Cuts for one strike leave out too much at far lower ones, and then those look worse than they are.
    """
    weights, log_strikes = touching(epsilon, 0.0, lattice(1e-3, 60.0))
    found = grid_convex(Law(gamma, ((2.0, s * s),)), weights, log_strikes)
    around = range(found.index - 4, found.index + 5)
    least = min(mean_of_two_rounds(gamma, s, weights[i], log_strikes[i]) for i in around)
    assert least * (1 - 1e-8) <= found.upper <= least * (1 + 2e-5)


def test_no_bound_is_below_zero():
    """Where all is far below the smallest number, what errors leave is not an upper bound."""
    weights, log_strikes = touching(1e-4, 0.0, lattice(1e-6, 60.0))
    law = Law(0.00030830475059267343, ((5.0, 2.3555454030284194e-06), (2.0, 2.008762493194058e-06)))
    with np.errstate(all="ignore"):  # as where it is used
        assert grid_convex(law, weights, log_strikes).upper > 0.0
        alone = Law(law.gamma, ((1.0, 2e-6),))
        assert grid_convex(alone, weights, log_strikes + 1.0).upper > 0.0


def dots(gamma, s, step, doublings, epsilon):
    """The add hockey-stick of 2^doublings rounds with each loss split between the two dots around it.

    Both masses of P and Q are kept, so that this is a mean-preserving spread of Y and errs upwards, by
    O(step^2). All terms are positive and convolved directly: no digit is lost however small the answer.
    """
    low, high = math.log1p(-gamma), 0.2
    u = low + step * np.arange(math.ceil((high - low) / step) + 1)
    x = (np.log(np.maximum(np.expm1(u) + gamma, 1e-300) / gamma) + s * s / 2) / s

    def between(x):
        upper, lower = special.ndtr(-x), special.ndtr(x)
        return np.where(x[:-1] > 0.0, upper[:-1] - upper[1:], lower[1:] - lower[:-1])

    q, sent = between(x), between(x - s)
    above = (gamma * sent + (1 - gamma) * q - q * np.exp(u[:-1])) / (np.exp(u[:-1]) * math.expm1(step))
    above = np.clip(above, 0.0, q)
    law = np.append(q - above, 0.0) + np.append(0.0, above)
    floor = low
    for _ in range(doublings):
        floor *= 2
        law = np.convolve(law, law)[: math.ceil((0.2 - floor) / step)]
    losses = floor + step * np.arange(law.size)
    return float((law * np.where(losses > epsilon, np.exp(epsilon) * np.expm1(losses - epsilon), 0.0)).sum())


def test_many_losses_that_add_up_beside_a_large_one():
    """Both ways to a large loss matter, and a shift that suits one makes the other outweigh everything."""
    gamma, s, epsilon = 0.003, 0.15, 0.095
    coarse, fine = (dots(gamma, s, step, 6, epsilon) for step in (6e-5, 3e-5))
    exact = fine - (coarse - fine) / 3  # the error is quadratic in the step
    assert coarse < 1.5 * fine < 1.7 * exact
    bracket = grid_hockey_stick(law_of(gamma, 64, s), ADD, epsilon)
    assert bracket.lower == pytest.approx(exact, rel=0.01)
    assert bracket.lower <= bracket.upper <= bracket.lower * (1 + 1e-4)


@pytest.mark.parametrize(("gamma", "s", "epsilon"), [(1.29146e-4, 0.5147, 0.17), (3e-3, 0.15, 0.09)])
def test_bounds_fall_where_small_losses_and_large_ones_matter(gamma, s, epsilon):
    """The profile falls with epsilon, and so does the least mean of the test functions above it."""
    law = law_of(gamma, 36194 if s > 0.5 else 51, s)
    bounds = [grid_add_cone(law, epsilon * (1 + i / 50), 0.0).value for i in range(6)]
    assert all(later < before for before, later in itertools.pairwise(bounds))
    below = [grid_hockey_stick(law, ADD, epsilon * (1 + i / 50)).lower for i in range(6)]
    assert all(lower <= bound <= 3 * lower for lower, bound in zip(below, bounds, strict=True))
