"""The strongest compression within an overhead."""

import math

import pytest

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.jobs.plan import plan
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

TARGET = Target(3.0, 1e-7)
FULL = resolve_geometry(dim=10**6, cohort_size=1000)[0]


def noise_overhead(gamma, name, geometry, target, accountant=Accountant.TIGHT, **options):
    """Effective noise over the Gaussian's at the same accountant, minus 1."""
    sparse = calibrate(Mechanism(name, gamma, geometry, **options), target, accountant)
    gaussian = calibrate(Mechanism("gaussian", 1.0, geometry, **options), target, accountant)
    return sparse.sigma / gamma / gaussian.sigma - 1


def mse_overhead(gamma, name, geometry, target, accountant=Accountant.TIGHT, **options):
    """Total MSE over the Gaussian's at the same accountant, minus 1."""
    return calibrate(Mechanism(name, gamma, geometry, **options), target, accountant).mse.ratio - 1


@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER])
@pytest.mark.parametrize(
    ("name", "geometry", "overhead", "options"),
    [
        ("l2-csgm", Geometry(1000.0), 0.05, {}),
        ("l2-csgm", Geometry(30.0), 0.5, {"rounds": 20, "adjacency": "replace-one"}),
        ("l2-csgm", Geometry(2.5), 0.01, {}),
        ("l2-csgm", Geometry(1e6), 1e-3, {}),
        ("linf-csgm", Geometry(30.0, dim=1000), 0.3, {"rounds": 2}),
    ],
)
def test_noise_overhead_is_met_and_less_gamma_does_not(name, geometry, overhead, options, accountant):
    """sigma/gamma <= (1 + x) sigma_G holds at the planned gamma and fails a relative 1e-8 below."""
    found = plan(name, geometry, TARGET, max_noise_overhead=overhead, accountant=accountant, **options)
    assert noise_overhead(found.gamma, name, geometry, TARGET, accountant, **options) <= overhead
    less = found.gamma * (1 - 1e-8)
    assert noise_overhead(less, name, geometry, TARGET, accountant, **options) > overhead
    assert found.compression == 1 / found.gamma
    assert found.calibration.mechanism.gamma == found.gamma
    assert found.calibration.accountant is accountant
    assert found.notices == ()


@pytest.mark.parametrize(
    ("name", "geometry", "overhead"),
    [
        ("l2-csgm", FULL, 0.05),
        ("l2-csgm", FULL, 2.0),
        ("l2-csgm", resolve_geometry(l2_norm=7.0, dim=4 * 10**6, cohort_size=100)[0], 0.3),
        ("linf-csgm", Geometry(100.0, 1.0, 12_000, 50), 1.0),
    ],
)
def test_mse_overhead_is_met_and_less_gamma_does_not(name, geometry, overhead):
    """d sigma^2/(n gamma)^2 + (1-gamma) Delta_2^2/(n gamma) <= (1 + x) d sigma_G^2/n^2, and not below."""
    found = plan(name, geometry, TARGET, max_mse_overhead=overhead)
    assert mse_overhead(found.gamma, name, geometry, TARGET) <= overhead * (1 + 1e-12)
    assert mse_overhead(found.gamma * (1 - 1e-8), name, geometry, TARGET) > overhead
    assert found.calibration.mse.ratio <= 1 + overhead


def test_more_overhead_allows_more_compression():
    """Gamma falls as the allowance grows, from 1 at none."""
    gammas = [
        plan("l2-csgm", FULL, TARGET, max_mse_overhead=overhead).gamma for overhead in (0.0, 0.001, 0.1, 10.0)
    ]
    assert gammas[0] == 1.0
    assert gammas == sorted(gammas, reverse=True)
    assert len(set(gammas)) == len(gammas)


def test_no_overhead_at_all_means_no_compression():
    """x = 0 leaves gamma = 1, the Gaussian itself."""
    found = plan("l2-csgm", Geometry(10.0), TARGET, max_noise_overhead=0.0)
    assert found.gamma == 1.0
    assert found.compression == 1.0


