"""About which noise, and which order, answers a calibration: a start that needs no log-moment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.renyi.conversion import allowed_moment

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Target
    from csgm_cli.renyi.curves import Curve

_GOLDEN = (math.sqrt(5) - 1) / 2
#: How far below and above the order of zero-concentrated privacy to look, in log(order - 1).
_BELOW, _ABOVE = 10.0, 1.0
#: Golden sections: to 1 %.
_SECTIONS = 15
#: Sensitivity over noise beyond which no answer has been seen.
_MOST = 40.0


def first_guess(curve: Curve, target: Target) -> tuple[float, float]:
    """Sigma and the best order there, most often within some percent.

    In place of a coordinate's log-moment K(a; gamma, t) stand the two terms of its binomial sum that
    grow large, e^K - 1 = a (a-1)/2 gamma^2 (e^t - 1) + gamma^a (e^(a (a-1) t/2) - 1), and of these
    alone the one that asks for more noise.
    """
    tail = max(-math.log(target.delta), 1e-3)
    middle = math.log(math.sqrt(tail) / (math.sqrt(tail + target.epsilon) - math.sqrt(tail)))
    low, high = middle - _BELOW, middle + _ABOVE
    for _ in range(_SECTIONS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left = _log_t(curve, target, left)
        if math.isinf(at_left) or at_left < _log_t(curve, target, right):
            low = left
        else:
            high = right
    clip = max(delta for _, delta in curve.parts)
    return clip / min(math.exp(_log_t(curve, target, high) / 2), _MOST), 1.0 + math.exp(high)


def _log_t(curve: Curve, target: Target, log_gap: float) -> float:
    """Log (clip / sigma)^2 at which an order meets the target; -inf where none does."""
    order = 1.0 + math.exp(log_gap)
    wanted = allowed_moment(order, target.epsilon, math.log(target.delta))
    if wanted <= 0.0:
        return -math.inf
    clip = max(delta for _, delta in curve.parts)
    wanted /= math.fsum(count * (delta / clip) ** 2 for count, delta in curve.parts)
    log_moment = wanted + math.log(-math.expm1(-wanted))  # log(e^K - 1)
    if curve.weak_triangle:  # the mean of K at twice the order and at 1 less
        order = 2 * order - 0.5
    pairs, log_gamma = order * (order - 1) / 2, math.log(curve.gamma)
    small = math.log(pairs) + 2 * log_gamma
    large = log_moment - order * log_gamma
    return min(_log_log1p_exp(log_moment - small), _log_log1p_exp(large) - math.log(pairs))


def _log_log1p_exp(x: float) -> float:
    """Return log log(1 + e^x)."""
    return x if x < -40.0 else math.log(max(x, 0.0) + math.log1p(math.exp(-abs(x))))
