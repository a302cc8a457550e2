"""Recompute an answer by the independent oracle and compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.core.bounds import DELTA_FLOOR, OF_THE_PROFILE, Spent
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Mechanism, Verification

if TYPE_CHECKING:
    from mpmath import mpf

DIGITS = 50
#: Digits of the contour integrals behind the profile and its bounds.
PROFILE_DIGITS = 30
#: Of those that are blurred, which have many nodes.
BLURRED_DIGITS = 10
#: The largest relative difference that counts as agreement.
AGREEMENT = 1e-9


def verify_epsilon(mechanism: Mechanism, sigma: float, delta: float, spent: Spent) -> Verification:
    """Compare ``spent``, an epsilon, with the oracle's.

    Raises:
        NoAnswerError: they differ by more than 1e-9, or the answer is below the oracle's.
    """
    from csgm_cli.core import oracle

    if spent.bound in OF_THE_PROFILE:
        return _verify_profile(mechanism, sigma, spent.value, delta)
    return _compared(
        "epsilon", spent.value, oracle.epsilon(mechanism, sigma, delta, spent.order, spent.bound, DIGITS)
    )


def verify_composed_epsilon(
    releases: Sequence[tuple[Mechanism, float]], delta: float, spent: Spent
) -> Verification:
    """Compare ``spent``, an epsilon of several releases, with the oracle's; errors as in `verify_epsilon`."""
    from csgm_cli.core import compose_oracle

    truth = compose_oracle.epsilon(releases, delta, spent.order, spent.bound, DIGITS)
    return _compared("epsilon", spent.value, truth)


def verify_delta(mechanism: Mechanism, sigma: float, epsilon: float, spent: Spent) -> Verification:
    """Compare ``spent``, a delta, with the oracle's; errors as in `verify_epsilon`."""
    from csgm_cli.core import oracle

    if spent.bound in OF_THE_PROFILE:
        return _verify_profile(mechanism, sigma, epsilon, spent.value)
    value = oracle.delta(mechanism, sigma, epsilon, spent.order, spent.bound, DIGITS)
    return _compared("delta", spent.value, max(value, DELTA_FLOOR))


def _verify_profile(mechanism: Mechanism, sigma: float, epsilon: float, delta: float) -> Verification:
    """Recompute both directions' delta at ``epsilon`` from their certificates: at most ``delta``."""
    from csgm_cli.core.contour_oracle import Direction
    from csgm_cli.core.tight import tight_delta
    from csgm_cli.core.tight_oracle import certified_delta

    found = tight_delta(mechanism, sigma, epsilon)
    sides = list(zip(Direction, (found.add, found.remove), strict=True))
    digits = min(BLURRED_DIGITS if proof.blur > 0.0 else PROFILE_DIGITS for _, proof in sides)
    truth = max(certified_delta(mechanism, sigma, epsilon, side, proof, digits) for side, proof in sides)
    if truth > delta:
        raise _disagreement("delta", delta, truth, digits)
    upper, room = max(found.upper, DELTA_FLOOR), AGREEMENT + found.decisive.slack
    return replace(_compared("delta", upper, max(truth, DELTA_FLOOR), room), digits=digits)


def _compared(what: str, answer: float, truth: mpf, room: float = AGREEMENT) -> Verification:
    difference = float(abs(answer - truth) / truth) if truth > 0 else answer
    if not difference <= room or answer < truth:
        raise _disagreement(what, answer, truth, DIGITS)
    return Verification(DIGITS, difference)


def _disagreement(what: str, answer: float, truth: mpf, digits: int) -> NoAnswerError:
    return NoAnswerError(
        "verification-failed",
        f"{what} {answer!r} does not agree with {float(truth)!r} in {digits}-digit arithmetic",
        "run csgm selftest and report this: no answer is given",
    )
