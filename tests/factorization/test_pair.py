"""Products of B and C in panels, and factors that complete one another, against dense linear algebra."""

from functools import partial

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.factorization import dense_factors, factorize, matrix_workload, parse_workload
from csgm_cli.factorization.export import _noise_growth
from csgm_cli.factorization.matrices.triangular import PANEL
from csgm_cli.factorization.norms import noise_sensitivity
from csgm_cli.factorization.pair import Pair, pair_of
from csgm_cli.factorization.workload import columns, dense, schedule_workload
from csgm_cli.model.factorization import strategy_named


@pytest.mark.parametrize("strategy", ["identity", "tree", "toeplitz-sqrt"])
@pytest.mark.parametrize("at", [(3, 5), (PANEL + 70, 2), (PANEL + 70, PANEL + 30), (2, PANEL + 30)])
def test_residual_in_panels(strategy, at):
    """One wrong entry in any block, above or below the diagonal, has the residual of the full product."""
    workload = parse_workload("prefix-sum", PANEL + 88)
    factors = dense_factors(factorize(workload, strategy_named(strategy)))
    b, c = factors.B.copy(), factors.C
    b[at] += 0.25
    off = np.abs(b @ c - dense(workload))
    scale = np.outer(np.linalg.norm(b, axis=1), np.linalg.norm(c, axis=0))
    assert Pair(b, c).residual(partial(columns, workload)) == pytest.approx((off / scale).max(), rel=1e-9)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_columns_of_a_workload(momentum):
    """Any panel is that of the product of its factors."""
    rates = np.linspace(0.1, 2.0, 30)
    i, j = np.indices((30, 30))
    a = np.tri(30) @ np.diag(rates) @ np.where(i >= j, momentum ** np.maximum(i - j, 0), 0.0)
    for start, stop in ((0, 30), (7, 19), (29, 30)):
        found = columns(schedule_workload(rates, momentum), start, stop)
        np.testing.assert_allclose(found, a[:, start:stop], rtol=1e-13)


@pytest.mark.parametrize("rows", [6, 11])
def test_factors_by_the_pseudo_inverse(rows):
    """B = A C^+ and C = B^+ A, whatever the shape."""
    a = np.tril(np.random.default_rng(rows).normal(size=(6, 6))) + 3 * np.eye(6)
    c = np.random.default_rng(1).normal(size=(rows, 6))
    workload = matrix_workload(a)
    np.testing.assert_allclose(pair_of(workload, {"C": c}).B, a @ np.linalg.pinv(c), atol=1e-12)
    np.testing.assert_allclose(pair_of(workload, {"B": c.T}).C, np.linalg.pinv(c.T) @ a, atol=1e-12)
    np.testing.assert_allclose(pair_of(workload, {"C_inv": c.T}).C, np.linalg.pinv(c.T), atol=1e-12)


@pytest.mark.parametrize("name", ["B", "C", "C_inv"])
@pytest.mark.parametrize("tiny", [0.0, 1e-14])
def test_low_rank_is_refused(name, tiny):
    """To the last digit or to rounding: a product that hides behind huge factors is none."""
    x = np.ones((5, 3)) + tiny * np.random.default_rng(0).normal(size=(5, 3))
    with pytest.raises(UsageError, match="linearly dependent"):
        pair_of(parse_workload("prefix-sum", 3), {name: x if name == "C" else x.T})


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_bound_on_the_sensitivity_of_noise(momentum, precision):
    """It is above what solving for the factor finds, whose own rounding is 1e-13, and below the tolerance."""
    workload = schedule_workload(np.geomspace(1.0, 0.01, 150), momentum)
    factors = dense_factors(factorize(workload, tolerance=1e-6), precision)
    growth = _noise_growth(workload, factors)
    assert growth < (1.0 + 1e-6 if precision == "float64" else 1.5)
    for name in ("B", "C_inv"):
        found = noise_sensitivity(workload, name, getattr(factors, name)) / factors.sensitivity
        assert found <= growth + 1e-13
