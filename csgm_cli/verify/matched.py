"""The Gaussian-matched conversion in high precision (docs/theory.md, "Gaussian-matched conversion").

Test functions of order a see no worse law than a Gaussian with the same log-moment of order a. ``digits`` and
results are as in ``log_moment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath

from csgm_cli.model.certificate import Direction
from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, not_converged, require
from csgm_cli.verify.renyi import total_log_moment

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_SPARE_DIGITS = 3000


def matched_delta(
    coordinates: Sequence[tuple[int, Number, Number]],
    mu_squared: Number,
    epsilon: Number,
    order: Number,
    direction: Direction | str,
    digits: int = 50,
) -> mpmath.mpf:
    """The delta at ``epsilon`` >= 0 from the log-moment of one real ``order`` above 1, in one direction.

    ``coordinates`` and ``mu_squared`` are the worst-case vector's. The terms cancel: the digits that this
    costs are measured, and the precision is raised until ``digits`` are left.
    """
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    require(order > 1, "order", "above 1", order)
    spare = 2 * SPARE_DIGITS
    while spare < _MOST_SPARE_DIGITS:
        with mpmath.workdps(digits + spare):
            log_moment = total_log_moment(coordinates, mu_squared, order, digits + spare)
            value, lost = conversion(log_moment, epsilon, order, Direction(direction))
        if lost + 2 <= spare:
            return value
        spare = max(int(lost) + SPARE_DIGITS, spare + SPARE_DIGITS)
    raise not_converged(f"the conversion at order {mpmath.nstr(mpmath.mpf(order), 17)} needs too many digits")


def conversion(
    log_moment: mpmath.mpf, epsilon: Number, order: Number, direction: Direction
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The delta of one direction from K_sum = ``log_moment`` at working precision, and digits that it lost.

    V = 2 K_sum/(a(a-1)), w = e^(+-eps), c = w a/(a-1), r = sqrt V, d = (log c + V/2)/r:
    first + Phi(r-d) - w Phi(-d) for add, e^eps (first - Phi(d-r) + w Phi(d)) for remove, where
    first = (c^(1-a)/a) e^K_sum Phi(d - a r).
    """
    a, eps = mpmath.mpf(order), mpmath.mpf(epsilon)
    sign = 1 if direction is Direction.ADD else -1
    variance = 2 * log_moment / (a * (a - 1))
    r, log_c = mpmath.sqrt(variance), sign * eps + mpmath.log(a / (a - 1))
    d = (log_c + variance / 2) / r
    first = mpmath.exp(log_moment + (1 - a) * log_c) / a * mpmath.ncdf(d - a * r)
    threshold = mpmath.exp(sign * eps)
    terms = [first, sign * mpmath.ncdf(sign * (r - d)), -sign * threshold * mpmath.ncdf(-sign * d)]
    value = mpmath.fsum(terms) * (1 if direction is Direction.ADD else mpmath.exp(eps))
    # Relative errors of the log-moment are multiplied by the exponents, then by the cancellation.
    exponents = 1 + log_moment + abs((a - 1) * log_c) + d**2 + (a * r - d) ** 2
    if value <= 0:
        return value, mpmath.inf
    scale = max(abs(term) for term in terms) * (1 if direction is Direction.ADD else mpmath.exp(eps))
    return value, mpmath.log10(scale / value * exponents)
