"""What came of the claims of a file of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.model.factorization.values import Errors

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Claim:
    """One thing that a file of arrays says of itself, against what was computed from the arrays.

    ``name``: one of the keys of a factorization's result, ``sha256``, or what every file claims by being
    one: ``product`` (B C = A: the largest entry of the difference, relative), ``inverse`` (C_inv C = 1,
    likewise) and ``generators`` (B, C and C_inv are those of the streaming form, likewise); of those
    ``claimed`` is 0, and None for arrays made elsewhere, which come without claims.
    ``bands``: C has no more; ``min_separation``: columns of C so far apart have no row in common, by
    structural zeros (``computed``: the least such separation); ``participations``: T has room for so many.
    ``dual``: arrays that are said to be optimal have no more error than the dual in the same file attains.
    ``strategy``: any other has the errors of its name, a streaming form its number of buffers.
    """

    name: str
    claimed: bool | int | float | str | None
    computed: bool | int | float | str | None
    holds: bool


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Errors):
    """All numbers of a factorization recomputed from its arrays, and whether its ``claims`` hold.

    The fields are those of `Factorization`; ``strategy`` is what the file says, None where it says nothing.
    ``iterations``: steps that the solver took to find the bound, 0 where the file's dual proves it.
    """

    claims: tuple[Claim, ...] = ()

    @property
    def holds(self) -> bool:
        """True where every claim does."""
        return all(claim.holds for claim in self.claims)

    def _shown(self) -> Mapping[str, object]:
        return {"holds": self.holds, **super()._shown()}

    def _details(self) -> Mapping[str, object]:
        return {f"claim {claim.name}": "holds" if claim.holds else "fails" for claim in self.claims}
