"""Mixed releases in high precision, by the oracle's own moments: independent of the float64 path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.oracle import SPARE_DIGITS, Number, converted, gaussian_epsilon, renyi_divergence, total_mu

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Bound, Mechanism


def epsilon(
    releases: Sequence[tuple[Mechanism, Number]],
    delta: Number,
    order: Number | None,
    bound: Bound,
    digits: int = 50,
) -> mpmath.mpf:
    """Return the epsilon >= 0 that ``bound`` proves at ``delta`` for all (mechanism, sigma) together.

    ``order`` is the Renyi order to convert at; None for ``Bound.EXACT`` and ``Bound.MASK_REVEALED``.
    Errors are those of ``csgm_cli.core.oracle.epsilon``.
    """
    with mpmath.workdps(digits + SPARE_DIGITS):
        if order is None:
            squares = [total_mu(mechanism, sigma) ** 2 for mechanism, sigma in releases]
            return gaussian_epsilon(mpmath.sqrt(mpmath.fsum(squares)), delta, digits)
        a = mpmath.mpf(order)
        divergence = mpmath.fsum(
            renyi_divergence(mechanism, sigma, a, bound, digits) for mechanism, sigma in releases
        )
        return converted(divergence, a, delta)
