"""Banded matrices of any numbers, and the same written out."""

import numpy as np
import pytest


def dense_of(bands):
    """C itself, T x T."""
    p, T = bands.shape
    C = np.zeros((T, T))
    for at in range(p):
        C += np.diag(bands[at, : T - at], -at)
    return C


def random_bands(rng, T, p):
    """A well-conditioned C, shape (p, T)."""
    bands = rng.normal(size=(p, T)) / (3 * p)
    bands[0] = 1 + rng.random(T)
    for at in range(1, p):
        bands[at, -at:] = 0
    return bands


@pytest.fixture
def make_bands():
    """`random_bands` and `dense_of`."""
    return random_bands, dense_of
