"""Softmax regression and networks with one hidden layer, for many clients at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Real numbers in single precision, which training needs no more of.
Singles: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
#: Other versions may round differently.
NUMPY_VERSION: str = np.__version__


@dataclass(frozen=True)
class Network:
    """Layers of affine maps with ReLU between them and cross-entropy loss.

    ``sizes``: (features, classes) for softmax regression, (features, hidden units, classes) for a hidden
    layer. Parameters are one vector, or one row for each client: weights, then biases, layer by layer.
    """

    sizes: tuple[int, ...]

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.sizes))

    def initial(self, seed: int) -> NDArray[np.float64]:
        """Parameters to start from: He's normal weights in a hidden layer, zeros elsewhere."""
        generator = np.random.default_rng([seed, 0])
        parameters = np.zeros(self.dim)
        if len(self.sizes) > 2:
            inputs, outputs = self.sizes[:2]
            std = np.sqrt(2.0 / inputs)
            parameters[: inputs * outputs] = std * generator.standard_normal(inputs * outputs)
        return parameters

    def accuracy(self, parameters: NDArray[np.float64], features: Singles, labels: Labels) -> float:
        """Share of the examples whose class has the highest score."""
        *_, scores = self._activations(parameters.astype(np.float32), features)
        return float(np.mean(scores.argmax(axis=-1) == labels))

    def gradients(self, parameters: Singles, features: Singles, labels: Labels) -> Singles:
        """Gradients of the mean loss, one row for each client.

        ``parameters``: (clients, dim). ``features``: (clients, examples, features). ``labels``: (clients,
        examples).
        """
        activations = self._activations(parameters, features)
        error = _softmax(activations.pop())
        at_label = labels[..., None]
        np.put_along_axis(error, at_label, np.take_along_axis(error, at_label, -1) - 1, axis=-1)
        error /= np.float32(labels.shape[-1])
        found = np.empty_like(parameters)
        layers = zip(self._layers(parameters), self._layers(found), activations, strict=True)
        for (weights, _), (of_weights, of_biases), inputs in reversed(list(layers)):
            np.matmul(inputs.swapaxes(-1, -2), error, out=of_weights)
            of_biases[...] = error.sum(axis=-2, keepdims=True)
            if inputs is not features:
                error = (error @ weights.swapaxes(-1, -2)) * (inputs > 0)
        return found

    def _activations(self, parameters: Singles, features: Singles) -> list[Singles]:
        """What each layer reads, and last the scores of the classes."""
        activations, inputs = [], features
        for weights, biases in self._layers(parameters):
            activations.append(inputs)
            scores = inputs @ weights + biases
            inputs = np.maximum(scores, 0)
        return [*activations, scores]

    def _layers(self, parameters: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Weights (..., inputs, outputs) and biases (..., 1, outputs) of each layer, as views."""
        rows, start = parameters.shape[:-1], 0
        for inputs, outputs in pairwise(self.sizes):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            weights = parameters[..., start:middle].reshape(*rows, inputs, outputs)
            yield weights, parameters[..., middle:end].reshape(*rows, 1, outputs)
            start = end


def local_updates(
    network: Network,
    parameters: NDArray[np.float64],
    features: Singles,
    labels: Labels,
    steps: int,
    rate: float,
) -> Singles:
    """The change of the parameters by ``steps`` of gradient descent, one row for each client."""
    shared = parameters.astype(np.float32)
    local = np.repeat(shared[None], len(features), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged client sends nothing
        for _ in range(steps):
            local -= np.float32(rate) * network.gradients(local, features, labels)
        local -= shared
    return local


def _softmax(scores: Singles) -> Singles:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: Singles = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return found
