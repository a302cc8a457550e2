"""The second derivatives of the dual, against differences of the first ones and against a dense path."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.factorization import matrix_workload, parse_workload, schedule_workload
from csgm_cli.factorization.solve.curvature import curvature
from csgm_cli.factorization.solve.oracle import oracle_for
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Dual

T = 20
RATES = np.linspace(1.0, 0.1, T)
WORKLOADS = {
    "prefix-sum": parse_workload("prefix-sum", T),
    "momentum": parse_workload("momentum=0.9", T),
    "rates": schedule_workload(RATES),
    "both": schedule_workload(RATES, 0.9),
    "matrix": matrix_workload(np.tril(np.random.default_rng(5).normal(size=(T, T))) + np.eye(T)),
}


def gradient(workload, logarithms):
    """2T d log h / d log theta = T phi / h."""
    v, u = np.exp(logarithms.T)
    found = oracle_for(workload).diagonals(Dual(v, u), 1e-15, rows=True)
    return np.stack([found.columns, found.rows], axis=1) * workload.T / found.h


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", WORKLOADS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_against_differences(name, rows, seed):
    """S x + diagonal x is the right side, with S x from gradients at either side along x."""
    workload, k = WORKLOADS[name], 2 if rows else 1
    random = np.random.default_rng(seed)
    x = random.uniform(-1.0, 1.0, (T, 2))
    if not rows:
        x[:, 1] = 0.0
    diagonal, right = random.uniform(0.1, 1.0, (T, k)), random.normal(size=(T, k))
    dual = Dual(*np.exp(x.T))
    step = np.zeros((T, 2))
    step[:, :k] = curvature(workload, dual, 1e-12, rows=rows).solve(diagonal, right)
    e = 1e-5
    slope = (gradient(workload, x + e * step) - gradient(workload, x - e * step)) / (2.0 * e)
    # theta_i theta_k d^2 f = d^2 f / (d log theta_i d log theta_k), less the first derivative where i = k.
    product = (gradient(workload, x) * step - slope)[:, :k]
    np.testing.assert_allclose(product + diagonal * step[:, :k], right, atol=1e-7)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", ["prefix-sum", "momentum", "rates", "both"])
def test_chain_against_dense(name, rows):
    """Semiseparable factors and a dense system have one solution, with weights over twelve orders too."""
    workload, k = WORKLOADS[name], 2 if rows else 1
    random = np.random.default_rng(7)
    for spread in (0.0, 3.0, 12.0):
        weights = 10.0 ** (-spread * random.uniform(size=T))
        dual = Dual(weights, weights[::-1].copy() if rows else np.ones(T))
        diagonal, right = random.uniform(0.1, 1.0, (T, k)), random.normal(size=(T, k))
        chain, matrix = (
            curvature(of, dual, 1e-12, rows=rows).solve(diagonal, right)
            for of in (workload, matrix_workload(dense(workload)))
        )
        np.testing.assert_allclose(chain, matrix, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["momentum", "matrix"])
def test_indefinite_is_refused(name):
    """A negative diagonal has no Newton step."""
    dual = Dual(np.ones(T), np.ones(T))
    with pytest.raises(ArithmeticError):
        curvature(WORKLOADS[name], dual, 1e-9, rows=True).solve(np.full((T, 2), -5.0), np.ones((T, 2)))


def test_memory_grows_like_the_rows():
    """Twice the rows take twice the memory, not four times."""
    peaks = []
    for rows in (512, 1024):
        workload, dual = parse_workload("momentum=0.9", rows), Dual(np.ones(rows), np.ones(rows))
        tracemalloc.start()
        try:
            curvature(workload, dual, 1e-6, rows=True).solve(np.ones((rows, 2)), np.ones((rows, 2)))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]
