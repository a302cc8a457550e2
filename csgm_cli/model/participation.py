"""How often one client takes part in one run of a factorization (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass

from csgm_cli.errors import UsageError
from csgm_cli.ranges import check_type, settle


@dataclass(frozen=True)
class Participation:
    """Take part at most ``participations`` times in T steps, any two at least ``min_separation`` steps apart.

    Adjacent steps have separation 1. Both are in [1, 1e8]. ``fixed_order``: clients come back in the same
    order in every pass, so that the steps of one client are exactly ``min_separation`` apart.
    """

    participations: int
    min_separation: int
    fixed_order: bool = False

    def __post_init__(self) -> None:
        settle(self, "participations")
        settle(self, "min_separation")
        check_type("fixed_order", self.fixed_order, bool)

    def check(self, T: int, bands: int | None = None) -> None:  # noqa: N803 - the name everywhere
        """Raise ``UsageError`` unless T steps have room for it, and ``bands`` keep columns orthogonal.

        Slugs: ``too-many-participations``, ``too-many-bands``.
        """
        most = -(-T // self.min_separation)
        if self.participations > most:
            message = (
                f"at separation {self.min_separation} a client takes part at most {most} times in {T} steps"
            )
            raise UsageError(
                "too-many-participations", f"{message}, got {self.participations} participations"
            )
        if bands is not None and bands > self.min_separation:
            raise UsageError(
                "too-many-bands",
                f"{bands} bands need a separation of at least {bands}, got {self.min_separation}: columns"
                " of C that one client touches would overlap",
            )
