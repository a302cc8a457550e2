"""Where a calibration starts: anywhere in range there is a start, and most often a close one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.jobs.calibrate import least_sigma
from csgm_cli.model.mechanism import Adjacency, Bound, Geometry, Mechanism, MechanismName, Target
from csgm_cli.renyi.curves import Curve, renyi_curve
from csgm_cli.renyi.first_guess import first_guess


def powers(low, high):
    """Numbers between two powers of ten, evenly on the logarithm."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@given(
    powers(-9, 0), powers(0, 6), powers(0, 9), powers(-6, 4), powers(-300, -1e-9), st.sampled_from(Adjacency)
)
def test_there_is_always_a_start(gamma, ratio, rounds, epsilon, delta, adjacency):
    """Every target in range has one, with an order that float64 tells from 1."""
    mechanism = Mechanism(MechanismName.L2_CSGM, gamma, Geometry(ratio), int(rounds), adjacency)
    sigma, order = first_guess(renyi_curve(mechanism, Bound.RDP), Target(epsilon, delta))
    assert 0.0 < sigma < math.inf
    assert 1.0 < order < math.inf


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_gaussian(epsilon, delta):
    """The Gaussian mechanism's least sigma over a grid of orders, from its own formula, and its order."""
    tail = -math.log(delta)
    answers = []
    for i in range(20001):
        gap = 10.0 ** (-3 + 8 * i / 20000)
        renyi = epsilon - math.log(gap / (1 + gap)) - (tail - math.log1p(gap)) / gap
        if renyi > 0:
            answers.append((math.sqrt((1 + gap) / (2 * renyi)), gap))
    best, gap = min(answers)
    sigma, order = first_guess(renyi_curve(Mechanism("gaussian", 1.0), Bound.RDP), Target(epsilon, delta))
    assert sigma == pytest.approx(best, rel=0.15)
    assert order - 1 == pytest.approx(gap, rel=0.5)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("ratio", [1.0, 5.5, 300.0, 10000.0])
@pytest.mark.parametrize("gamma", [1e-5, 1e-3, 0.03, 0.5])
def test_few_moments_are_needed(monkeypatch, gamma, ratio, adjacency):
    """From a good start an answer takes a few log-moments, certified and all; from a bad one, dozens."""
    asked = []
    moment = Curve.moment
    monkeypatch.setattr(
        Curve, "moment", lambda curve, order, sigma: asked.append(order) or moment(curve, order, sigma)
    )
    mechanism = Mechanism(MechanismName.L2_CSGM, gamma, Geometry(ratio), 100, adjacency)
    target = Target(3.0, 1e-7)
    answer = least_sigma(mechanism, Bound.RDP, target)
    assert len(asked) <= 20
    assert first_guess(renyi_curve(mechanism, Bound.RDP), target)[0] == pytest.approx(answer, rel=0.4)
