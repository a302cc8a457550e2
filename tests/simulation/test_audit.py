"""The privacy audit: what it measures is below the claim, and above it where the noise is too small.

Seeds are fixed; over other seeds a correct mechanism would fail with probability 0.1 %.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.mechanism.plan import Plan, Rotation
from csgm_cli.simulation import audit as module
from csgm_cli.simulation.audit import audit_epsilon
from tests.mechanism.plans import plan_with

EPSILON, DELTA = 1.0, 1e-5


def calibrated(k=4, games=64):
    """L2-CSGM at the target, with room for many games in a round."""
    geometry = csgm.Geometry(math.sqrt(k), 1.0, dim=k * games, cohort_size=games)
    mechanism = csgm.Mechanism("l2-csgm", 0.5, geometry, rounds=1)
    return Plan(mechanism, csgm.calibrate(mechanism, csgm.Target(EPSILON, DELTA)).sigma, Rotation.NONE)


def test_the_claim_holds_and_half_the_noise_is_noticed():
    """A hundred thousand games at the calibrated sigma, and fewer at half of it."""
    plan = calibrated()
    found = audit_epsilon(plan, EPSILON, DELTA)
    assert found.trials >= 100_000
    assert 0.1 < found.epsilon < EPSILON
    halved = audit_epsilon(plan, EPSILON, DELTA, trials=50_000, sigma=plan.sigma / 2)
    assert halved.epsilon > EPSILON


@pytest.mark.parametrize("gamma", [1.0, 0.3])
def test_likelihood_ratio_is_that_of_the_densities(gamma):
    """Of one coordinate: the mixture of two normal densities over one of them."""
    name = "gaussian" if gamma == 1.0 else "l2-csgm"
    plan = plan_with(0.7, name, gamma, dim=1, cohort_size=2)
    for y in (-2.0, 0.0, 0.4, 3.0):
        at, moved = (math.exp(-((y - shift) ** 2) / (2 * 0.7**2)) for shift in (0.0, 0.9))
        expected = math.log((1 - plan.gamma) + plan.gamma * moved / at)
        release = np.array([[y / (2 * plan.gamma)]])
        found = module.log_likelihood_ratios(plan, np.array([0.9]), release)
        assert found == pytest.approx(np.array([[expected]]), rel=1e-12)


def test_bound_of_separated_worlds():
    """A client who is always noticed: epsilon is bounded by the number of games alone."""
    error = 0.001 / (2 * 2 * len(module._THRESHOLDS))
    trials = 1000
    low, high = error ** (1 / trials), 1 - error ** (1 / trials)  # all of them, and none
    bounds = list(module._bounds(np.full(trials, 9.0), np.full(trials, -9.0), 1.0, 1e-5))
    assert max(bounds)[0] == pytest.approx(math.log((low - 1e-5) / high), rel=1e-9)


def test_indistinguishable_worlds_bound_nothing():
    """The same scores in both."""
    scores = np.random.default_rng(1).standard_normal(10_000)
    assert max(module._bounds(scores, scores, 1.0, 1e-5))[0] <= 0.0


@pytest.mark.parametrize("changed", [{"rounds": 2}, {"rounds": 9, "sampling_rate": 0.5}])
def test_other_plans_are_refused(changed):
    """The likelihood ratio is that of one round."""
    with pytest.raises(UsageError) as caught:
        audit_epsilon(plan_with(1.0, **changed), EPSILON, DELTA, trials=10)
    assert caught.value.slug == "cannot-audit"
