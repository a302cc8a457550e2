"""Replace-one from add/remove bounds (docs/theory.md, "Replace-one")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath

from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, require

if TYPE_CHECKING:
    from collections.abc import Callable


def replace_one_delta(
    add: Callable[[mpmath.mpf], mpmath.mpf],
    remove: Callable[[mpmath.mpf], mpmath.mpf],
    epsilon: Number,
    first: Number,
    digits: int = 50,
) -> mpmath.mpf:
    """delta_add(e1) + e^e1 delta_rem(epsilon - e1) with e1 = ``first`` in [0, epsilon].

    With the world R without the client between the worlds P and P' with its two vectors, this bounds
    P(A) - e^epsilon P'(A) for every event A. ``add`` and ``remove`` map epsilon to any proven delta.
    """
    require(0 <= first <= epsilon, "first", "in [0, epsilon]", first)
    with mpmath.workdps(digits + SPARE_DIGITS):
        e1 = mpmath.mpf(first)
        return add(e1) + mpmath.exp(e1) * remove(mpmath.mpf(epsilon) - e1)
