"""ONE coordinate-round, whose hockey-sticks are closed forms and whose test functions plain integrals."""

from __future__ import annotations

import math

import numpy as np

from csgm_cli.core.loss_power import power_function
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Coordinates, excess, log_upper_tail, upper_tail
from csgm_cli.gaussian import mills
from csgm_cli.profile.contour import Direction

#: The trapezoid rule of `_mills_difference` on x from e^-26 of the last node on, relative to that.
_STEP = 0.11
_NODES = np.exp(_STEP * np.arange(-237.0, 1.0))


def single_round(gamma: float, t: float, direction: Direction, epsilon: float) -> float:
    """The hockey-stick of ONE coordinate-round in closed form, epsilon >= 0, to 1e-12 relative.

    Y crosses e^(+-eps) at x0. With M0 = exp(x0 s - t/2) there and m Mills' ratio,
    delta_add = g M0 phi(x0) (m(x0 - s) - m(x0)) and delta_rem = e^eps g M0 phi(x0) (m(-x0) - m(s - x0));
    the differences are integrals of positive terms. (Where e^-eps is close to 1 - gamma the inputs do
    not have the digits.)
    """
    s, add = math.sqrt(t), direction is Direction.ADD
    log_m0 = _log_crossing(gamma, epsilon if add else -epsilon)
    if math.isinf(log_m0):
        return 0.0
    x0 = (log_m0 + t / 2) / s
    u, log_scale = ((log_m0 - t / 2) / s, 0.0) if add else (-x0, epsilon + log_m0)
    if u >= -1.0:  # M0 phi(x0) = phi(x0 - s)
        log_front = log_scale + math.log(gamma) - u * u / 2 - 0.5 * math.log(2 * math.pi)
        return math.exp(log_front + math.log(_mills_difference(u, s)))
    if add and x0 > 0.0:
        return gamma * (upper_tail(u) - math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * mills(x0))
    if add:
        return gamma * (upper_tail(u) - math.exp(log_m0 + log_upper_tail(x0)))
    return math.exp(epsilon) * gamma * (math.exp(log_m0) * upper_tail(u) - upper_tail(s - x0))


def single_mixture(part: Coordinates, log_strike: float, exponent: float = 0.0) -> float:
    """The mean of y log(y/v) - y + v for y >= v, log v = ``log_strike``, for ONE coordinate-round.

    Or of the test function of ``loss_power`` with that ``exponent``.
    """
    low, end = max(part.place(log_strike), LOWEST), HIGHEST + part.s
    if low >= end:
        return 0.0
    nodes = part.nodes(low, end, 1.0 + exponent)
    if exponent > 0.0:
        above = np.maximum(nodes.loss - log_strike, 0.0)
        return float((np.exp(nodes.log_mass + log_strike) * power_function(above, exponent)).sum())
    return float((np.exp(nodes.log_mass + nodes.loss) * excess(log_strike - nodes.loss)).sum())


def _mills_difference(u: float, s: float) -> float:
    """m(u) - m(u + s) = int_0^inf exp(-u x - x^2/2) (1 - exp(-s x)) dx for u >= -1, of positive terms.

    The trapezoid rule in log x, as in `gaussian`, which does without NumPy.
    """
    last = 90.0 / (max(u, 0.0) + math.sqrt(u * u + 90.0)) + 2.0 * max(-u, 0.0)
    x = last * _NODES
    return -_STEP * float((x * np.exp(-x * (u + x / 2)) * np.expm1(-s * x)).sum())


def _log_crossing(gamma: float, log_y: float) -> float:
    """Log M where 1 - gamma + gamma M = Y; -inf where there is none."""
    if log_y > 600.0:
        return log_y - math.log(gamma)
    m = math.expm1(log_y) / gamma
    if m > -0.5 or gamma < 0.5:
        return math.log1p(m) if m > -1.0 else -math.inf
    left = math.exp(log_y) - (1 - gamma)
    return math.log(left / gamma) if left > 0.0 else -math.inf
