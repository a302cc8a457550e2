"""The frozen values of selftest, which no other command needs (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SelftestCase:
    """One shipped reference value recomputed here."""

    name: str
    expected: float
    computed: float
    relative_difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """True where the recomputation agrees (False for a NaN)."""
        return self.relative_difference <= self.tolerance
