"""Client sampling in calibrate, compare, plan and budgets, with Renyi accounting."""

from __future__ import annotations

import math

import pytest

import csgm_cli as csgm
from csgm_cli.errors import NoAnswerError, UsageError

TARGET = csgm.Target(5, 1e-6)
GEOMETRY = csgm.Geometry(30.0, 2.0, dim=10_000, cohort_size=100)
#: All training rounds, and the probability of taking part in each.
SAMPLED = {"rounds": 100, "sampling_rate": 0.05}


def error(gamma, sigma):
    """The squared error of the mean: d sigma^2/(n gamma)^2 + (1 - q gamma) l2_norm^2/(n gamma)."""
    return 10_000 * (sigma / (100 * gamma)) ** 2 + (1 - 0.05 * gamma) * 4 / (100 * gamma)


def test_every_row_of_a_comparison_is_sampled():
    """The Gaussian row too: its own error due to who takes part is in every ratio."""
    rows = csgm.compare(GEOMETRY, TARGET, gammas=[0.2], accountant="rdp", **SAMPLED).rows
    assert [row.mechanism.sampling_rate for row in rows] == [0.05] * 3
    gaussian = error(1.0, rows[0].calibration.sigma)
    for row in rows:
        mse = row.calibration.mse
        assert mse.total == pytest.approx(error(row.mechanism.gamma, row.calibration.sigma), rel=1e-13)
        assert mse.gaussian_total == pytest.approx(gaussian, rel=1e-13)
        assert "participation-poisson" in row.calibration.guarantee.assumptions


def test_rows_at_equal_mse():
    """All have the Gaussian's error at the target, and its noise alone is not all of that."""
    found = csgm.compare_at_equal_mse(GEOMETRY, TARGET, gammas=[0.5], accountant="rdp", **SAMPLED)
    gaussian, sparse, _ = found.rows
    assert error(1.0, gaussian.calibration.sigma) == pytest.approx(
        error(0.5, sparse.calibration.sigma), rel=1e-12
    )
    assert sparse.calibration.guarantee.epsilon > 5


@pytest.mark.parametrize("overhead", [0.2, 0.5])
def test_planned_mse_is_as_much_above_the_gaussian_as_allowed(overhead):
    """By the formulas above."""
    geometry = csgm.Geometry(30.0, 2.0, dim=10_000, cohort_size=100)
    found = csgm.plan("l2-csgm", geometry, TARGET, max_mse_overhead=overhead, accountant="rdp", **SAMPLED)
    gaussian = csgm.calibrate(csgm.Mechanism("gaussian", geometry=geometry, **SAMPLED), TARGET, "rdp").sigma
    ratio = error(found.gamma, found.calibration.sigma) / error(1.0, gaussian)
    assert ratio == pytest.approx(1 + overhead, rel=1e-3)


@pytest.mark.parametrize("function", [csgm.compare, csgm.compare_at_equal_mse])
def test_comparisons_need_the_rounds(function):
    """None counts as one round elsewhere."""
    with pytest.raises(UsageError) as raised:
        function(GEOMETRY, TARGET, gammas=[0.5], sampling_rate=0.1)
    assert raised.value.slug == "sampling-needs-rounds"


def test_plans_need_the_rounds():
    """As comparisons do."""
    with pytest.raises(UsageError) as raised:
        csgm.plan("l2-csgm", GEOMETRY, TARGET, gamma=0.5, sampling_rate=0.1)
    assert raised.value.slug == "sampling-needs-rounds"


