"""Quotients of lower-triangular matrices: against LAPACK, and residuals in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from csgm_cli.factorization.matrices import triangular
from csgm_cli.factorization.matrices.triangular import inverse


def exactly(x):
    return np.array([[Fraction(float(entry)) for entry in row] for row in x], dtype=object)


def right_quotient(a, c):
    return triangular.right_quotient(a.copy(), c)


def left_quotient(b, a):
    return triangular.left_quotient(b, lambda start, stop: a[:, start:stop].copy())


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200, 700])
def test_against_lapack(n):
    """At sizes around the blocks."""
    rng = np.random.default_rng(n)
    a, c = (np.tril(rng.standard_normal((n, n))) / np.sqrt(n) + 5 * np.eye(n) for _ in range(2))
    np.testing.assert_allclose(inverse(c), np.linalg.inv(c), atol=1e-12)
    np.testing.assert_allclose(right_quotient(a, c), a @ np.linalg.inv(c), atol=1e-12)
    np.testing.assert_allclose(left_quotient(c, a), np.linalg.inv(c) @ a, atol=1e-12)


@pytest.mark.parametrize("n", [12, 40, 70])
def test_what_is_left_over_is_rounding(n):
    """Random triangular matrices have a condition that doubles with each row; residuals do not see it."""
    rng = np.random.default_rng(n)
    a, c = (np.tril(rng.standard_normal((n, n))) for _ in range(2))
    assert n < 40 or np.linalg.cond(c) > 1e10
    x = right_quotient(a, c)
    left = np.abs(exactly(x) @ exactly(c) - exactly(a)).astype(float)
    assert (left <= n * 2.0**-53 * (np.abs(x) @ np.abs(c)) * (1 + 1e-10)).all()
    y = left_quotient(c, a)
    left = np.abs(exactly(c) @ exactly(y) - exactly(a)).astype(float)
    assert (left <= n * 2.0**-53 * (np.abs(c) @ np.abs(y)) * (1 + 1e-10)).all()


def test_of_itself_is_one():
    """Exactly, whatever the condition."""
    c = np.tril(np.random.default_rng(0).standard_normal((100, 100)))
    np.testing.assert_array_equal(right_quotient(c, c), np.eye(100))
    np.testing.assert_array_equal(left_quotient(c, c), np.eye(100))
