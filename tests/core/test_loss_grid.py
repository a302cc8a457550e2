"""The brackets for rare mask bits against closed forms, brute force, other accountants and theorems."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from csgm_cli import gaussian
from csgm_cli.core.loss_far import Chernoff
from csgm_cli.core.loss_grid import grid_hockey_stick
from csgm_cli.core.loss_nodes import Nodes, TooManyNodesError
from csgm_cli.core.sliced_law import Coordinates
from csgm_cli.profile.contour import Direction, Law
from csgm_cli.profile.single_round import single_round
from tests.core.few_rounds import brute_force, law_of, one_round
from tests.core.memory import little_memory

ADD, REMOVE = Direction.ADD, Direction.REMOVE


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


def test_what_takes_too_many_nodes_is_unknown():
    """Two orders for each of so many nodes would not fit, and a bracket from them is none."""
    part = Coordinates(1.0, 1e-4, 20.0)
    with pytest.raises(TooManyNodesError):
        part.nodes(-13.5, 30.0, 1e8)
    many = np.zeros(3_000_000)
    with pytest.raises(TooManyNodesError):
        Nodes(many, many, many).exponents(np.arange(4.0))
    law = Law(4.7e-41, ((2.0, 224805.7), (1.0, 57.566)))
    with little_memory():
        assert grid_hockey_stick(law, ADD, 0.0) is None


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
