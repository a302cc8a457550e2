"""The exact (analytic) Gaussian mechanism, in standard-library floats without cancellation.

With mu = sensitivity sqrt(rounds) / sigma, u1 = eps/mu - mu/2 and u2 = eps/mu + mu/2
(Balle and Wang 2018, rewritten; docs/theory.md, "The Gaussian mechanism"):

    delta     = int_0^inf phi(x + u1) (1 - exp(-mu x)) dx
    1 - delta = phi(u1) (m(-u1) + m(u2)),        m(u) = Phi(-u)/phi(u)

Every term is positive. Both answers are for mu (1 + SAFETY), which more than covers the
rounding errors of the evaluation, so they are upper bounds.
"""

from __future__ import annotations

import math
from functools import lru_cache

from csgm_cli.roots import Slope, increasing_root, smallest_satisfying

#: Relative inflation of mu; the evaluation is good to 1e-15 of mu (tested against mpmath).
SAFETY = 2e-14

LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Trapezoid rule in log x for integrals over x > 0: step, and nodes relative to the last one, from e^-26
#: (error 1e-15).
NODE_STEP = 0.11
NODES = tuple(math.exp(-NODE_STEP * i) for i in range(math.ceil(26.0 / NODE_STEP), -1, -1))


def log_delta(mu: float, epsilon: float) -> float:
    """Upper bound on log delta, mu > 0, epsilon >= 0 (natural log; never above 0)."""
    return _log_pair(mu * (1 + SAFETY), epsilon)[0]


@lru_cache(maxsize=64)
def epsilon_for(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0, rounded up, at which this mu has at most ``delta``."""
    log_odds = _log_odds_of(delta)
    if _log_odds(mu * (1 + SAFETY), 0.0) <= log_odds:
        return 0.0

    def miss(log_epsilon: float) -> Slope:
        epsilon = math.exp(log_epsilon)
        log_d, log_rest, u1, u2 = _log_pair(mu * (1 + SAFETY), epsilon)
        density = -u1 * u1 / 2 - LOG_SQRT_TWO_PI
        slope = math.exp(density - log_d - log_rest) * mills(u2) * epsilon
        return log_odds - (log_d - log_rest), slope

    start = mu * (mu / 2 + math.sqrt(2 * max(-math.log(delta), 0.1)))
    near = math.exp(increasing_root(miss, math.log(start), tolerance=1e-12))
    return smallest_satisfying(lambda e: _log_odds(mu * (1 + SAFETY), e) <= log_odds, near)


def elasticity(mu: float, epsilon: float) -> float:
    """Condition number of epsilon with respect to mu: d log epsilon / d log mu."""
    return mu / (epsilon * mills(epsilon / mu + mu / 2))


@lru_cache(maxsize=64)
def mu_for(epsilon: float, delta: float) -> float:
    """The largest mu, rounded down, that is (epsilon, delta)-differentially private."""
    log_odds = _log_odds_of(delta)

    def excess(log_mu: float) -> Slope:
        mu = math.exp(log_mu)
        log_d, log_rest, u1, _ = _log_pair(mu, epsilon)
        slope = math.exp(-u1 * u1 / 2 - LOG_SQRT_TWO_PI - log_d - log_rest) * mu
        return (log_d - log_rest) - log_odds, slope

    root = math.sqrt(2 * max(-math.log(delta), 1e-3))
    near = math.exp(increasing_root(excess, math.log(epsilon / (root + math.sqrt(epsilon))), tolerance=1e-12))
    inverse = smallest_satisfying(lambda i: _log_odds((1 + SAFETY) / i, epsilon) <= log_odds, 1 / near)
    return 1 / inverse * (1 - 2**-52)


def _log_odds_of(delta: float) -> float:
    return math.log(delta) - math.log1p(-delta)


def _log_odds(mu: float, epsilon: float) -> float:
    log_d, log_rest, _, _ = _log_pair(mu, epsilon)
    return log_d - log_rest


def _log_pair(mu: float, epsilon: float) -> tuple[float, float, float, float]:
    """(log delta, log(1 - delta), u1, u2): the smaller of the two is computed, never subtracted."""
    u1, u2 = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if u1 < -1.0:
        log_rest = -u1 * u1 / 2 - LOG_SQRT_TWO_PI + math.log(mills(-u1) + mills(u2))
        return math.log1p(-math.exp(log_rest)), log_rest, u1, u2
    log_d = -u1 * u1 / 2 - LOG_SQRT_TWO_PI + math.log(_mills_difference(u1, mu))
    return log_d, math.log1p(-math.exp(log_d)), u1, u2


def _mills_difference(u: float, mu: float) -> float:
    """m(u) - m(u + mu) = int_0^inf exp(-u x - x^2/2) (1 - exp(-mu x)) dx for u >= -1.

    By the trapezoid rule in log x; the integrand is analytic in |Im log x| < pi/4, so the error
    is exp(-2 pi 0.7/step) relative.
    """
    last = last_node(u)
    total = 0.0
    for node in NODES:
        x = last * node
        total -= x * math.exp(-x * (u + x / 2)) * math.expm1(-mu * x)
    return total * NODE_STEP


def last_node(u: float) -> float:
    """The x beyond which exp(-u x - x^2/2) is below e^-45 of its maximum."""
    return 90.0 / (max(u, 0.0) + math.sqrt(u * u + 90.0)) + 2.0 * max(-u, 0.0)


def mills(u: float) -> float:
    """Mills' ratio Phi(-u)/phi(u) for u >= 0."""
    if u < 6.0:
        return 0.5 * math.erfc(u / math.sqrt(2)) * math.exp(u * u / 2 + LOG_SQRT_TWO_PI)
    tail = u  # Laplace's continued fraction u + 1/(u + 2/(u + 3/(u + ...)))
    for j in range(60, 0, -1):
        tail = u + j / tail
    return 1 / tail


def log_mills(u: float) -> float:
    """Log of Mills' ratio at any real u."""
    if u >= 0.0:
        return math.log(mills(u))
    return math.log1p(-0.5 * math.erfc(-u / math.sqrt(2))) + u * u / 2 + LOG_SQRT_TWO_PI
