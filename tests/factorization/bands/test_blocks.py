"""Errors and gradients of banded C against the same written out with dense matrices."""

import numpy as np
import pytest

from csgm_cli.factorization.bands.blocks import bands_from, blocks_of, dual_blocks, evaluate

SIZES = [(1, 1), (5, 5), (7, 3), (50, 4), (64, 20), (33, 1), (40, 17)]


@pytest.mark.parametrize(("T", "p"), SIZES)
def test_rows_and_products_are_those_of_dense_matrices(make_bands, T, p):
    """Row norms of B, C D and D in the bands, for any weights of rows."""
    random_bands, dense_of = make_bands
    rng = np.random.default_rng(T)
    bands, weights = random_bands(rng, T, p), rng.random(T) + 0.1
    C = dense_of(bands)
    inverse, A = np.linalg.inv(C.T @ C), np.tri(T)
    D = inverse @ A.T @ np.diag(weights) @ A @ inverse
    found = evaluate(bands, weights)
    B = A @ np.linalg.inv(C)
    assert found.rows == pytest.approx((B**2).sum(axis=1), rel=1e-12)
    assert found.value == pytest.approx(weights @ (B**2).sum(axis=1), rel=1e-12)
    for (lower, left), exact in (((found.lower, found.left), C @ D), (dual_blocks(found), D)):
        held = dense_of(bands_from(lower, left, (p, T)))
        inside = np.tri(T) - np.tri(T, k=-p)
        assert held == pytest.approx(exact * inside, rel=1e-9, abs=1e-9 * abs(exact).max())


def test_the_gradient_is_the_limit_of_differences(make_bands):
    """df/dC = -2 C D in the bands."""
    random_bands, _ = make_bands
    rng = np.random.default_rng(1)
    bands, weights = random_bands(rng, 20, 3), np.ones(20)
    found = evaluate(bands, weights)
    gradient = -2 * bands_from(found.lower, found.left, bands.shape)
    for at, column in ((0, 0), (1, 7), (2, 17)):
        step = np.zeros_like(bands)
        step[at, column] = 1e-6
        rise = evaluate(bands + step, weights).value - evaluate(bands - step, weights).value
        assert rise / 2e-6 == pytest.approx(gradient[at, column], rel=1e-6)


@pytest.mark.parametrize(("T", "p"), SIZES)
def test_blocks_hold_the_bands(make_bands, T, p):
    """Into blocks and back."""
    bands = make_bands[0](np.random.default_rng(T), T, p)
    blocks = blocks_of(bands)
    assert (bands_from(blocks.lower, blocks.left, (p, T)) == bands).all()
