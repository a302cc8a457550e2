"""Examples with labels: a synthetic set, and their partition among clients."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from csgm_cli.simulation.networks import Labels, Singles

SYNTHETIC = "synthetic"
#: With this standard deviation of the class means, a linear classifier is right for nine examples in ten.
_SPREAD = 0.4
_CLASSES, _FEATURES, _TRAINING, _TEST = 10, 64, 12_000, 2_000


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples, one a row; labels count from 0."""

    name: str
    features: Singles
    labels: Labels
    test_features: Singles
    test_labels: Labels

    @property
    def sha256(self) -> str:
        """SHA-256 of all numbers, in hexadecimal."""
        found = hashlib.sha256()
        for array in (self.features, self.labels, self.test_features, self.test_labels):
            found.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return found.hexdigest()

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.labels.max(), self.test_labels.max())) + 1


def synthetic_dataset(seed: int) -> Dataset:
    """Ten classes of standard normal vectors of 64 numbers, around means drawn from ``seed``."""
    generator = np.random.default_rng([seed, 1])
    means = _SPREAD * generator.standard_normal((_CLASSES, _FEATURES))
    labels = generator.permutation(np.arange(_TRAINING + _TEST) % _CLASSES)
    features = means[labels] + generator.standard_normal((len(labels), _FEATURES))
    first, last = np.split(features.astype(np.float32), [_TRAINING])
    return Dataset(SYNTHETIC, first, labels[:_TRAINING], last, labels[_TRAINING:])


def partition(labels: Labels, clients: int, concentration: float | None, seed: int) -> NDArray[np.int64]:
    """The examples of each client, equally many, one row for each client.

    ``concentration``: None to assign them at random, or A > 0 to draw the shares of the classes of each
    client from a symmetric Dirichlet(A) distribution; classes that run out are replaced by others.

    Raises:
        UsageError: more clients than examples (slug ``too-many-clients``).
    """
    count = len(labels) // clients
    if count == 0:
        message = f"{clients} clients are too many for {len(labels)} training examples"
        raise UsageError("too-many-clients", message, "`population_size`")
    generator = np.random.default_rng([seed, 2])
    order = generator.permutation(len(labels))
    if concentration is None:
        return order[: clients * count].reshape(clients, count)
    of_class = [order[labels[order] == label] for label in range(int(labels.max()) + 1)]
    left = np.array([len(found) for found in of_class])
    rows = np.empty((clients, count), np.int64)
    for row in rows:
        shares = generator.dirichlet(np.full(len(left), concentration))
        row[:] = np.concatenate(_take(of_class, left, _counts(generator, shares, left, count)))
    return rows


def _counts(
    generator: np.random.Generator, shares: NDArray[np.float64], left: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """How many examples of each class one client gets, none more than are left."""
    counts = np.minimum(generator.multinomial(count, shares), left)
    while (missing := count - int(counts.sum())) > 0:
        most = int(np.argmax(left - counts))
        counts[most] += min(missing, int(left[most] - counts[most]))
    return counts


def _take(
    of_class: list[NDArray[np.int64]], left: NDArray[np.int64], counts: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Remove ``counts`` examples of each class from those that are left, and return them."""
    ends = left.copy()
    left -= counts
    return [found[start:end] for found, start, end in zip(of_class, left, ends, strict=True)]
