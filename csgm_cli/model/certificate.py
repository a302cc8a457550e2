"""Certificates: everything needed to recompute a bound on delta independently (standard library only)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    """Direction of the divergence: which neighbouring data set the outputs come from."""

    ADD = "add"
    REMOVE = "remove"


class Proof(StrEnum):
    """The theorem behind a bound (docs/theory.md)."""

    EXACT = "exact"
    RENYI = "renyi"
    RENYI_REMOVE = "renyi-remove"
    GAUSSIAN_MATCHED = "gaussian-matched"
    CONCENTRATED = "concentrated"
    PROFILE = "profile"
    MASK_REVEALED = "mask-revealed"
    TRIANGLE = "triangle"


@dataclass(frozen=True)
class Certificate:
    """``proof`` shows that delta <= exp(``log_delta``) at ``epsilon`` in one ``direction`` (None: in both).

    ``order``: of the Renyi or matched bound. ``exponent`` B and ``log_ratio`` log r: of the convex test
    function (B infinite: the hockey-stick itself; r infinite: the function stays below its asymptote).
    ``step``: of the certified grid where that gave the mean, else None. ``parts``: of the triangle, the
    bounds in the add direction at e1 and in the remove direction at epsilon - e1.
    """

    proof: Proof
    direction: Direction | None
    epsilon: float
    log_delta: float
    order: float | None = None
    exponent: float | None = None
    log_ratio: float | None = None
    step: float | None = None
    parts: tuple[Certificate, ...] = ()

    @property
    def delta(self) -> float:
        """The bound on delta, rounded up, at most 1 and at least 1e-320."""
        if self.log_delta < -736.0:
            return 1e-320
        return min(1.0, math.exp(min(self.log_delta, 0.0)) * (1 + 2.0**-52 * (2 - min(self.log_delta, 0.0))))

    @property
    def hint(self) -> float | None:
        """Where a search close by may begin: the order, or of the triangle the share e1/epsilon."""
        if self.parts and self.epsilon > 0.0:
            return self.parts[0].epsilon / self.epsilon
        return self.order
