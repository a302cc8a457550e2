"""The (epsilon, delta) of B reports per client, each with its own shuffle, by FFT.

For each shuffle, let m - 1 be at most the number of other clients whose report is a sample of the reference
law. The pair of laws with disjoint caps and m such samples then dominates every pair of neighbours, and
dominating pairs compose (Zhu, Dong and Wang 2022). With the numbers N_0 and N_1 of samples in the two caps
the privacy loss is log((m + E N_0)/(m + E N_1)). Losses (and counts, if there are many) are rounded to grids
such that the means of the likelihood ratio and of the counts are preserved. This can only increase a
hockey-stick divergence.

The rounding errors of the FFT are measured, not bounded: the answer is numerical evidence, not a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.local.blanket import TRUNCATION, binomial_cdf, check_cells, window

if TYPE_CHECKING:
    from csgm_cli.local.randomizer import Randomizer

Array = NDArray[np.float64]

#: Fraction of delta reserved for the event of few reference samples among the other clients' reports.
FEW_SAMPLES = 1e-3
#: Steps of the loss grid, and smallest number of steps of the count grid, per standard deviation of the loss
#: of one shuffle. Rounding to the grids increases its variance by about 1e-4, relative.
_LOSS_STEPS, _COUNT_STEPS = 100, 50
#: FFT error assumed for each message: ten times the largest measured, 1e-16 for 36 to 4,096 messages.
_FFT_ERROR = 1e-15
#: Smallest delta that truncation is scaled to; the FFT error is far larger.
_LEAST_SCALE = 1e-200
#: Cells (N_0, N_1) summed at a time, and in total (about 2 s).
_CELLS_AT_A_TIME, _MOST_CELLS = 4_000_000, 2e8


@dataclass(frozen=True)
class LossLaw:
    """The law of a privacy loss under P: ``mass[i]`` at (``first`` + i) ``step``."""

    step: float
    first: int
    mass: Array

    def moments(self) -> tuple[float, float]:
        """Mean and variance."""
        losses = self.step * (self.first + np.arange(self.mass.size))
        mean = float(self.mass @ losses)
        return mean, float(self.mass @ (losses - mean) ** 2)

    def log_moment(self, t: float) -> float:
        """Log E exp(t loss)."""
        exponents = t * self.step * (self.first + np.arange(self.mass.size))
        top = float(exponents.max())
        return top + math.log(float(self.mass @ np.exp(exponents - top)))


def composed_delta(n: int, randomizer: Randomizer, messages: int, epsilon: float, scale: float) -> float:
    """Delta at ``epsilon`` of B = ``messages`` reports per client; ``scale``: its order of magnitude."""
    scale = max(scale, _LEAST_SCALE)
    few = FEW_SAMPLES * scale
    m = _least_samples(n, randomizer.reference_share, few / messages) + 1
    tail = TRUNCATION * scale / messages
    law = shuffle_loss(m, randomizer, tail)
    composed, wrapped = _convolved(law, messages, TRUNCATION * scale)
    losses = composed.step * (composed.first + np.arange(composed.mass.size))
    over = losses > epsilon
    delta = float(composed.mass[over] @ -np.expm1(epsilon - losses[over]))
    return max(delta, 0.0) + few + wrapped + messages * (4.0 * tail + _FFT_ERROR)


def shuffle_loss(m: int, randomizer: Randomizer, tail: float) -> LossLaw:
    """The law of log((m + E N_0)/(m + E N_1)) under P, on a grid; what lies outside has mass 4 ``tail``."""
    counts, base = count_law(m, randomizer.cap_mass, tail)
    odds = randomizer.odds
    level = np.log1p(odds * counts / m)
    spread = math.sqrt(2.0 * randomizer.cap_mass * m) * odds / m * randomizer.reference_share
    step = spread / _LOSS_STEPS
    place = (level[:, None] - level) / step
    cell = np.floor(place)
    weight = base * np.exp(level)[:, None] * randomizer.reference_share
    upper = weight * (np.expm1(-step * (place - cell)) / math.expm1(-step))
    first = int(cell.min())
    index = (cell - first).astype(np.intp).ravel()
    mass = np.zeros(int(index.max()) + 2)
    mass[:-1] += np.bincount(index, (weight - upper).ravel())
    mass[1:] += np.bincount(index, upper.ravel())
    return LossLaw(step, first, mass)


def count_law(m: int, q: float, tail: float) -> tuple[Array, Array]:
    """Counts, and the joint law of (N_0, N_1) on them: multinomial with m trials, probabilities q and q.

    If there are many counts, the law is rounded to every k-th such that conditional means are preserved.
    """
    counts = window(m, q, tail)
    check_cells(counts.size**2, _MOST_CELLS)
    k = max(1, int(math.sqrt(2.0 * q * m) / _COUNT_STEPS))
    intervals = math.ceil(counts.size / k)
    counts = counts[0] + np.arange(intervals * k)
    side, rest = _multinomial_factors(m, q, counts)
    nodes = np.zeros((intervals + 1, intervals + 1))
    rows = k * max(1, _CELLS_AT_A_TIME // (k * counts.size))
    diagonals = np.lib.stride_tricks.sliding_window_view(rest, counts.size)
    for start in range(0, counts.size, rows):
        part = slice(start, min(start + rows, counts.size))
        rounded = _rounded(side[part, None] * side * diagonals[part], k)
        nodes[start // k : part.stop // k + 1] += _rounded(rounded.T, k).T
    return counts[0] + k * np.arange(intervals + 1.0), nodes


def _rounded(mass: Array, k: int) -> Array:
    """Move the mass along the last axis to every k-th place and the end, preserving its mean."""
    up = np.arange(k) / k
    parts = mass.reshape(mass.shape[0], -1, k) @ np.stack([1.0 - up, up], axis=1)
    nodes = np.zeros((parts.shape[0], parts.shape[1] + 1))
    nodes[:, :-1] += parts[..., 0]
    nodes[:, 1:] += parts[..., 1]
    return nodes


def _multinomial_factors(m: int, q: float, counts: Array) -> tuple[Array, Array]:
    """P(N_0 = x, N_1 = y) = side[x] side[y] rest[x + y]; rest is indexed from twice the least count.

    side is the mass function of Poisson(m q); rest that of Poisson(m (1 - 2q)) at m - x - y over that of
    Poisson(m) at m.
    """
    from scipy.special import gammaln, xlogy

    side = np.exp(xlogy(counts, m * q) - m * q - gammaln(counts + 1.0))
    left = m - (2.0 * counts[0] + np.arange(2 * counts.size - 1))
    log_rest = xlogy(np.maximum(left, 0.0), m * (1.0 - 2.0 * q)) - gammaln(np.maximum(left, 0.0) + 1.0)
    log_rest += 2.0 * m * q - m * math.log(m) + math.lgamma(m + 1.0)
    return side, np.where(left >= 0.0, np.exp(log_rest), 0.0)


def _convolved(law: LossLaw, times: int, tail: float) -> tuple[LossLaw, float]:
    """The law of the sum of ``times`` losses, and a bound on the mass that wrapped around its grid."""
    mean, variance = law.moments()
    centre, deviation = times * mean, math.sqrt(times * variance)
    half = deviation * math.sqrt(2.0 * math.log(2.0 / tail))
    while (wrapped := _outside(law, times, centre, half)) > tail:
        half *= 1.1
    lowest = math.floor((centre - half) / law.step)
    needed = max(math.ceil((centre + half) / law.step) + 1 - lowest, law.mass.size)
    size = 1 << (needed - 1).bit_length()
    power = np.fft.irfft(np.fft.rfft(law.mass, size) ** times, size)
    return LossLaw(law.step, lowest, np.roll(power, (times * law.first - lowest) % size)), wrapped


def _outside(law: LossLaw, times: int, centre: float, half: float) -> float:
    """Chernoff's bound on the mass of the sum of ``times`` losses farther than ``half`` from ``centre``."""
    t = half / (times * law.moments()[1])
    bounds = (times * law.log_moment(s * t) - s * t * centre - t * half for s in (1.0, -1.0))
    return sum(math.exp(min(bound, 0.0)) for bound in bounds)


def _least_samples(n: int, share: float, tail: float) -> int:
    """The largest c such that Bin(n - 1, ``share``) is below c with probability at most ``tail``."""
    low, high = 0, n - 1  # P(below low) <= tail < P(below n)
    while low < high:
        middle = (low + high + 1) // 2
        below = binomial_cdf(np.array([middle - 1.0]), np.array([n - 1.0]), share)[0]
        low, high = (middle, high) if below <= tail else (low, middle - 1)
    return low
