"""What noise and sparsification cost, worked by hand and by simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from csgm_cli.jobs.utility import (
    bits_per_client,
    error_parts,
    mean_noise_std,
    mean_squared_error,
    sigma_at_equal_error,
)
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import Geometry

KNOWN = Geometry(2.0, 3.0, dim=100, cohort_size=10)


def test_mean_squared_error_by_hand():
    """d = 100, n = 10, gamma = 1/2, sigma = 1, Delta_2 = 3: 100/25 + 0.5 9/5; the Gaussian's 100 4/100."""
    gaussian = Mechanism("gaussian", 1.0, KNOWN)
    found = mean_squared_error(Mechanism("l2-csgm", 0.5, KNOWN), 1.0, gaussian, 2.0)
    assert found.privacy == pytest.approx(4.0, rel=1e-15)
    assert found.sparsification == pytest.approx(0.9, rel=1e-15)
    assert found.total == pytest.approx(4.9, rel=1e-15)
    assert found.gaussian_total == pytest.approx(4.0, rel=1e-15)
    assert found.ratio == pytest.approx(4.9 / 4.0, rel=1e-15)


def test_mean_squared_error_of_simulated_clients():
    """Clients at the L2 clip norm: the squared error of the mean agrees with the formula, gamma < 1."""
    random, runs = np.random.default_rng(1), 20_000
    d, n, gamma, sigma, l2_norm = 8, 4, 0.3, 0.5, 2.0
    vectors = random.normal(size=(n, d))
    vectors *= l2_norm / np.linalg.norm(vectors, axis=1, keepdims=True)
    masked = np.where(random.random((runs, n, d)) < gamma, vectors, 0.0).sum(axis=1)
    estimates = (masked + random.normal(0.0, sigma, (runs, d))) / (n * gamma)
    errors = ((estimates - vectors.mean(axis=0)) ** 2).sum(axis=1)
    expected = sum(error_parts(Mechanism("l2-csgm", gamma, Geometry(1.0, l2_norm, d, n)), sigma))
    assert abs(errors.mean() - expected) <= 5 * errors.std() / math.sqrt(runs)


#: Client sampling with q = 1/5, and so many rounds.
SAMPLED = {"rounds": 7, "sampling_rate": 0.2}


def test_mean_squared_error_with_client_sampling_by_hand():
    """As above with q = 1/5: 100/25 + 0.9 9/5; the Gaussian's 100 4/100 + 0.8 9/10."""
    gaussian = Mechanism("gaussian", 1.0, KNOWN, **SAMPLED)
    found = mean_squared_error(Mechanism("l2-csgm", 0.5, KNOWN, **SAMPLED), 1.0, gaussian, 2.0)
    assert found.privacy == pytest.approx(4.0, rel=1e-15)
    assert found.sparsification == pytest.approx(1.62, rel=1e-15)
    assert found.gaussian_total == pytest.approx(4.72, rel=1e-15)
    assert found.ratio == pytest.approx(5.62 / 4.72, rel=1e-15)


def test_sigma_at_equal_error_with_client_sampling_by_hand():
    """Squared (4.72 - 1.62)/4; at 1.1 times the error (5.192 - 1.62)/4; 0 if noise does not fit."""
    gaussian, sparse = (
        Mechanism(*words, KNOWN, **SAMPLED) for words in (("gaussian", 1.0), ("l2-csgm", 0.5))
    )
    assert sigma_at_equal_error(sparse, gaussian, 2.0) == pytest.approx(math.sqrt(0.775), rel=1e-14)
    assert sigma_at_equal_error(sparse, gaussian, 2.0, 1.1) == pytest.approx(math.sqrt(0.893), rel=1e-14)
    assert sigma_at_equal_error(sparse, gaussian, 0.1) == 0.0


def test_mean_squared_error_of_sampled_clients():
    """The population's mean, from those that take part: sum / (q N gamma), as simulated."""
    random, runs = np.random.default_rng(2), 20_000
    d, clients, gamma, sigma, rate = 8, 20, 0.3, 0.5, 0.2
    vectors = random.normal(size=(clients, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    n = rate * clients
    sent = (random.random((runs, clients, d)) < gamma) & (random.random((runs, clients, 1)) < rate)
    estimates = (np.where(sent, vectors, 0.0).sum(axis=1) + random.normal(0.0, sigma, (runs, d))) / (
        n * gamma
    )
    errors = ((estimates - vectors.mean(axis=0)) ** 2).sum(axis=1)
    mechanism = Mechanism("l2-csgm", gamma, Geometry(1.0, 1.0, d, int(n)), rounds=1, sampling_rate=rate)
    expected = sum(error_parts(mechanism, sigma))
    assert abs(errors.mean() - expected) <= 5 * errors.std() / math.sqrt(runs)


def test_sending_everything_has_no_sparsification_error():
    """At gamma = 1 only the noise is left, and the Gaussian at the same sigma is the same."""
    found = mean_squared_error(Mechanism("l2-csgm", 1.0, KNOWN), 1.5, Mechanism("gaussian", 1.0, KNOWN), 1.5)
    assert found.sparsification == 0.0
    assert found.ratio == 1.0


def test_noise_on_the_mean_by_hand():
    """n = 1000, gamma = 0.01, sigma = 0.1: 0.1 / 10; the published confusion of sum and mean."""
    geometry = Geometry(1.0, cohort_size=1000)
    assert mean_noise_std(Mechanism("l2-csgm", 0.01, geometry), 0.1) == pytest.approx(0.01, rel=1e-15)
    assert mean_noise_std(Mechanism("gaussian", 1.0, geometry), 0.1) == pytest.approx(1e-4, rel=1e-15)


def test_bits_by_hand():
    """gamma d b: 1 % of a million 32-bit floats are 320 000 bits."""
    mechanism = Mechanism("l2-csgm", 0.01, Geometry(1.0, dim=10**6))
    assert bits_per_client(mechanism, 32) == pytest.approx(320_000, rel=1e-15)
    assert bits_per_client(mechanism, 1) == pytest.approx(10_000, rel=1e-15)


def test_what_is_not_known_is_not_made_up():
    """Without n there is no mean, without d no bits, without both no MSE."""
    without_n, without_d = Geometry(1.0, dim=10), Geometry(1.0, cohort_size=10)
    assert mean_noise_std(Mechanism("l2-csgm", 0.5, without_n), 1.0) is None
    assert bits_per_client(Mechanism("l2-csgm", 0.5, without_d), 32) is None
    for geometry in (without_n, without_d, Geometry()):
        mechanism = Mechanism("l2-csgm", 0.5, geometry)
        assert error_parts(mechanism, 1.0) is None
        assert mean_squared_error(mechanism, 1.0, replace(mechanism, name="gaussian", gamma=1.0), 1.0) is None
