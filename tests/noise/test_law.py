"""The law of the noise: covariances by Monte Carlo with fixed seeds.

Every test has a false-alarm probability of 1e-6 (Bonferroni over all entries of a matrix): had the seeds been
drawn at random, a right implementation would fail one test in a million.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import ndtr

from csgm_cli import NoiseStream
from csgm_cli.factorization import dense_factors, factorize, schedule_workload
from csgm_cli.model.factorization import strategy_named
from csgm_cli.noise.normals import CHUNK

FALSE_ALARM = 1e-6
SAMPLES = 60_000  # coordinates: independent draws of a column of the noise


def worst_entry(rows, covariance):
    """The largest |z-score| of an entry of the empirical covariance, and the limit that it should be within.

    An entry of the covariance of d Gaussian samples has variance (S_ii S_jj + S_ij^2) / d.
    """
    rows = rows.astype(np.float64)
    T, d = rows.shape
    found = rows @ rows.T / d
    diagonal = np.diag(covariance)
    deviations = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / d)
    off = np.abs(found - covariance) / np.maximum(deviations, 1e-300)
    entries = T * (T + 1) / 2
    return float(off.max()), NormalDist().inv_cdf(1 - FALSE_ALARM / entries / 2)


def drawn(factors, **options):
    return np.array(list(NoiseStream(factors, dim=SAMPLES, seed=20, **options)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("on", ["sums", "increments"])
@pytest.mark.parametrize(
    "strategy",
    [
        "optimal",
        "streaming:2",
        "blt:2",
        "blt-normalized:3",
        "banded",
        "toeplitz-sqrt",
        "honaker-full",
        "identity",
    ],
)
def test_covariance(factorization, strategy, on, dtype):
    """sigma^2 B B^T on the sums, sigma^2 (C^T C)^-1 on the increments, from C and A alone."""
    T, sigma = 12, 1.7
    found = factorization(strategy, T)
    c = dense_factors(found).C
    inverse = np.linalg.inv(c.T @ c)
    prefix = np.tril(np.ones((T, T)))
    covariance = prefix @ inverse @ prefix.T if on == "sums" else inverse
    rows = drawn(found, sigma=sigma, on=on, dtype=dtype)
    assert rows.dtype == dtype
    worst, limit = worst_entry(rows, sigma**2 * covariance)
    assert worst < limit
    # The test can fail: at 3 % more or less noise it does.
    for wrong in (1.03, 0.97):
        worst, limit = worst_entry(rows, (wrong * sigma) ** 2 * covariance)
        assert worst > limit


def test_covariance_of_the_tree(factorization):
    """Four steps by hand: node 1, node 12, nodes 12 and 3, node 1234."""
    rows = drawn(factorization("tree", 4), sigma=0.5, on="sums")
    shared = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 2, 0], [0, 0, 0, 1]])
    worst, limit = worst_entry(rows, 0.25 * shared)
    assert worst < limit


def test_covariance_with_learning_rates():
    """B = A C^-1 where the columns of A are weighted."""
    rates = np.array([1.0, 3.0, 0.2, 0.5, 2.0])
    workload = schedule_workload(rates)
    weighted = np.tril(np.ones((5, 5))) * rates
    for strategy in ("optimal", "streaming:3"):
        found = factorize(workload, strategy_named(strategy))
        b = weighted @ np.linalg.inv(dense_factors(found).C)
        worst, limit = worst_entry(drawn(found, sigma=2.0, on="sums"), 4.0 * b @ b.T)
        assert worst < limit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_are_independent_and_normal(dtype):
    """Between rounds, between chunks and between seeds; and the law is the standard normal (Kolmogorov)."""
    rows = []
    for seed in (0, 1, 2**64, 2**127):  # keys that differ in one bit
        stream = NoiseStream(np.eye(3, dtype=dtype), sigma=1.0, dim=3 * CHUNK, on="sums", seed=seed)
        rows += [chunk for noise in stream for chunk in noise.reshape(3, CHUNK)]
    rows = np.array(rows)
    worst, limit = worst_entry(rows, np.eye(len(rows)))
    assert worst < limit
    sample = np.sort(rows.ravel())
    if dtype == "float64":  # no stream is another one shifted: of 600,000 such numbers no two should agree
        assert (np.diff(sample) > 0).all()
    steps = np.arange(sample.size + 1) / sample.size
    law = ndtr(sample)
    distance = max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max())
    # P(sqrt(n) D > x) <= 2 exp(-2 x^2) (Massart 1990).
    assert distance * math.sqrt(sample.size) < math.sqrt(math.log(2 / FALSE_ALARM) / 2)
    assert rows.dtype == dtype
