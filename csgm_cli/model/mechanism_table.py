"""The table of mechanisms: the clip norms, coordinates and sensitivity of each, and its name in words.

The rest of the package asks this table, and branches on no mechanism's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from csgm_cli.errors import UsageError
from csgm_cli.ranges import settle


class MechanismName(StrEnum):
    """What the server does with the clients' vectors."""

    L2_CSGM = "l2-csgm"
    LINF_CSGM = "linf-csgm"
    GAUSSIAN = "gaussian"


#: What a mechanism may be named by in Python.
MechanismLike: TypeAlias = MechanismName | Literal["l2-csgm", "linf-csgm", "gaussian"]


#: The square of a rounded square root of dim is dim.
_ROUNDED = 1e-14


@dataclass(frozen=True)
class Geometry:
    """The clip norms of a client's vector, its dimension and the cohort size.

    ``norm_ratio`` = Delta_2 / Delta_inf in [1, 1e6], by default 1, which takes the most noise (one coordinate
    may hold the whole vector), and, with ``dim`` known, at most sqrt(dim): ``resolve_geometry`` caps it.
    ``l2_norm`` = Delta_2 in [1e-30, 1e30] sets the units of the noise.
    ``dim`` and ``cohort_size`` (clients in one release) in [1, 1e12], or None. ``UsageError`` for all else.
    """

    norm_ratio: float = 1.0
    l2_norm: float = 1.0
    dim: int | None = None
    cohort_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("norm_ratio", "l2_norm", "dim", "cohort_size"):
            if name in ("norm_ratio", "l2_norm") or getattr(self, name) is not None:
                settle(self, name)
        if self.dim is not None and self.norm_ratio**2 > self.dim * (1 + 1e-9):
            raise UsageError(
                "ratio-above-dim",
                f"norm_ratio {self.norm_ratio!r} exceeds sqrt(dim) for dim {self.dim}",
                "use resolve_geometry, which caps it",
            )

    @property
    def k(self) -> float:
        """Delta_2^2 / Delta_inf^2: how many coordinates can sit at the clip at once."""
        k = self.norm_ratio**2
        if self.dim is None or k < self.dim * (1 - _ROUNDED):
            return k
        return float(self.dim)

    @property
    def linf_norm(self) -> float:
        """Delta_inf, in the units of ``l2_norm``."""
        return self.l2_norm / self.norm_ratio


@dataclass(frozen=True)
class MechanismKind:
    """What distinguishes one mechanism from the others.

    ``words`` and ``factorized_words``: its name in a statement, the latter with correlated noise.
    ``has_gamma``: False where every coordinate is always sent. ``clip_norms``: the norms that a client's
    vector is clipped to, ``l2_norm``, ``linf_norm`` or both. ``needs_dim``: whether privacy depends on dim.
    ``coordinates(geometry)``: how many coordinates at the L-inf clip the analysis charges.
    ``sensitivity(geometry, column_norm)``: in the L2 norm, of one release with every coordinate sent, under
    add-remove, if a client's vector enters multiplied by a column of that norm (1 without a factorization).
    """

    words: str
    factorized_words: str
    has_gamma: bool
    clip_norms: tuple[str, ...]
    needs_dim: bool
    coordinates: Callable[[Geometry], float]
    sensitivity: Callable[[Geometry, float], float]

    @property
    def clips_l2(self) -> bool:
        """Whether the L2 norm is clipped; otherwise all coordinates may be at the L-inf clip at once."""
        return "l2_norm" in self.clip_norms

    @property
    def clips_linf(self) -> bool:
        """Whether the L-inf norm is clipped, so that ``norm_ratio`` matters."""
        return "linf_norm" in self.clip_norms


def _k(geometry: Geometry) -> float:
    return geometry.k


def _dim(geometry: Geometry) -> float:
    assert geometry.dim is not None  # `needs_dim`
    return float(geometry.dim)


def _l2_clip(geometry: Geometry, column_norm: float) -> float:
    return geometry.l2_norm * column_norm


def _all_at_linf_clip(geometry: Geometry, column_norm: float) -> float:
    return math.sqrt(_dim(geometry)) * (geometry.linf_norm * column_norm)


MECHANISMS: dict[MechanismName, MechanismKind] = {
    MechanismName.L2_CSGM: MechanismKind(
        words="the L2 coordinate-subsampled Gaussian mechanism",
        factorized_words="sparsified Gaussian matrix factorization (SGMF)",
        has_gamma=True,
        clip_norms=("l2_norm", "linf_norm"),
        needs_dim=False,
        coordinates=_k,
        sensitivity=_l2_clip,
    ),
    MechanismName.LINF_CSGM: MechanismKind(
        words="the L-infinity coordinate-subsampled Gaussian mechanism",
        factorized_words="L-infinity sparsified Gaussian matrix factorization",
        has_gamma=True,
        clip_norms=("linf_norm",),
        needs_dim=True,
        coordinates=_dim,
        sensitivity=_all_at_linf_clip,
    ),
    MechanismName.GAUSSIAN: MechanismKind(
        words="the Gaussian mechanism",
        factorized_words="the matrix mechanism",
        has_gamma=False,
        clip_norms=("l2_norm",),
        needs_dim=False,
        coordinates=_k,
        sensitivity=_l2_clip,
    ),
}

#: The mechanisms that send each coordinate with probability gamma, in the order of comparisons.
WITH_GAMMA = tuple(name for name, kind in MECHANISMS.items() if kind.has_gamma)


def has_gamma(name: object) -> bool:
    """False for the name of a mechanism that always sends every coordinate; True for any other value."""
    return all(kind.has_gamma for other, kind in MECHANISMS.items() if other == name)
