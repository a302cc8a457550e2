"""Losses of a few coordinate-rounds by other methods: closed forms, quadrature over all of them."""

import math

import mpmath
import numpy as np
from scipy import special

from csgm_cli.profile.contour import Direction, Law

ADD = Direction.ADD
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(20)


def law_of(gamma, rounds, s):
    """That many rounds of one coordinate."""
    return Law(gamma, ((float(rounds), s * s),))


def add_stick(gamma, s, epsilon):
    """E_Q[(Y - e^epsilon)_+] of one coordinate-round from its two crossing tails, also for epsilon < 0."""
    m0 = mpmath.expm1(epsilon) / gamma + 1
    if m0 <= 0:
        return -mpmath.expm1(epsilon)
    x0 = (mpmath.log(m0) + s * s / 2) / s
    return gamma * (mpmath.ncdf(s - x0) - m0 * mpmath.ncdf(-x0))


def one_round(gamma, s, direction, epsilon):
    """The hockey-stick of one coordinate-round in 60 digits."""
    with mpmath.workdps(60):
        gamma, s, epsilon = mpmath.mpf(gamma), mpmath.mpf(s), mpmath.mpf(epsilon)
        if direction is ADD:
            return add_stick(gamma, s, epsilon)
        m0 = mpmath.expm1(-epsilon) / gamma + 1
        if m0 <= 0:
            return mpmath.mpf(0)
        x0 = (mpmath.log(m0) + s * s / 2) / s
        return mpmath.exp(epsilon) * gamma * (m0 * mpmath.ncdf(x0) - mpmath.ncdf(x0 - s))


def _sticks(k, gamma, s, direction):
    """E_Q[(Y - k)_+] or E_Q[(k - Y)_+] of one coordinate-round for an array of k, by scaled Mills ratios."""
    m0 = (np.minimum(k, 1e300) - 1 + gamma) / gamma
    positive = m0 > 0
    m0 = np.where(positive, m0, 1.0)
    x0 = (np.log(m0) + s * s / 2) / s

    def mills(u):
        return math.sqrt(math.pi / 2) * special.erfcx(u / math.sqrt(2))

    density = gamma * m0 * np.exp(-x0 * x0 / 2) / math.sqrt(2 * math.pi)
    with np.errstate(all="ignore"):
        if direction is ADD:
            near = gamma * (special.ndtr(s - x0) - m0 * special.ndtr(-x0))
            return np.where(positive, np.where(x0 > 2, density * (mills(x0 - s) - mills(x0)), near), 1 - k)
        near = gamma * (m0 * special.ndtr(x0) - special.ndtr(x0 - s))
        return np.where(positive, np.where(x0 < 0, density * (mills(-x0) - mills(s - x0)), near), 0.0)


def _nodes(kink, gamma, s):
    """Y and its P-masses on panels that shrink towards the place where Y = kink/(1 - gamma)."""
    edges = np.linspace(-39.0, s + 39.0, int(60 + 12 * s))
    m0 = (min(kink / (1 - gamma), 1e290) - 1 + gamma) / gamma
    if m0 > 0:
        steps = np.geomspace(1e-11, 3.0, 60)
        at = (math.log(m0) + s * s / 2) / s
        edges = np.unique(np.clip(np.concatenate([edges, at + steps, at - steps, [at]]), edges[0], edges[-1]))
    half = np.diff(edges)[:, None] / 2
    x, weight = (edges[:-1, None] + half + half * POINTS).ravel(), (half * WEIGHTS).ravel()
    y = 1 - gamma + gamma * np.exp(np.minimum(x * s - s * s / 2, 690.0))
    bells = (1 - gamma) * np.exp(-x * x / 2) + gamma * np.exp(-((x - s) ** 2) / 2)
    return y, weight * bells / math.sqrt(2 * math.pi)


def brute_force(gamma, rounds, s, direction, epsilon, last=None):
    """Two or three rounds by nested quadrature: E_Q[(Y_1 ... - k)_+] = E_P1[E_Q[(Y_2 ... - k/Y_1)_+]].

    The last one has s = ``last``, where that is given.
    """
    last = last or s
    k = math.exp(epsilon if direction is ADD else -epsilon)
    total = 0.0
    outer = [(1.0, 1.0)] if rounds == 2 else zip(*_nodes(k / (1 - gamma), gamma, s), strict=True)
    for y1, p1 in outer:
        if p1 > 1e-310:
            y, p = _nodes(k / y1, gamma, s)
            total += p1 * float((p * _sticks(np.minimum(k / y1 / y, 1e300), gamma, last, direction)).sum())
    return total if direction is ADD else total / k


def two_rounds(gamma, s):
    """The loss of two coordinate-rounds on a grid in both, and the Q-masses of one."""
    x, mass = np.polynomial.legendre.leggauss(1200)
    x, mass = (x + 1) * (s / 2 + 9) - 9, mass * (s / 2 + 9)
    loss = np.log1p(gamma * np.expm1(s * x - s * s / 2))
    return loss[:, None] + loss, mass * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