def test_one_coordinate_per_client_can_be_enough():
    """Where even gamma = 1/d fits, that is the plan and a notice says so."""
    found = plan("l2-csgm", Geometry(10.0, dim=200), TARGET, max_noise_overhead=1e4)
    assert found.gamma == 1 / 200
    assert [notice.slug for notice in found.notices] == ["one-coordinate"]
    assert noise_overhead(found.gamma, "l2-csgm", Geometry(10.0, dim=200), TARGET) <= 1e4


def test_the_smallest_gamma_can_be_enough():
    """Without a dimension the floor is the smallest gamma in range, with its own notice."""
    found = plan("l2-csgm", Geometry(1e6), TARGET, max_noise_overhead=1e6)
    assert found.gamma == 1e-9
    assert [notice.slug for notice in found.notices] == ["gamma-floor"]


def test_the_search_stays_inside_the_range_of_gamma():
    """A plan close to the smallest gamma, where the opening bracket once asked for gamma = 1e-18."""
    geometry, target, by = Geometry(457981.0), Target(6e-5, 7.8e-11), Accountant.RDP
    found = plan("l2-csgm", geometry, target, max_noise_overhead=0.0878, rounds=3, accountant=by)
    assert 1e-9 < found.gamma < 2e-9
    less = found.gamma * (1 - 1e-8)
    assert noise_overhead(found.gamma, "l2-csgm", geometry, target, by, rounds=3) <= 0.0878
    assert noise_overhead(less, "l2-csgm", geometry, target, by, rounds=3) > 0.0878


def test_where_not_even_gamma_one_fits_there_is_no_plan():
    """L-inf-CSGM charges d coordinates: at d = 100 k it has ten times the Gaussian's noise at gamma = 1."""
    with pytest.raises(NoAnswerError) as caught:
        plan("linf-csgm", Geometry(10.0, dim=10_000), TARGET, max_noise_overhead=0.5)
    assert caught.value.slug == "no-gamma-fits"
    assert caught.value.exit_status == 3


def test_verify_and_bits_reach_the_answer():
    """The planned calibration is verified on request and counts the bits asked for."""
    found = plan("l2-csgm", FULL, TARGET, max_noise_overhead=0.2, verify=True, value_bits=8)
    assert found.calibration.guarantee.verified.relative_difference < 1e-9
    assert found.calibration.bits_per_client == pytest.approx(found.gamma * 10**6 * 8, rel=1e-15)


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({}, "one-overhead"),
        ({"max_mse_overhead": 0.1, "max_noise_overhead": 0.1}, "one-overhead"),
        ({"max_mse_overhead": -0.1}, "out-of-range"),
        ({"max_mse_overhead": math.nan}, "out-of-range"),
        ({"max_noise_overhead": math.inf}, "out-of-range"),
        ({"max_noise_overhead": -1e-9}, "out-of-range"),
        ({"max_noise_overhead": 0.1, "accountant": Accountant.EXACT}, "no-exact-accountant"),
        ({"max_noise_overhead": 0.1, "value_bits": 65}, "out-of-range"),
        ({"max_noise_overhead": 0.1, "rounds": 0}, "out-of-range"),
    ],
)
def test_refusals(options, slug):
    """None or two overheads, bad numbers, accountants without a bound."""
    with pytest.raises(UsageError) as caught:
        plan("l2-csgm", FULL, TARGET, **options)
    assert caught.value.slug == slug


@pytest.mark.parametrize("geometry", [Geometry(2.0), Geometry(2.0, dim=9), Geometry(2.0, cohort_size=9)])
def test_an_mse_overhead_needs_d_and_n(geometry):
    """There is no MSE without them."""
    with pytest.raises(UsageError) as caught:
        plan("l2-csgm", geometry, TARGET, max_mse_overhead=0.1)
    assert caught.value.slug == "missing-utility-inputs"


def test_unknown_mechanisms_are_refused():
    """A misspelt name lists the right ones."""
    with pytest.raises(UsageError) as caught:
        plan("l2csgm", FULL, TARGET, max_noise_overhead=0.1)
    assert "l2-csgm" in caught.value.message
