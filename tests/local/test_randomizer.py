"""PrivUnit: published formulas, recomputed roots, limits and a simulation."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from csgm_cli.local.randomizer import optimal_randomizer, sphere_error


def test_reference_splits(reference):
    """Threshold, cap mass and error agree with roots found in mpmath."""
    for row in reference["privunit"]["mse"]:
        found = optimal_randomizer(row["eps0"])
        assert found.threshold == pytest.approx(row["a_mp"], rel=1e-12)
        assert found.cap_mass == pytest.approx(row["q"], rel=1e-11)
        assert found.mean_squared_error(100) == pytest.approx(100 * row["privunitg_mse_over_d"], rel=1e-9)


@pytest.mark.parametrize(("dim", "key"), [(100, "privunit_mse_d100"), (10**6, "privunit_mse_d1e6")])
def test_least_sphere_error(reference, dim, key):
    """The least error over caps is the reference value; PrivUnitG's cap is within 0.1 % of it."""
    for row in reference["privunit"]["mse"]:
        local, cap = row["eps0"], optimal_randomizer(row["eps0"]).cap_mass

        def log_error(log_cap, local=local):
            return math.log(sphere_error(dim, local, math.exp(log_cap)))

        start = math.log(cap)
        least = math.exp(minimize_scalar(log_error, bracket=(start - 0.02, start - 0.01), tol=1e-12).fun)
        assert least == pytest.approx(row[key], rel=1e-8)
        assert least <= sphere_error(dim, local, cap) <= 1.001 * least


@pytest.mark.parametrize("local", [1e-6, 0.02, 0.7, 3.0, 11.0, 25.0, 60.0])
def test_split_is_local_private_and_optimal(local):
    """The density ratio is e^eps0, and no other threshold has a larger mean (MSE = (d + a mu)/mu^2 - 1)."""
    found = optimal_randomizer(local)
    q, odds, a = found.cap_mass, found.odds, found.threshold
    p = q * (odds + 1) / (1 + q * odds)
    assert p * (1 - q) / ((1 - p) * q) == pytest.approx(math.exp(local), rel=1e-9 + 1e-15 * math.exp(local))

    def mean(at):
        tail = 0.5 * math.erfc(at / math.sqrt(2))
        return math.exp(-at * at / 2) / math.sqrt(2 * math.pi) * odds / (1 + tail * odds)

    assert mean(a) == pytest.approx(a, rel=1e-9)
    assert mean(a) >= max(mean(a * 1.001), mean(a * 0.999)) * (1 - 1e-14)
    assert found.mean_squared_error(7) == pytest.approx((7 + a * mean(a)) / mean(a) ** 2 - 1, rel=1e-8)


def test_limits():
    """2 pi d/eps0^2 for small eps0; the threshold stays below sqrt(2 eps0)."""
    assert optimal_randomizer(1e-5).mean_squared_error(1) == pytest.approx(2 * math.pi * 1e10, rel=1e-4)
    for local in (1.0, 10.0, 60.0, 600.0):
        assert optimal_randomizer(local).threshold ** 2 < 2 * local


def test_simulated_errors():
    """Both reference laws in 8 dimensions, sampled by rejection: the mean squared error within 2 %."""
    found, rng, dim, count = optimal_randomizer(3.0), np.random.default_rng(1), 8, 30_000
    q, odds = found.cap_mass, found.odds
    p = q * (odds + 1) / (1 + q * odds)
    gaussian = rng.standard_normal((8 * count, dim)) / math.sqrt(dim)
    sphere = gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)
    for samples, wanted in ((gaussian, found.mean_squared_error(dim)), (sphere, sphere_error(dim, 3.0, q))):
        begin = np.quantile(samples[:, 0], 1 - q)
        inside = samples[samples[:, 0] > begin][: round(p * count)]
        outside = samples[samples[:, 0] <= begin][: count - inside.shape[0]]
        reports = np.concatenate([inside, outside])
        reports /= reports[:, 0].mean()
        error = ((reports - np.eye(dim)[0]) ** 2).sum(axis=1).mean()
        assert error == pytest.approx(wanted, rel=0.02)
