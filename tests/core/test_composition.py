"""Releases gathered into kinds, and the Gaussian that stands for one whose posteriors are capped."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from csgm_cli.core.compose import composed_epsilon
from csgm_cli.core.composition import composition_of
from csgm_cli.core.cones import posterior
from csgm_cli.model.mechanism import Accountant, Geometry, Mechanism

X = np.linspace(-12.0, 12.0, 20_001)
BELL = np.exp(-X * X / 2) / math.sqrt(2 * math.pi) * (X[1] - X[0])


def sparse(rounds, sigma=0.5, dim=None):
    return Mechanism("l2-csgm", 0.1, Geometry(3.0, dim=dim), rounds), sigma


def test_equal_releases_are_one_kind():
    """With the rounds of all, in any order; another noise or dim is another kind; Gaussians are one mu."""
    releases = [
        sparse(3), sparse(4), sparse(5, 0.6), sparse(6, dim=100),
        (Mechanism("gaussian", rounds=9), 3.0), (Mechanism("l2-csgm", 1.0, Geometry(2.0), 16), 4.0),
    ]  # fmt: skip
    found = composition_of(releases)
    assert sorted(kind.mechanism.rounds for kind in found.kinds) == [5, 6, 7]
    assert found.gaussian_t == pytest.approx(2.0, rel=1e-15)
    assert all(composition_of(order) == found for order in itertools.permutations(releases))


def test_alone():
    """One kind and nothing else."""
    assert composition_of([sparse(3), sparse(4)]).alone.mechanism.rounds == 7
    assert composition_of([sparse(3), (Mechanism("gaussian"), 1e6)]).alone is None


def test_more_rounds_than_a_mechanism_may_have():
    """Two equal releases that no single mechanism could be, between those with hardly more and less noise."""
    often = Mechanism("l2-csgm", 0.01, Geometry(100.0), 600_000_000)
    assert sum(k.law.total_t for k in composition_of([(often, 1000.0)] * 2).kinds) == pytest.approx(1200.0)
    more, same, less = (
        composed_epsilon([(often, 1000.0), (often, sigma)], Accountant.AUTO, 1e-6).value
        for sigma in (1000.1, 1000.0, 999.9)
    )
    assert more < same < less


def test_free_where_all_coordinates_can_be_at_the_clip():
    """As many as dim, by either mechanism."""
    full = [sparse(1, dim=9), (Mechanism("linf-csgm", 0.1, Geometry(2.0, dim=50)), 1.0)]
    assert composition_of(full).is_exact
    assert [kind.mechanism.geometry.dim for kind in composition_of([*full, sparse(1)]).bound] == [None]


def mean(ratios, low, high):
    """E[phi], phi'' = 1/u on [low, high] (so W <= 1), of a likelihood ratio at the nodes X."""
    top = np.clip(ratios, low, high)
    return float((BELL * (ratios * np.log(top / low) - (top - low))).sum())


@pytest.mark.parametrize("reach", [0.0, 1.0, 2.5, 4.0])
@pytest.mark.parametrize(("gamma", "s"), [(0.1, 0.3), (0.02, 1.0), (0.6, 0.7)])
def test_a_gaussian_stands_for_capped_posteriors(gamma, s, reach):
    """docs/theory.md, "Mixed releases by the profile": at each t <= s^2, up to (t/2) P(N > reach)."""
    r = posterior(gamma, s * reach + s * s / 2)
    for share in (1.0, 0.3, 0.01):
        t = share * s * s
        root, mu = math.sqrt(t), r * math.sqrt(t)
        sent = 1 - gamma + gamma * np.exp(root * X - t / 2)
        shift = np.exp(mu * X - mu * mu / 2)
        for low, high in ((0.2, 0.9), (0.99, 1.01), (1.0, 1.5), (1.2, 50.0)):
            beyond = t / 2 * float(ndtr(-reach))
            assert mean(sent, low, high) <= mean(shift, low, high) + beyond + 1e-12


@pytest.mark.parametrize("reach", [0.0, 3.0])
def test_capped_is_the_squared_mu_of_all_rounds(reach):
    """r^2 k s^2 T, which is gamma^2 k s^2 T for a reach of about none."""
    (kind,) = composition_of([sparse(7)]).kinds
    s = 1 / 3 / 0.5
    odds = 0.1 / 0.9 * math.exp(s * reach + s * s / 2)
    assert kind.capped(reach) == pytest.approx((odds / (1 + odds)) ** 2 * 9 * s * s * 7, rel=1e-12)
    assert kind.spread_variance == pytest.approx(0.01 * 9 * s * s * 7, rel=1e-12)
    assert kind.growth == pytest.approx(0.01 * 9 * math.expm1(s * s) * 7, rel=1e-12)
