"""The accountant ``auto`` is the smallest of the bounds that are proven."""

import itertools

import pytest

from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

L2 = "l2-csgm"
#: The relative width of the brackets, without and with the triangle inequality.
ROUNDING = {Adjacency.ADD_REMOVE: 2e-12, Adjacency.REPLACE_ONE: 2e-9}


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


@pytest.mark.parametrize("gamma", [0.1, 1 - 1e-9, 1 - 1e-12])
@pytest.mark.parametrize("name", [L2, "linf-csgm"])
def test_auto_is_the_smallest_bound_under_replace_one(name, gamma):
    """The triangle is below the Renyi bound, and next to gamma 1 equal to the Gaussian mechanism."""
    geometry, target, adjacency = Geometry(2.0, dim=4), Target(2.0, 1e-6), Adjacency.REPLACE_ONE
    mechanism = Mechanism(name, gamma, geometry, 3, adjacency)
    renyi = calibrate(mechanism, target, Accountant.RDP).sigma
    revealed = calibrate(
        Mechanism("gaussian", 1.0, geometry, 3, adjacency), target, Accountant.EXACT
    ).sigma  # k = d: both mechanisms have sensitivity Delta_2
    found = calibrate(mechanism, target, Accountant.AUTO)
    assert found.sigma < renyi
    assert found.sigma <= revealed
    won = Bound.MASK_REVEALED if gamma == 1 - 1e-12 else Bound.REPLACE_ONE
    assert found.guarantee.bound is won
    assert ("masks-secret" in found.guarantee.assumptions) == (won is Bound.REPLACE_ONE)
    assert found.accountant is (Accountant.TIGHT if won is Bound.REPLACE_ONE else Accountant.AUTO)


def test_auto_is_at_most_rdp_at_the_ends_of_all_ranges():
    """Settings where a search for the best order once left the matched bound out."""
    for gamma, ratio, rounds, target in (
        (1.102e-7, 22.43, 374500, Target(196.4, 8.996e-225)),
        (3.113e-9, 217.0, 625700, Target(39.19, 3.323e-136)),
        (4.605e-6, 8.757, 562200, Target(5420.0, 1.987e-245)),
        (6.951e-5, 1.39, 8, Target(129.8, 2.38e-121)),
        (8.875e-7, 11.91, 81, Target(0.001812, 3.234e-108)),  # this one never ended
    ):
        mechanism = Mechanism(L2, gamma, Geometry(ratio), rounds)
        auto, rdp = (calibrate(mechanism, target, by).sigma for by in (Accountant.AUTO, Accountant.RDP))
        assert auto <= rdp * (1 + 1e-7)  # the room for rounding of the matched bound


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_auto_grows_with_gamma_up_to_the_gaussian(adjacency):
    """On a grid that ends at gamma = 1 auto never falls, and ends at the exact Gaussian."""
    target = Target(3.0, 1e-7)
    between = range(2, 20) if adjacency is Adjacency.ADD_REMOVE else range(2, 20, 8)
    gammas = [*(step / 20 for step in between), 0.99, 0.999, 1 - 1e-6, 1 - 1e-9, 1.0]
    sigmas = [calibrate(Mechanism(L2, gamma, Geometry(3.3), 2, adjacency), target).sigma for gamma in gammas]
    assert all(after >= before * (1 - ROUNDING[adjacency]) for before, after in itertools.pairwise(sigmas))
    exact = calibrate(Mechanism("gaussian", 1.0, Geometry(), 2, adjacency), target, Accountant.EXACT).sigma
    assert sigmas[-1] == exact
    assert sigmas[-2] == pytest.approx(exact, rel=1e-8)