@pytest.mark.parametrize("accountant", ["exact", "paper"])
@pytest.mark.parametrize("mechanism", ["gaussian", "l2-csgm"])
def test_accountants_without_a_bound(mechanism, accountant):
    """In every function, before anything is computed."""
    asked = csgm.Mechanism(mechanism, geometry=GEOMETRY, **SAMPLED)
    release = csgm.Release("r", asked, 3.0)
    calls = (
        lambda: csgm.calibrate(asked, TARGET, accountant),
        lambda: csgm.account_epsilon(asked, 3.0, [1e-6], accountant),
        lambda: csgm.account_delta(asked, 3.0, 1.0, accountant),
        lambda: csgm.compare(GEOMETRY, TARGET, gammas=[0.5], accountant=accountant, **SAMPLED),
        lambda: csgm.plan("l2-csgm", GEOMETRY, TARGET, gamma=0.5, accountant=accountant, **SAMPLED),
        lambda: csgm.check_population(csgm.Population("p", TARGET, releases=(release,)), accountant),
    )
    for call in calls:
        with pytest.raises(UsageError) as raised:
            call()
        assert raised.value.slug == "no-sampled-accountant"
        assert "sampling rate 0.05" in raised.value.message


@pytest.mark.parametrize(
    ("mechanism", "participates"),
    [
        (csgm.Mechanism("gaussian", rounds=10, sampling_rate=1e-6), 1e-6),
        (csgm.Mechanism("l2-csgm", 0.5, csgm.Geometry(dim=1), rounds=10, sampling_rate=1e-6), 0.5e-6),
        (csgm.Mechanism("l2-csgm", 0.5, csgm.Geometry(dim=2), rounds=10, sampling_rate=1e-6), 0.75e-6),
    ],
)
def test_delta_that_covers_every_participation(mechanism, participates):
    """A client sends anything in 10 rounds with probability 1 - (1 - p)^10; that delta needs no noise."""
    covered = -math.expm1(10 * math.log1p(-participates))
    with pytest.raises(NoAnswerError) as raised:
        csgm.calibrate(mechanism, csgm.Target(1, covered * 1.0001), "rdp")
    assert raised.value.slug == "delta-covers-target"
    printed = float(raised.value.message.rpartition("probability ")[2].partition(",")[0])
    assert printed == pytest.approx(covered, rel=1e-9)


def test_dp_sgd_by_other_accountants():
    """q = 0.01, 1000 steps, epsilon 3, delta 1e-6: dp-accounting 0.6.0 by RDP 0.916994, by PLD 0.865219."""
    mechanism = csgm.Mechanism("gaussian", rounds=1000, sampling_rate=0.01)
    found = csgm.calibrate(mechanism, csgm.Target(3, 1e-6), "rdp").noise_multiplier
    assert 0.865219 < found <= 0.916994
    assert found == pytest.approx(0.916994, rel=2e-3)


def test_results_show_the_rate():
    """In the line of a session, beside the rounds; not where nobody is sampled."""
    mechanism = csgm.Mechanism("gaussian", rounds=1000, sampling_rate=0.01)
    assert " rounds=1000 sampling_rate=0.01 " in repr(csgm.calibrate(mechanism, TARGET, "rdp"))
    assert "sampling_rate" not in repr(csgm.calibrate(csgm.Mechanism("gaussian"), TARGET, "rdp"))


@pytest.mark.parametrize("accountant", ["rdp", "tight"])
@pytest.mark.parametrize(
    ("rate", "rounds", "gamma", "dim", "epsilon", "delta"),
    [
        (0.0011829406790430405, 2798, 1e-9, 1000, 0.2132931205379674, 1e-29),
        (1 - 1e-12, 2, 1e-9, 7, 1e4, 1e-8),
        (0.3, 10, 1e-3, 50, 2.0, 1e-7),
    ],
)
def test_account_confirms_calibrated_noise(accountant, rate, rounds, gamma, dim, epsilon, delta):
    """Also where few large coordinates are sent, so that the best order is close to 1 or a narrow minimum."""
    geometry = csgm.Geometry(math.sqrt(dim), dim=dim)
    mechanism = csgm.Mechanism("l2-csgm", gamma, geometry, rounds, sampling_rate=rate)
    sigma = csgm.calibrate(mechanism, csgm.Target(epsilon, delta), accountant).sigma
    assert csgm.account_epsilon(mechanism, sigma, [delta], accountant).guarantees[0].epsilon <= epsilon
    assert csgm.account_delta(mechanism, sigma, epsilon, accountant).guarantees[0].delta <= delta
