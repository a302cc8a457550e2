"""A small factorization to write, tamper with and read back."""

import numpy as np
import pytest

from csgm_cli.storage.arrays import ArrayFile

T = 5


@pytest.fixture
def factorization():
    """A = B C of a prefix sum of five, with C = I, a dual in float32, and metadata of every JSON type."""
    arrays = {
        "B": np.tril(np.ones((T, T))),
        "C": np.eye(T),
        "v": np.linspace(0.1, 1, T).astype(np.float32),
    }
    metadata = {"T": T, "workload": "prefix-sum", "gap": 1e-10, "notes": ["a", None, True, {"é": -0.0}]}
    return ArrayFile(arrays, metadata)
