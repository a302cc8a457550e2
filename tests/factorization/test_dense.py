"""Dense factors: reference vectors, the invariants of the theory, rounding, and memory."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.factorization import dense_bytes, dense_factors, factorize, matrix_workload
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Objective, Workload, strategy_named


@pytest.mark.parametrize("T", [4, 8, 32])
def test_vectors_of_the_reference(reference, T):
    """B and C of the optimal mean factorization, which are unique."""
    vectors = reference["factorization"]["vectors"]
    factors = dense_factors(factorize(Workload(T), tolerance=1e-12))
    if T < 32:
        np.testing.assert_allclose(factors.C, vectors[f"C_T{T}"], atol=1e-9)
        np.testing.assert_allclose(factors.B, vectors[f"B_T{T}"], atol=1e-9)
    else:
        np.testing.assert_allclose(factors.C[:, 0], vectors["C_first_column_T32"], atol=1e-9)
        np.testing.assert_allclose(np.diag(factors.C), vectors["C_diag_T32"], atol=1e-9)
        np.testing.assert_allclose((factors.B**2).sum(axis=1), vectors["B_row_norm_sq_T32"], atol=1e-8)


@pytest.mark.parametrize("T", [3, 32, 300])
def test_invariants(T):
    """At the optimum: unit columns, C and B nonnegative, C^-1 nonpositive off the diagonal, last entry 1."""
    factors = dense_factors(factorize(Workload(T), tolerance=1e-11))
    np.testing.assert_allclose((factors.C**2).sum(axis=0), 1.0, atol=1e-12)
    for lower in (factors.B, factors.C, factors.C_inv):
        assert (np.triu(lower, 1) == 0).all()
    assert (np.tril(factors.C) >= 0).all()
    assert (np.tril(factors.B) >= -1e-13).all()
    assert (np.tril(factors.C_inv, -1) <= 1e-13).all()
    assert math.isclose(factors.C[-1, -1], 1.0, rel_tol=1e-12)
    np.testing.assert_allclose(factors.C @ factors.C_inv, np.eye(T), atol=1e-12)
    np.testing.assert_allclose(factors.B @ factors.C, dense(Workload(T)), atol=1e-12)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_two_ways_to_the_optimum(objective, momentum):
    """The semiseparable factor is the Cholesky factor by a dense singular value decomposition."""
    workload = Workload(50, momentum)
    found = factorize(workload, objective=objective, tolerance=1e-8)
    other = factorize(matrix_workload(dense(workload)), objective=objective, tolerance=1e-8)
    np.testing.assert_allclose(dense_factors(found).C, dense_factors(other).C, atol=2e-3)
    # From the same dual they are equal to rounding.
    same = factorize(matrix_workload(dense(workload)), objective=objective, tolerance=2e-8, start=found.dual)
    assert same.iterations == 1
    np.testing.assert_allclose(dense_factors(found).C, dense_factors(same).C, atol=1e-10)


@given(
    T=st.integers(1, 70),
    spec=st.sampled_from(
        ["optimal", "streaming:2", "toeplitz-sqrt", "toeplitz-sqrt-normalized", "tree", "output"]
    ),
    precision=st.sampled_from(["float32", "float64"]),
)
@settings(max_examples=60, deadline=None)
def test_rounding_never_raises_the_sensitivity(T, spec, precision):
    """Column norms, summed exactly, are at most the sensitivity; float32 costs no more than its digits."""
    found = factorize(Workload(T), strategy_named(spec), tolerance=1e-6)
    factors = dense_factors(found, precision)
    assert factors.C.dtype == factors.B.dtype == precision
    norms = [math.sqrt(math.fsum(float(x) ** 2 for x in column)) for column in factors.C.T]
    limit = found.sensitivity * (1 + 1e-15) if spec == "tree" else found.sensitivity
    assert max(norms) <= limit
    assert math.isclose(max(norms), found.sensitivity, rel_tol=1e-6 if precision == "float32" else 1e-12)
    assert math.isclose(factors.sensitivity, max(norms), rel_tol=1e-14)
    product = factors.B.astype(float) @ factors.C.astype(float)
    np.testing.assert_allclose(product, dense(Workload(T)), atol=1e-4 if precision == "float32" else 1e-12)
    rows = (factors.B.astype(float) ** 2).sum(axis=1)
    assert math.isclose(factors.mean_squared_error, factors.sensitivity**2 * rows.mean(), rel_tol=1e-12)
    assert math.isclose(factors.max_squared_error, factors.sensitivity**2 * rows.max(), rel_tol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_memory_is_as_said(momentum, precision):
    """The peak is below what ``dense_bytes`` says and not far below."""
    workload = Workload(500, momentum)
    found = factorize(workload, tolerance=1e-6)
    tracemalloc.start()
    try:
        dense_factors(found, precision)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= dense_bytes(workload) * 1.1
    assert peak >= dense_bytes(workload) * 0.5
    assert dense_bytes(Workload(10**7)) > 10**15
