"""Gradients of the models, against differences of the loss."""

from itertools import pairwise

import numpy as np
import pytest

from csgm_cli.simulation.networks import Network, local_updates

RANDOM = np.random.default_rng(5)
FEATURES = RANDOM.normal(size=(3, 7, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 4, size=(3, 7))


def loss(sizes, parameters, features, labels):
    """Mean cross-entropy of one client, written out in float64."""
    values, start, layers = features.astype(float), 0, len(sizes) - 1
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        weights = parameters[start : start + inputs * outputs].reshape(inputs, outputs)
        start += inputs * outputs
        values = values @ weights + parameters[start : start + outputs]
        start += outputs
        values = np.maximum(values, 0) if layer < layers - 1 else values
    scores = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
    return -scores[np.arange(len(labels)), labels].mean()


@pytest.mark.parametrize("sizes", [(6, 4), (6, 5, 4)])
def test_gradients_are_derivatives_of_the_loss(sizes):
    """Central differences in every parameter, for clients with different parameters."""
    network = Network(sizes)
    assert network.dim == sum((a + 1) * b for a, b in pairwise(sizes))
    parameters = RANDOM.normal(size=(3, network.dim))
    found = network.gradients(parameters.astype(np.float32), FEATURES, LABELS)
    steps = 1e-5 * np.eye(network.dim)
    for client in range(3):
        at = lambda shift, i=client: loss(sizes, parameters[i] + shift, FEATURES[i], LABELS[i])
        expected = [(at(step) - at(-step)) / 2e-5 for step in steps]
        assert found[client] == pytest.approx(expected, abs=2e-5)


def test_local_steps_reduce_the_loss():
    """Each client descends on its own examples."""
    network = Network((6, 5, 4))
    start = network.initial(seed=1)
    updates = local_updates(network, start, FEATURES, LABELS, steps=20, rate=0.2)
    for update, features, labels in zip(updates, FEATURES, LABELS, strict=True):
        assert loss((6, 5, 4), start + update, features, labels) < loss((6, 5, 4), start, features, labels)


def test_accuracy_counts_the_highest_score():
    """Scores of the identity are the features."""
    parameters = np.concatenate([np.eye(4).ravel(), np.zeros(4)])
    features = np.eye(4, dtype=np.float32)
    assert Network((4, 4)).accuracy(parameters, features, np.array([0, 1, 2, 0])) == 0.75
