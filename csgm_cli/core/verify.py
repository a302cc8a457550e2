"""Recompute an answer by the independent oracle and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.core.bounds import DELTA_FLOOR, Spent
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Mechanism, Verification

if TYPE_CHECKING:
    from mpmath import mpf

DIGITS = 50
#: The largest relative difference that counts as agreement.
AGREEMENT = 1e-9


def verify_epsilon(mechanism: Mechanism, sigma: float, delta: float, spent: Spent) -> Verification:
    """Compare ``spent``, an epsilon, with the oracle's.

    Raises:
        NoAnswerError: they differ by more than 1e-9, or the answer is below the oracle's.
    """
    from csgm_cli.core import oracle

    return _compared(
        "epsilon", spent.value, oracle.epsilon(mechanism, sigma, delta, spent.order, spent.bound, DIGITS)
    )


def verify_delta(mechanism: Mechanism, sigma: float, epsilon: float, spent: Spent) -> Verification:
    """Compare ``spent``, a delta, with the oracle's; errors as in `verify_epsilon`."""
    from csgm_cli.core import oracle

    value = oracle.delta(mechanism, sigma, epsilon, spent.order, spent.bound, DIGITS)
    return _compared("delta", spent.value, max(value, DELTA_FLOOR))


def _compared(what: str, answer: float, truth: mpf) -> Verification:
    difference = float(abs(answer - truth) / truth) if truth > 0 else answer
    if not difference <= AGREEMENT or answer < truth:
        raise NoAnswerError(
            "verification-failed",
            f"{what} {answer!r} does not agree with {float(truth)!r} in {DIGITS}-digit arithmetic",
            "run csgm selftest and report this: no answer is given",
        )
    return Verification(DIGITS, difference)
