"""The entries of X = C^T C that matter if participations are at least b steps apart."""

# ruff: noqa: N806 - T and X are the names in every formula

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.array_contents import wide

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gram:
    """``diagonal`` (T,): X_jj; ``overlaps`` (n, T): row e is X_(j, j+b+e) at column j, b the ``separation``.

    Entries beyond the last column are 0, and so is X_(i, j) for j - i >= b + n. ``rounding``: a bound on the
    rounding error of each entry.
    """

    diagonal: Array
    overlaps: Array
    separation: int
    rounding: float

    @property
    def T(self) -> int:  # noqa: N802 - the name of the dimension everywhere
        """Number of steps."""
        return len(self.diagonal)

    @property
    def is_orthogonal(self) -> bool:
        """Whether columns at least ``separation`` apart share no row."""
        return not len(self.overlaps)

    @property
    def majorant(self) -> Gram:
        """The smallest Y >= |X| (entrywise) that is nonincreasing along rows and diagonals."""
        diagonal = np.maximum.accumulate(self.diagonal[::-1])[::-1]
        overlaps = np.maximum.accumulate(np.abs(self.overlaps)[::-1], axis=0)[::-1]
        overlaps = np.maximum.accumulate(overlaps[:, ::-1], axis=1)[:, ::-1]
        return Gram(diagonal, overlaps, self.separation, self.rounding)

    def at(self, steps: NDArray[np.intp]) -> Array:
        """X at ``steps`` (..., k), in increasing order and at least ``separation`` apart: (..., k, k)."""
        gaps = steps[..., None, :] - steps[..., :, None] - self.separation
        inside = (gaps >= 0) & (gaps < len(self.overlaps))
        found = np.zeros(gaps.shape)
        if len(self.overlaps):
            first = np.broadcast_to(steps[..., :, None], gaps.shape)
            found[inside] = self.overlaps[gaps[inside], first[inside]]
        found += np.swapaxes(found, -1, -2)
        return found + self.diagonal[steps][..., None] * np.eye(steps.shape[-1])


def gram_of(c: NDArray[np.floating], separation: int) -> Gram:
    """The Gram matrix of the columns of ``c`` (R, T); O(R T^2) unless no two of them share a row."""
    x = wide(c)
    diagonal = np.einsum("ij,ij->j", x, x)
    unit = (len(x) + 2) * 2.0**-53 * float(diagonal.max())
    if _disjoint(x, separation):
        return Gram(diagonal, np.zeros((0, len(diagonal))), separation, unit)
    return Gram(diagonal, _overlaps(x.T @ x, separation), separation, unit)


def _overlaps(X: Array, separation: int) -> Array:  # noqa: N803 - as above
    """The diagonals of X from the ``separation``-th up to the last that is not all zeros."""
    T = len(X)
    found = np.zeros((max(0, T - separation), T))
    for e, row in enumerate(found):
        row[: T - separation - e] = np.diagonal(X, separation + e)
    return _trimmed(found)


def _trimmed(overlaps: Array) -> Array:
    """``overlaps`` without trailing rows of zeros."""
    return overlaps[: 1 + int(np.flatnonzero(overlaps.any(axis=1)).max(initial=-1))]


def _disjoint(x: Array, separation: int) -> bool:
    """Whether the last row of every column is above the first row of columns ``separation`` or more later."""
    T = x.shape[1]
    if separation >= T:
        return True
    held = x != 0.0
    first = np.where(held.any(axis=0), held.argmax(axis=0), len(x))
    last = np.where(held.any(axis=0), len(x) - 1 - held[::-1].argmax(axis=0), -1)
    later = np.minimum.accumulate(first[::-1])[::-1]
    return bool((last[:-separation] < later[separation:]).all())


def gram_of_bands(bands: Array, separation: int) -> Gram:
    """The Gram matrix of the columns of a banded C from its bands, O(T) for each pair of bands."""
    p, T = bands.shape
    diagonal = np.einsum("lj,lj->j", bands, bands)
    overlaps = np.zeros((max(0, p - separation), T))
    for e, row in enumerate(overlaps):
        gap = separation + e
        np.einsum("lj,lj->j", bands[gap:, : T - gap], bands[: p - gap, gap:], out=row[: T - gap])
    return Gram(diagonal, _trimmed(overlaps), separation, (p + 2) * 2.0**-53 * float(diagonal.max()))
