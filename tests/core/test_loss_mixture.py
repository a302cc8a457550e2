"""Means of test functions without an exponent: against quadrature, and the best of a family."""

import itertools
import math

import numpy as np
import pytest

from csgm_cli.core.cones import lattice, touching
from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.loss_grid import grid_convex, grid_hockey_stick
from csgm_cli.profile.contour import Direction, Law
from tests.core.few_rounds import POINTS, WEIGHTS, brute_force, law_of, one_round, two_rounds

ADD = Direction.ADD


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
    losses, mass = two_rounds(gamma, s)
    above = np.maximum(losses - log_strike, 0.0)
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


def test_no_cone_where_means_overflow():
    """Far beyond every epsilon that matters nothing is known, and nothing fails."""
    with np.errstate(all="ignore"):
        assert grid_add_cone(Law(1.2092519e-3, ((20194.0, 1101.4462629904867),)), 1561.4117, 0.0) is None


@pytest.mark.parametrize(("gamma", "s", "epsilon"), [(1.29146e-4, 0.5147, 0.17), (3e-3, 0.15, 0.09)])
def test_bounds_fall_where_small_losses_and_large_ones_matter(gamma, s, epsilon):
    """The profile falls with epsilon, and so does the least mean of the test functions above it."""
    law = law_of(gamma, 36194 if s > 0.5 else 51, s)
    bounds = [grid_add_cone(law, epsilon * (1 + i / 50), 0.0).value for i in range(6)]
    assert all(later < before for before, later in itertools.pairwise(bounds))
    below = [grid_hockey_stick(law, ADD, epsilon * (1 + i / 50)).lower for i in range(6)]
    assert all(lower <= bound <= 3 * lower for lower, bound in zip(below, bounds, strict=True))
