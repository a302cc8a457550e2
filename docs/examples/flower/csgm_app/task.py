"""Softmax regression on synthetic data: four classes of 15 normal features."""

import numpy as np

CLASSES, FEATURES = 4, 15
EXAMPLES = 50  # per client


def initial_model():
    """The weights, one column per class, with the biases in the last row: 64 parameters."""
    return np.zeros((FEATURES + 1, CLASSES), np.float32)


def examples(seed, count):
    """Features, with a constant 1 as the last one, and labels."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=count)
    features = centres[labels] + rng.normal(size=(count, FEATURES))
    return np.column_stack([features, np.ones(count)]), labels


def train(weights, features, labels, steps=5, learning_rate=0.5):
    """The weights after ``steps`` steps of gradient descent."""
    for _ in range(steps):
        scores = features @ weights
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        errors = scores / scores.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]
        weights = weights - learning_rate * features.T @ errors / len(labels)
    return weights.astype(np.float32)


def accuracy(weights, features, labels):
    """The fraction of examples whose class has the largest score."""
    return float(np.mean(np.argmax(features @ weights, axis=1) == labels))
