"""The recursions of the streaming form: in blocks they are what they are row by row, in more digits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import NoAnswerError
from csgm_cli.factorization.matrices import semiseparable as module
from csgm_cli.factorization.matrices.quadrature import inverse_sqrt_poles
from csgm_cli.factorization.matrices.semiseparable import (
    column_norms_squared,
    dense_from,
    generators,
    norm_margin,
    row_errors,
)
from csgm_cli.factorization.workload import dense, schedule_workload
from csgm_cli.model.factorization import Dual, Workload

MORE_DIGITS = np.longdouble


def example(T, n, seed=0, rates=None, constant=0.0):
    """A workload without momentum, uneven weights on both sides, and the generators of ``n`` poles."""
    rng = np.random.default_rng(seed)
    workload = Workload(T) if rates is None else schedule_workload(rates)
    dual = Dual(np.exp(rng.uniform(-2, 2, T)), np.exp(rng.uniform(-2, 2, T)))
    poles = replace(inverse_sqrt_poles(0.1 / T**2, 10.0, n), constant=constant)
    return workload, dual, poles, generators(workload, dual, poles, np.ones(T))


def chains(workload, dual, poles):
    """Decays, outputs and diagonal of C before its columns are scaled: filter the chains in white noise.

    For states before their decay, so that the inputs are 1.
    """
    rates = np.ones(workload.T) if workload.learning_rates is None else workload.learning_rates
    v, u = (dual.columns * rates**2).astype(MORE_DIGITS), dual.rows.astype(MORE_DIGITS)
    T, n = len(v), len(poles.shifts)
    decays, gains, diagonal = np.empty((T, n), MORE_DIGITS), np.empty((T, n), MORE_DIGITS), np.empty(T)
    known = np.zeros(n, MORE_DIGITS)
    for i in range(T):
        known = known + poles.shifts * v[i]
        decays[i] = 1 / (1 + u[i] * known)
        known = known * decays[i]
    covariance = np.zeros((n, n), MORE_DIGITS)
    for i in reversed(range(T)):
        covariance = covariance * decays[i] * decays[i][:, None]
        covariance = covariance + np.diag(poles.weights * u[i] * decays[i])
        gain = covariance.sum(axis=1)
        diagonal[i] = np.sqrt(gain.sum() + poles.constant / v[i])
        gains[i] = gain / diagonal[i]
        covariance = covariance - np.outer(gains[i], gains[i])
    before = np.vstack([np.ones(n), decays[:-1]])
    return before, gains * before, diagonal


def norms_row_by_row(g):
    """Squared column norms, from the last row to the first."""
    T, n = g.decays.shape
    decays, inputs, outputs = (x.astype(MORE_DIGITS) for x in (g.decays, g.inputs, g.outputs))
    gram, norms = np.zeros((n, n), MORE_DIGITS), g.diagonal.astype(MORE_DIGITS) ** 2
    for i in reversed(range(T)):
        norms[i] += inputs[i] @ gram @ inputs[i]
        gram = gram * decays[i] * decays[i][:, None] + np.outer(outputs[i], outputs[i])
    return norms


def errors_row_by_row(rates, g):
    """Squared row norms of B: covariances of (state, released), with x = (z - outputs state)/diagonal."""
    T, n = g.decays.shape
    covariance, found = np.zeros((n + 1, n + 1), MORE_DIGITS), np.empty(T, MORE_DIGITS)
    for i in range(T):
        entry = np.append(g.inputs[i], rates[i]).astype(MORE_DIGITS)
        step = np.diag(np.append(g.decays[i], 1.0).astype(MORE_DIGITS))
        step[:, :n] -= np.outer(entry, g.outputs[i].astype(MORE_DIGITS) / g.diagonal[i])
        covariance = step @ covariance @ step.T + np.outer(entry, entry) / MORE_DIGITS(g.diagonal[i]) ** 2
        found[i] = covariance[n, n]
    return found


@pytest.mark.parametrize("constant", [0.0, 0.3])
@pytest.mark.parametrize(("T", "n"), [(63, 1), (64, 4), (1000, 2), (1025, 8), (5000, 24), (20_000, 4)])
def test_generators_row_by_row(T, n, constant):
    """Blocks of any number and length give the filter of the whole."""
    workload, dual, poles, g = example(T, n, constant=constant)
    decays, outputs, diagonal = chains(workload, dual, poles)
    np.testing.assert_allclose(g.decays, decays.astype(float), rtol=1e-13)
    np.testing.assert_allclose(g.outputs, outputs.astype(float), rtol=1e-10)
    scale = np.broadcast_to((g.diagonal / diagonal)[:, None], g.inputs.shape)
    np.testing.assert_allclose(g.inputs, scale, rtol=1e-12)
    np.testing.assert_allclose(column_norms_squared(g), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("T", "n"), [(70, 3), (1000, 2), (4099, 8), (100_000, 2)])
def test_norms_and_errors_row_by_row(T, n):
    """Closed over blocks they are the sums over rows, up to T = 100,000; the norms within their margin."""
    rates = np.random.default_rng(1).uniform(0.5, 2.0, T)
    workload, _, _, g = example(T, n, rates=rates)
    exact = norms_row_by_row(g)
    assert float(np.abs(column_norms_squared(g) / exact - 1).max()) < norm_margin(g) / 2
    expected = errors_row_by_row(rates, g).astype(float)
    np.testing.assert_allclose(row_errors(workload, g), expected, rtol=1e-11)


def test_gram_matrix_of_a_rational_function():
    """Before its columns are scaled C^T C is D_v^(-1/2) r(K^-1) D_v^(-1/2), by dense eigenvectors."""
    workload, dual, poles, g = example(90, 3, rates=np.linspace(0.5, 2.0, 90), constant=0.2)
    root = np.sqrt(dual.columns)
    w = np.sqrt(dual.rows)[:, None] * dense(workload) * root
    _, values, vectors = np.linalg.svd(w)
    x = values**-2.0
    r = poles.constant + (poles.weights / (x[:, None] + poles.shifts)).sum(axis=1)
    gram = (vectors.T * r) @ vectors / root / root[:, None]
    norms = np.sqrt(np.diag(gram))
    c = dense_from(g)
    np.testing.assert_allclose(c.T @ c, gram / norms / norms[:, None], rtol=1e-8, atol=1e-10)


@given(T=st.integers(1, 150), n=st.integers(1, 6), seed=st.integers(0, 2**32 - 1), length=st.integers(1, 160))
@settings(max_examples=40, deadline=None)
def test_any_blocks(T, n, seed, length):
    """Whatever the length of a block: dense C, and norms of its columns and of the rows of A C^-1."""
    rates = np.random.default_rng(seed).uniform(0.2, 3.0, T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_length", lambda *_: min(T, length))
        workload, dual, poles, g = example(T, n, seed, rates)
        norms, errors = column_norms_squared(g), row_errors(workload, g)
    c = dense_from(g)
    np.testing.assert_allclose(norms, (c**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(errors, ((dense(workload) @ np.linalg.inv(c)) ** 2).sum(axis=1), rtol=1e-9)
    _, outputs, _ = chains(workload, dual, poles)
    np.testing.assert_allclose(g.outputs, outputs.astype(float), rtol=1e-9)


@pytest.mark.parametrize("T", [60, 700])
def test_weights_beyond_float64(T):
    """No NaN: where rounding leaves nothing of the filter it is said, by one block and by several."""
    v, u = np.exp(np.random.default_rng(2).uniform(-50, 50, (2, T)))
    with pytest.raises(NoAnswerError, match="beyond float64"):
        generators(Workload(T), Dual(v, u), inverse_sqrt_poles(1e-6, 1e3, 3), np.ones(T))


def test_the_margin_grows_like_the_number_of_steps():
    """2^-40 as long as that is more, then six roundings for every row of a block and every block."""
    assert norm_margin(example(1000, 4)[3]) == 2.0**-40
    T = 10**6
    zeros = np.zeros((T, 1))
    margin = norm_margin(module.Generators(zeros, zeros, zeros, np.ones(T)))
    assert math.isclose(margin, (6 * 3000 + 9) * 2.0**-53)
