"""Accuracy against compression on Fashion-MNIST: ``python -m benchmarks.experiments``."""
