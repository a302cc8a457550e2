"""The synthetic set and the partition of examples."""

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.simulation.datasets import partition, synthetic_dataset

LABELS = np.random.default_rng(2).integers(0, 10, size=3000)


def largest_share(rows):
    """The share of the commonest class of a client, averaged over clients."""
    return np.mean([np.bincount(LABELS[row]).max() / len(row) for row in rows])


@pytest.mark.parametrize("concentration", [None, 0.05, 1.0, 100.0])
@pytest.mark.parametrize("clients", [1, 70, 3000])
def test_no_example_has_two_clients(clients, concentration):
    """Clients are disjoint and equally large."""
    rows = partition(LABELS, clients, concentration, seed=3)
    assert rows.shape == (clients, 3000 // clients)
    assert len(np.unique(rows)) == rows.size


def test_skew_grows_as_the_concentration_falls():
    """Dirichlet shares range from one class to equal shares; with A large they are as at random."""
    shares = [largest_share(partition(LABELS, 100, a, seed=3)) for a in (0.05, 0.5, 100.0)]
    assert shares[0] > 0.7 > shares[1] > shares[2]
    assert shares[2] == pytest.approx(largest_share(partition(LABELS, 100, None, seed=3)), abs=0.05)


def test_more_clients_than_examples_are_refused():
    """A client needs an example."""
    with pytest.raises(UsageError, match="too many"):
        partition(LABELS, 3001, None, seed=0)


def test_synthetic_set_depends_on_its_seed_alone():
    """Ten equally frequent classes, and a nearest-mean rule is right for most examples."""
    first, again, other = synthetic_dataset(1), synthetic_dataset(1), synthetic_dataset(2)
    assert first.sha256 == again.sha256 != other.sha256
    counts = np.bincount(np.concatenate([first.labels, first.test_labels]))
    assert set(counts) == {len(first.labels) // 10 + len(first.test_labels) // 10}
    means = np.array([first.features[first.labels == label].mean(axis=0) for label in range(10)])
    distances = ((first.test_features[:, None] - means) ** 2).sum(axis=2)
    assert np.mean(distances.argmin(axis=1) == first.test_labels) > 0.85
