"""How close answers are to what no analysis can go below, and to the Gaussian mechanism."""

import math

import numpy as np
import pytest

from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

PAPER = Target(5.0, 1e-8)


def answer(target, gamma, ratio, adjacency=Adjacency.ADD_REMOVE):
    return calibrate(Mechanism("l2-csgm", gamma, Geometry(ratio), 1, adjacency), target)


@pytest.mark.parametrize(
    ("gamma", "waste"), [(0.5, 2e-4), (0.1, 5e-4), (0.05, 7e-4), (0.01, 1.8e-3), (0.002, 5e-3)]
)
def test_answers_are_close_to_the_lower_bound_in_the_setting_of_the_paper(gamma, waste):
    """At norm_ratio 1000 under add-remove."""
    found = answer(PAPER, gamma, 1000.0)
    assert 0.0 <= found.noise_multiplier / found.guarantee.lower_bound - 1 <= waste


@pytest.mark.parametrize(
    ("target", "gamma", "most"),
    [
        (Target(0.2, 1e-6), 0.002, 0.80),
        (PAPER, 0.01, 0.585),
        (Target(1.0, 1e-5), 0.1, 1.54),
    ],
)
def test_the_triangle_is_below_the_renyi_bound_for_one_visible_coordinate(target, gamma, most):
    """Under replace-one at norm_ratio 1, where the Renyi bound takes up to a half more noise."""
    found = answer(target, gamma, 1.0, Adjacency.REPLACE_ONE)
    assert found.guarantee.lower_bound <= found.noise_multiplier <= most
    mechanism = found.mechanism
    assert found.noise_multiplier < calibrate(mechanism, target, "rdp").noise_multiplier


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.5])
def test_replace_one_takes_twice_the_noise_of_the_gaussian_mechanism(gamma):
    """In the setting of the paper within 0.3 % of 2 gamma 1.13902."""
    found = answer(PAPER, gamma, 1000.0, Adjacency.REPLACE_ONE)
    assert found.noise_multiplier == pytest.approx(2 * gamma * 1.13902, rel=3e-3)


def test_noise_has_no_zigzag_in_gamma():
    """Second differences at three gammas 1e-4 apart, relative: a smooth curve has less than 1e-7."""
    for gamma in np.geomspace(0.001, 0.5, 16).tolist():
        below, at, above = (
            math.log(answer(PAPER, gamma * factor, 1000.0).effective_noise_multiplier)
            for factor in (1 - 1e-4, 1.0, 1 + 1e-4)
        )
        assert abs(below - 2 * at + above) <= 1e-6, gamma
