"""Brackets of the remove direction next to the lowest loss, and where the sizes of coordinates differ."""

import math

import mpmath
import pytest

from csgm_cli.core.loss_grid import Bracket, grid_hockey_stick
from csgm_cli.profile.contour import Direction, Law
from tests.core.few_rounds import brute_force, law_of
from tests.core.memory import little_memory

REMOVE = Direction.REMOVE


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


@pytest.mark.parametrize(("gamma", "counts", "epsilon"), [
    (3e-7, (5, 5), 1.8e-6), (1.4e-7, (5, 5), 1.176e-6), (3e-7, (20, 5), 0.0), (1e-3, (4, 1), 2e-3),
    (0.01, (15, 5), 0.2010067), (1e-3, (6, 2), 0.008004002), (3e-7, (20, 5), 7.500001e-6),
])  # fmt: skip
def test_remove_where_masks_show_beside_a_smaller_coordinate(gamma, counts, epsilon):
    """All but 1e-25 of the Q-mass is at the lowest loss, and the parts' losses begin to rise far apart.

    Also where epsilon is within 1e-6 of the lowest loss.
    """
    law = Law(gamma, tuple(zip(map(float, counts), (1228.1, 465.4), strict=True)))
    with little_memory():
        bracket = grid_hockey_stick(law, REMOVE, epsilon)
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
    with little_memory():
        bracket = grid_hockey_stick(Law(gamma, ((1.0, s * s), (1.0, last * last))), REMOVE, epsilon)
    rounding = 1e-14 / exact
    assert bracket.lower * (1 - rounding) <= exact <= bracket.upper * (1 + rounding)
    assert bracket.upper <= bracket.lower * (1 + 2e-5)


def test_no_bracket_where_epsilon_cannot_tell_which_side_it_is_on():
    """Within rounding of the lowest loss there is no answer rather than 0."""
    assert grid_hockey_stick(law_of(0.3, 3, 20.0), REMOVE, -3 * math.log1p(-0.3)) is None
