"""Cells of epsilons that share cuts: where they are, and how smooth bounds are inside."""

import math

import numpy as np
import pytest

from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.loss_event import add_event
from csgm_cli.core.loss_grid import _parts_of, cell, grid_hockey_stick
from csgm_cli.profile.contour import Direction
from tests.core.few_rounds import law_of

ADD = Direction.ADD


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
