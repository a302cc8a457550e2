"""The lower bound on the error of all banded C, against its formula and against their optima."""

import numpy as np
import pytest
from scipy.optimize import minimize

from csgm_cli.factorization.bands import certificate
from csgm_cli.factorization.bands.blocks import evaluate
from csgm_cli.factorization.bands.certificate import lower_bound


@pytest.mark.parametrize(("T", "p"), [(1, 1), (7, 3), (5, 5), (50, 4), (64, 20), (33, 1), (520, 2)])
def test_the_bound_is_that_of_its_formula(make_bands, T, p):
    """With dense matrices: f* >= (f - tr(E X)/2)^2 / (D . n^2 + sum |R_ij| n_i n_j in the bands)."""
    random_bands, dense_of = make_bands
    rng = np.random.default_rng(T)
    norms, weights = 1 + rng.random(T), rng.random(T) + 0.1
    bands = random_bands(rng, T, p)
    bands *= norms / np.sqrt((bands**2).sum(axis=0))
    C, A = dense_of(bands), np.tri(T)
    X = C.T @ C
    D = np.linalg.inv(X) @ A.T @ np.diag(weights) @ A @ np.linalg.inv(X)
    inside = abs(np.subtract.outer(np.arange(T), np.arange(T))) < p
    E = D * inside - np.diag(np.diag(D))
    R = E @ np.linalg.inv(D) @ E / 4
    f = np.trace(A.T @ np.diag(weights) @ A @ np.linalg.inv(X))
    most = np.diag(D) @ norms**2 + (abs(R) * inside * np.outer(norms, norms)).sum()
    assert lower_bound(evaluate(bands, weights), norms, p) == pytest.approx(
        (f - np.trace(E @ X) / 2) ** 2 / most, rel=1e-9
    )


def test_the_bound_is_computed_in_parts(make_bands, monkeypatch):
    """The number of block rows at a time saves memory, and changes nothing."""
    bands = make_bands[0](np.random.default_rng(5), 90, 4)
    found, norms = evaluate(bands, np.ones(90)), np.ones(90)
    whole = lower_bound(found, norms, 4)
    for rows in (1, 2, 5):
        monkeypatch.setattr(certificate, "_AT_ONCE", rows)
        assert lower_bound(found, norms, 4) == pytest.approx(whole, rel=1e-12)


def test_no_banded_matrix_is_below_the_bound(make_bands):
    """The best of general minimisations stays above the bounds of random C, and close to that of its own."""
    random_bands, dense_of = make_bands
    T, p = 6, 2
    rng = np.random.default_rng(2)

    def normalised(x):
        bands = np.zeros((p, T))
        bands[0], bands[1, :-1] = x[:T], x[T:]
        return bands / np.sqrt((bands**2).sum(axis=0))

    def error(x):
        return float(((np.tri(T) @ np.linalg.inv(dense_of(normalised(x)))) ** 2).sum())

    found = minimize(error, np.r_[np.ones(T), np.full(T - 1, 0.3)], tol=1e-14)
    bounds = []
    for _ in range(200):
        bands = random_bands(rng, T, p)
        bands /= np.sqrt((bands**2).sum(axis=0))
        bounds.append(lower_bound(evaluate(bands, np.ones(T)), np.ones(T), p))
    assert max(bounds) <= found.fun
    own = lower_bound(evaluate(normalised(found.x), np.ones(T)), np.ones(T), p)
    assert own == pytest.approx(found.fun, rel=1e-9)
