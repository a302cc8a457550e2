"""The (epsilon, delta) of one round of shuffled reports, one from each of n clients (privacy blanket).

Each report is, with probability b = 1/(1 + q E), a sample of the reference law that does not depend on the
client's vector; the other reports are revealed. The worst pair of vectors of the replaced client has disjoint
caps, of mass q each. With W = 1 - e^eps + E (1 on the one cap, -e^eps on the other) of a reference sample,

    delta(eps) = E (X_1 + ... + X_n)^+ / n,      X = W with probability b, else 0      (docs/local-privacy.md)

By Feldman, McMillan and Talwar (2023), q = 1/2 gives a bound for every eps0-LDP randomizer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError

Array = NDArray[np.float64]

#: Fraction of delta that truncation may add: in each of four tails, and for all omitted cells together.
TRUNCATION = 1e-9
#: Relative error assumed for scipy's incomplete beta function: five times the largest measured with mpmath.
BETA_ERROR = 1e-12
#: Cells (N_0, N_1) beyond which one evaluation takes more than about 2 s.
_MOST_CELLS = 4e6


def shuffled_delta(n: int, cap_mass: float, odds: float, epsilon: float, scale: float) -> float:
    """Upper bound on delta at ``epsilon`` of n shuffled reports; ``scale``: the order of magnitude of delta.

    ``odds`` is E = e^eps0 - 1. The sum is over the numbers N_0, N_1 of reference samples in the two caps; the
    number of other reference samples enters through two binomial distribution functions.
    """
    share = 1.0 / (1.0 + cap_mass * odds)
    p, tail = share * cap_mass, TRUNCATION * scale
    counts = window(n, p, tail)
    check_cells(counts.size**2, _MOST_CELLS)
    gain = odds - math.expm1(epsilon)
    cost = math.exp(epsilon) * (1.0 + odds) - 1.0
    x, y = (grid.ravel() for grid in np.meshgrid(counts, counts, indexing="ij"))
    value = gain * x - cost * y
    keep = (value > 0.0) & (x + y <= n)
    x, y, value = x[keep], y[keep], value[keep]
    log_mass = _log_multinomial(n, p, x, y)
    heavy = log_mass + np.log(value / n) > math.log(tail / max(value.size, 1))
    x, y, value, log_mass = x[heavy], y[heavy], value[heavy], log_mass[heavy]
    others = n - x - y
    rate = share * (1.0 - 2.0 * cap_mass) / (1.0 - 2.0 * p)
    positive, spent = _partial_means(value / math.expm1(epsilon), others, rate)
    mass = np.exp(log_mass) * (math.expm1(epsilon) / n)
    rounding = 16.0 * np.finfo(float).eps * math.lgamma(n + 2.0)  # of the log-factorials
    error = BETA_ERROR * float(mass @ (positive + spent))
    return float(mass @ np.maximum(positive - spent, 0.0)) * (1.0 + rounding) + error + 5.0 * tail


def window(n: int, p: float, tail: float) -> Array:
    """Counts outside which one report and Bin(n - 1, p) others have mass at most ``tail`` on each side.

    By Bernstein's inequality, for any value of the one report. So ``tail`` bounds the probability of an
    omitted count under the law with the client's own report, and therefore its contribution to delta.
    """
    nats, mean = -math.log(tail), (n - 1) * p
    reach = math.sqrt(2.0 * mean * (1.0 - p) * nats) + nats / 3.0
    low, high = math.floor(mean - reach), math.ceil(mean + reach) + 1
    return np.arange(max(low, 0), min(high, n) + 1, dtype=float)


def check_cells(count: float, most: float) -> None:
    """Raise ``NoAnswerError`` (slug ``shuffle-too-large``) for a sum over too many cells."""
    if count > most:
        message = f"the bound would be a sum of {count:.2g} terms, more than {most:.0g}"
        raise NoAnswerError("shuffle-too-large", message, "lower the cohort size or raise epsilon")


def _log_multinomial(n: int, p: float, x: Array, y: Array) -> Array:
    from scipy.special import gammaln

    rest = n - x - y
    orders = gammaln(n + 1.0) - gammaln(x + 1.0) - gammaln(y + 1.0) - gammaln(rest + 1.0)
    left = rest * math.log1p(-2.0 * p) if p < 0.5 else 0.0
    return np.asarray(orders + (x + y) * math.log(p) + left)


def _partial_means(level: Array, count: Array, rate: float) -> tuple[Array, Array]:
    """Two terms whose difference is E (level - R)^+ for R ~ Bin(count, rate) and level > 0.

    level P(R <= b) and E[R; R <= b] = count rate P(Bin(count - 1, rate) <= b - 1), b = ceil(level) - 1.
    """
    below = np.minimum(np.ceil(level) - 1.0, count)
    reached = level * binomial_cdf(below, count, rate)
    return reached, count * rate * binomial_cdf(below - 1.0, count - 1.0, rate)


def binomial_cdf(k: Array, n: Array, p: float) -> Array:
    """P(Bin(n, p) <= k) for integers k and n; 0 for k < 0."""
    from scipy.special import betainc

    inside = (k >= 0.0) & (k < n)
    some = betainc(np.where(inside, n - k, 1.0), np.where(inside, k + 1.0, 1.0), 1.0 - p)
    return np.where(inside, some, np.where(k < 0.0, 0.0, 1.0))
