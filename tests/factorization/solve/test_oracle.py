"""phi against a dense singular value decomposition, and against mpmath where that is ill-conditioned."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.factorization import matrix_workload, parse_workload, schedule_workload
from csgm_cli.factorization.solve.oracle import oracle_for
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Dual, Workload


def workloads(T, generator):
    """One of each structure."""
    rates = generator.uniform(0.05, 2.0, T)
    return [
        Workload(T),
        Workload(T, 0.9),
        Workload(T, 0.999),
        schedule_workload(rates),
        schedule_workload(rates, 0.5),
    ]


def by_svd(matrix, dual):
    """diag((W^T W)^(1/2)) and diag((W W^T)^(1/2))."""
    left, values, right = np.linalg.svd(np.sqrt(dual.rows)[:, None] * matrix * np.sqrt(dual.columns))
    return values @ right**2, left**2 @ values


@given(T=st.integers(1, 90), seed=st.integers(0, 2**32 - 1))
def test_chains_agree_with_svd(T, seed):
    """Both diagonals of every structured workload at random weights, within the claimed error and the SVD's.

    The SVD is that of W + E with ||E||_2 of the order of 2^-52 ||W||_2, and (W^T W)^(1/2) moves by at
    most sqrt(2) ||E||_F (Araki and Yamagami 1981), ||E||_F by at most sqrt(T) ||E||_2.
    """
    generator = np.random.default_rng(seed)
    dual = Dual(np.exp(generator.uniform(-3, 1, T)), np.exp(generator.uniform(-3, 1, T)))
    for workload in workloads(T, generator):
        found = oracle_for(workload).diagonals(dual, 1e-15, rows=True)
        columns, rows = by_svd(dense(workload), dual)
        weighted = np.sqrt(dual.rows)[:, None] * dense(workload) * np.sqrt(dual.columns)
        of_svd = math.sqrt(2 * T) * 2.0**-52 * np.linalg.norm(weighted, 2)
        assert found.error < 1e-12
        assert (abs(found.columns - columns) <= found.error * columns + of_svd).all()
        assert (abs(found.rows - rows) <= found.error * rows + of_svd).all()


@given(T=st.integers(1, 60), exponent=st.floats(1.0, 9.0))
def test_coarse_quadrature_is_within_its_error(T, exponent):
    """With few poles the claimed error is what is lost, and no more."""
    v = np.linspace(2.0, 0.1, T)
    dual = Dual(v, np.ones(T))
    found = oracle_for(Workload(T)).diagonals(dual, 10.0**-exponent, rows=False)
    columns, _ = by_svd(dense(Workload(T)), dual)
    assert abs(found.columns / columns - 1).max() <= found.error + 1e-13
    assert abs(found.h / columns.sum() - 1) <= found.error + 1e-13


def ill_conditioned(momentum):
    """Weights over 24 orders of magnitude, and both diagonals there by mpmath."""
    T = 24
    generator = np.random.default_rng(7)
    v, u = 10.0 ** generator.uniform(-12, 12, T), 10.0 ** generator.uniform(-3, 3, T)
    diagonals = []
    with mpmath.workdps(60):
        w = mpmath.matrix(T)
        for i in range(T):
            for j in range(i + 1):
                entry = sum(mpmath.mpf(momentum) ** k for k in range(i - j + 1))
                w[i, j] = mpmath.sqrt(u[i]) * entry * mpmath.sqrt(v[j])
        for gram in (w.T * w, w * w.T):
            values, vectors = mpmath.eigsy(gram)
            roots = [mpmath.sqrt(value) for value in values]
            diagonals.append([sum(roots[k] * vectors[i, k] ** 2 for k in range(T)) for i in range(T)])
    return Dual(v, u), diagonals


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_ill_conditioned_weights_against_mpmath(momentum):
    """Weights over 24 orders of magnitude: every entry keeps its digits, which float64 eigenvalues lose."""
    dual, exact = ill_conditioned(momentum)
    found = oracle_for(Workload(len(dual.rows), momentum)).diagonals(dual, 1e-15, rows=True)
    for diagonal, expected in zip((found.columns, found.rows), exact, strict=True):
        for value, right in zip(diagonal, expected, strict=True):
            assert abs(value / right - 1) <= found.error < 1e-12


def test_absolute_error_of_a_matrix_covers_what_relative_error_does_not():
    """LAPACK loses the small entries beside the largest singular value; what is lost is within the claim."""
    dual, exact = ill_conditioned(0.0)
    matrix = dense(Workload(len(dual.rows)))
    found = oracle_for(matrix_workload(matrix)).diagonals(dual, 1e-15, rows=True)
    relative = 0.0
    for diagonal, expected in zip((found.columns, found.rows), exact, strict=True):
        for value, right in zip(diagonal, expected, strict=True):
            assert abs(value - right) <= found.error * right + found.absolute
            relative = max(relative, abs(value / right - 1))
    assert relative > found.error  # the absolute error is needed
    assert 0.0 < found.absolute <= 1e-14 * max(exact[0])


def test_closed_form_at_equal_weights():
    """The nuclear norm of the prefix sums is sum_j 1/(2 sin((2j-1) pi/(4T+2))), at any T."""
    for T in (1, 2, 1000, 100_000):
        found = oracle_for(Workload(T)).diagonals(Dual(np.ones(T), np.ones(T)), 1e-15, rows=False)
        j = np.arange(1, T + 1)
        exact = (0.5 / np.sin((2 * j - 1) * np.pi / (4 * T + 2))).sum()
        assert abs(found.h / exact - 1) <= found.error + 1e-12
        assert found.error < 1e-9


def test_dense_oracle_is_the_same():
    """A matrix goes through LAPACK, to the same numbers."""
    workload = parse_workload("momentum=0.7", 40)
    dual = Dual(np.linspace(2, 0.2, 40), np.linspace(0.3, 1, 40))
    chain = oracle_for(workload).diagonals(dual, 1e-15, rows=True)
    matrix = oracle_for(matrix_workload(dense(workload))).diagonals(dual, 1e-15, rows=True)
    np.testing.assert_allclose(matrix.columns, chain.columns, rtol=1e-12)
    np.testing.assert_allclose(matrix.rows, chain.rows, rtol=1e-12)
    assert abs(matrix.h / chain.h - 1) <= matrix.error < 1e-11
