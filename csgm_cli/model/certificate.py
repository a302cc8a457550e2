"""What proves an (epsilon, delta) statement, with all that is needed to recompute it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from csgm_cli.errors import UsageError


class Direction(StrEnum):
    """Which world the output comes from when one client is added to, or removed from, the data."""

    ADD = "add"
    REMOVE = "remove"
    BOTH = "both"


class Proof(StrEnum):
    """The theorem behind an upper bound on delta (docs/theory.md)."""

    EXACT = "exact"  # the Gaussian mechanism's own profile
    RENYI = "renyi"  # the Renyi curve of the worst-case vector, converted at `order`
    RENYI_REMOVE = "renyi-remove"  # the Renyi divergence of the remove direction, at `order`
    GAUSSIAN_MATCHED = "gaussian-matched"  # the Gaussian with the same log-moment of `order`
    CONCENTRATED = "concentrated"  # a convex function with `exponent` and `log_ratio`
    PROFILE = "profile"  # the privacy profile with every coordinate at its clip
    MASK_REVEALED = "mask-revealed"  # the Gaussian mechanism with every mask known
    TRIANGLE = "triangle"  # replace-one from the add and the remove bound in `parts`


@dataclass(frozen=True)
class Certificate:
    """``proof`` shows that ``delta``, an upper end, holds at ``epsilon`` in ``direction``.

    ``order``: the Renyi order, above 1, of the proofs that convert a log-moment. ``exponent``: B >= 0 of the
    convex function, infinite for the hockey-stick itself; ``log_ratio``: log r > 0 of the add direction's,
    may be infinite. ``step``: that of the loss grid that the value comes from, None for a contour or a closed
    form. ``parts``: for the triangle, the add bound at e1 and the remove bound at epsilon - e1.
    """

    proof: Proof
    direction: Direction
    epsilon: float
    delta: float
    order: float | None = None
    exponent: float | None = None
    log_ratio: float | None = None
    step: float | None = None
    parts: tuple[Certificate, ...] = ()

    def __post_init__(self) -> None:
        """Accept plain strings; raise ``UsageError`` for what no proof has."""
        object.__setattr__(self, "proof", Proof(self.proof))
        object.__setattr__(self, "direction", Direction(self.direction))
        needs_order = self.proof in (Proof.RENYI, Proof.RENYI_REMOVE, Proof.GAUSSIAN_MATCHED)
        _check(needs_order == (self.order is not None), self.proof, "order", self.order)
        _check(self.order is None or 1 < self.order < math.inf, self.proof, "order", self.order)
        concentrated = self.proof is Proof.CONCENTRATED
        _check(concentrated == (self.exponent is not None), self.proof, "exponent", self.exponent)
        _check(self.exponent is None or self.exponent >= 0, self.proof, "exponent", self.exponent)
        needs_ratio = (
            concentrated and self.direction is not Direction.REMOVE and not math.isinf(self.exponent or 0)
        )
        _check(not needs_ratio or self.log_ratio is not None, self.proof, "log_ratio", self.log_ratio)
        _check(self.log_ratio is None or self.log_ratio > 0, self.proof, "log_ratio", self.log_ratio)
        directions = tuple(part.direction for part in self.parts)
        wanted = (Direction.ADD, Direction.REMOVE) if self.proof is Proof.TRIANGLE else ()
        _check(
            len(directions) == len(wanted)
            and all(have in (want, Direction.BOTH) for have, want in zip(directions, wanted, strict=True)),
            self.proof,
            "parts",
            directions,
        )


def _check(holds: bool, proof: Proof, name: str, value: object) -> None:  # noqa: FBT001 - an assertion
    if not holds:
        raise UsageError("malformed-certificate", f"proof {proof} does not have {name} {value!r}")
