"""The test functions of docs/theory.md in float64, integrated by hand, and shapes to try them in."""

import math

import numpy as np

INFINITE = math.inf


def power_integral(power, r):
    """Integral of x^(power-1) from 1 to ``r``."""
    return np.log(r) if power == 0 else np.expm1(power * np.log(r)) / power


def add_phi(u, scale, knee, exponent):
    """The convex function with phi'' u = scale (u/knee)^-B from the knee on, 0 before: integrated by hand."""
    r = np.maximum(u / knee, 1.0)
    return scale * knee * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


def remove_phi(u, scale, knee, exponent):
    """The one with phi(inf) = 0."""
    beyond = np.maximum(u / knee, 1.0) ** (1 - exponent) / (exponent * (exponent - 1))
    return scale * knee * (beyond + np.maximum(1 - u / knee, 0.0) / exponent)


def concave_phi(u, scale, knee, exponent):
    """The one with phi'' u = scale (u/knee)^-B' up to the knee, 0 beyond."""
    r = np.minimum(u / knee, 1.0)
    return scale * knee * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


ADD_SHAPES = [
    (epsilon, exponent, r)
    for epsilon in (0.0, 0.3, 5.0)
    for exponent in (0, 1e-9, 0.4, 1, 1 + 1e-9, 2.5, 34, 500)
    for r in (1.001, 1.5, 20.0, INFINITE)
    if r < INFINITE or exponent > 1
]
REMOVE_SHAPES = [(epsilon, exponent) for epsilon in (0.0, 0.3, 5.0) for exponent in (1.001, 1.6, 3, 34, 500)]
CONCAVE_SHAPES = [
    (epsilon, exponent, r)
    for epsilon in (0.0, 0.3, 5.0)
    for exponent in (0, 1e-9, 0.4, 1, 1 + 1e-9, 4.6, 34)
    for r in (0.01, 0.3, 0.8, 0.999)
]


def floats(pair):
    """A pair of mpf as floats."""
    return tuple(map(float, pair))
