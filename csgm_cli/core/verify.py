"""Recompute an answer by the independent oracle and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from csgm_cli.core.bounds import DELTA_FLOOR, OF_THE_PROFILE, Spent
from csgm_cli.errors import NoAnswerError, VerificationError
from csgm_cli.model.result import Verification

if TYPE_CHECKING:
    from mpmath import mpf

    from csgm_cli.core.certificate import Certificate
    from csgm_cli.core.law_oracle import Direction
    from csgm_cli.core.tight import TightDelta
    from csgm_cli.model.mechanism import Mechanism

DIGITS = 50
#: Digits of the contour integrals behind the profile and its bounds, and where those would take too long.
PROFILE_DIGITS, FEWER_DIGITS = 30, 15
#: Of those of several releases, which are dearer.
_MIXED_DIGITS = 15
#: Of those of a direction which is not so close, relative, to what it is compared with.
ROUGH_DIGITS, CLOSE = 8, 1e-6
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

    if spent.bound in OF_THE_PROFILE:
        return _verify_composed_profile(releases, spent.value, delta)
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
    from csgm_cli.core.tight import tight_delta
    from csgm_cli.core.tight_oracle import certified_delta

    found = tight_delta(mechanism, sigma, epsilon)

    def recompute(side: Direction, proof: Certificate, digits: int) -> mpf:
        at = epsilon if proof.epsilon is None else proof.epsilon
        return certified_delta(mechanism, sigma, at, side, proof, digits, found.upper)

    return _verify_sides(found, delta, PROFILE_DIGITS, recompute)


def _verify_composed_profile(
    releases: Sequence[tuple[Mechanism, float]], epsilon: float, delta: float
) -> Verification:
    """The same for several releases."""
    from csgm_cli.core.composition import composition_of
    from csgm_cli.core.mixed_oracle import certified_delta
    from csgm_cli.core.mixed_tight import mixed_delta

    together = composition_of(releases)
    if (alone := together.alone) is not None:
        return _verify_profile(alone.mechanism, alone.sigma, epsilon, delta)

    found = mixed_delta(together, epsilon, delta)

    def recompute(side: Direction, proof: Certificate, digits: int) -> mpf:
        return certified_delta(releases, epsilon, side, proof, digits, found.upper)

    return _verify_sides(found, delta, _MIXED_DIGITS, recompute)


def _verify_sides(
    found: TightDelta, delta: float, digits: int, recompute: Callable[[Direction, Certificate, int], mpf]
) -> Verification:
    """Both directions' bound recomputed: at most ``delta``, and what was found."""
    from csgm_cli.core.law_oracle import Direction

    def is_close(proof: Certificate) -> bool:
        return proof.value >= found.upper * (1 - CLOSE) and proof.slack <= CLOSE

    def recomputed(side: Direction, proof: Certificate) -> tuple[mpf, int]:
        if not is_close(proof):
            return recompute(side, proof, ROUGH_DIGITS), ROUGH_DIGITS
        try:
            return recompute(side, proof, digits), digits
        except NoAnswerError as error:
            if error.slug != "oracle-not-converged" or digits <= FEWER_DIGITS:
                raise
        return recompute(side, proof, FEWER_DIGITS), FEWER_DIGITS

    add, remove = recomputed(Direction.ADD, found.add), recomputed(Direction.REMOVE, found.remove)
    truth = max(add[0], remove[0])
    _, reached = add if found.decisive is found.add else remove
    if truth > delta:
        raise _disagreement("delta", delta, truth, reached)
    upper, room = max(found.upper, DELTA_FLOOR), AGREEMENT + found.decisive.slack
    return _compared("delta", upper, max(truth, DELTA_FLOOR), room, reached)


def _compared(
    what: str, answer: float, truth: mpf, room: float = AGREEMENT, digits: int = DIGITS
) -> Verification:
    difference = float(abs(answer - truth) / truth) if truth > 0 else answer
    if not difference <= room or answer < truth:
        raise _disagreement(what, answer, truth, digits)
    return Verification(digits, difference)


def _disagreement(what: str, answer: float, truth: mpf, digits: int) -> VerificationError:
    return VerificationError(
        "verification-failed",
        f"{what} {answer!r} does not agree with {float(truth)!r} in {digits}-digit arithmetic",
        "run csgm selftest and report this: no answer is given",
    )
