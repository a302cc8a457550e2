"""The accountant ``auto`` is the smallest of the bounds that are proven."""

import itertools

import pytest

from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Geometry, Mechanism, Target

L2 = "l2-csgm"


@pytest.mark.parametrize("gamma", [1e-4, 0.1, 0.7, 0.9, 0.99, 1 - 1e-9])
@pytest.mark.parametrize("name", [L2, "linf-csgm"])
def test_auto_is_the_smallest_bound(name, gamma):
    """With every coordinate at its clip the profile is exact, and below the other two."""
    geometry, target = Geometry(2.0, dim=4), Target(2.0, 1e-6)
    mechanism = Mechanism(name, gamma, geometry, 3)
    renyi = calibrate(mechanism, target, Accountant.RDP).sigma
    revealed = calibrate(Mechanism("gaussian", 1.0, geometry, 3), target, Accountant.EXACT).sigma
    found = calibrate(mechanism, target)
    assert found.sigma <= min(renyi, revealed) * (1 + 1e-12)
    assert found.guarantee.bound is Bound.PROFILE
    assert found.accountant is Accountant.TIGHT
    assert found.sigma == calibrate(mechanism, target, Accountant.TIGHT).sigma


@pytest.mark.parametrize("gamma", [1e-4, 0.1, 0.7, 0.9, 0.99, 1 - 1e-9])
@pytest.mark.parametrize("name", [L2, "linf-csgm"])
def test_auto_is_the_smaller_of_renyi_and_revealed_masks(name, gamma):
    """Under replace-one. Revealed masks leave the Gaussian at full sensitivity; the winner is named."""
    geometry, target, adjacency = Geometry(2.0, dim=4), Target(2.0, 1e-6), Adjacency.REPLACE_ONE
    mechanism = Mechanism(name, gamma, geometry, 3, adjacency)
    renyi = calibrate(mechanism, target, Accountant.RDP).sigma
    revealed = calibrate(
        Mechanism("gaussian", 1.0, geometry, 3, adjacency), target, Accountant.EXACT
    ).sigma  # k = d: both mechanisms have sensitivity Delta_2
    found = calibrate(mechanism, target, Accountant.AUTO)
    assert found.sigma == pytest.approx(min(renyi, revealed), rel=1e-15)
    won = Bound.RDP if renyi < revealed else Bound.MASK_REVEALED
    assert found.guarantee.bound is won
    assert (found.guarantee.order is None) == (won is Bound.MASK_REVEALED)
    assert ("masks-secret" in found.guarantee.assumptions) == (won is Bound.RDP)
    assert found.accountant is (Accountant.RDP if won is Bound.RDP else Accountant.AUTO)


def test_auto_has_both_sides():
    """Renyi wins at small gamma, revealed masks near 1 (otherwise the test above would show little)."""
    target = Target(2.0, 1e-6)
    bounds = [
        calibrate(Mechanism(L2, gamma, Geometry(2.0), 1, "replace-one"), target).guarantee.bound
        for gamma in (0.01, 0.999)
    ]
    assert bounds == [Bound.RDP, Bound.MASK_REVEALED]


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_auto_grows_with_gamma_up_to_the_gaussian(adjacency):
    """On a grid that ends at gamma = 1 auto never falls, and ends at the exact Gaussian."""
    target = Target(3.0, 1e-7)
    gammas = [step / 40 for step in range(1, 40)] + [0.99, 0.999, 1 - 1e-6, 1 - 1e-9, 1.0]
    sigmas = [calibrate(Mechanism(L2, gamma, Geometry(3.3), 2, adjacency), target).sigma for gamma in gammas]
    assert all(after >= before * (1 - 1e-12) for before, after in itertools.pairwise(sigmas))
    exact = calibrate(Mechanism("gaussian", 1.0, Geometry(), 2, adjacency), target, Accountant.EXACT).sigma
    assert sigmas[-1] == exact
    assert sigmas[-2] == pytest.approx(exact, rel=1e-12)
