"""Noise M Z for any matrix M with T rows (B, or C^-1): a matrix product, some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.noise.normals import not_below

if TYPE_CHECKING:
    from csgm_cli.noise.normals import Fill, Floats, Piece


#: A product of fixed size, so that its rounding depends neither on the block nor on where a stream resumed.
_ROWS, _COLUMNS = 64, 512
#: Bytes of rows that a stream computes ahead, where that is more than ``_ROWS`` of them.
_AHEAD = 2**28


class DenseNoise:
    """``matrix`` (T x any), exactly as rounded in ``dtype``, times normals of std ``sigma``."""

    def __init__(self, matrix: Floats, sigma: float, dtype: np.dtype[np.floating]) -> None:
        self.matrix = matrix.astype(dtype)
        self.sigma = not_below(sigma, dtype)
        self.dtype = dtype
        #: By panel of rows: how many columns it has until only zeros follow.
        self.reach = [
            int(np.flatnonzero(self.matrix[start : start + _ROWS].any(axis=0)).max(initial=-1)) + 1
            for start in range(0, len(matrix), _ROWS)
        ]

    @property
    def coefficients(self) -> list[Floats]:
        """All that the noise depends on, besides the normals."""
        return [self.matrix]

    def workers(self, fill: Fill, cut: list[Piece]) -> list[Product]:
        """Noise on each of the pieces."""
        width = sum(piece.width for piece in cut)
        panels = max(1, _AHEAD // (_ROWS * width * self.dtype.itemsize))
        return [Product(self, fill, piece, panels) for piece in cut]

    def product(self, fill: Fill, piece: Piece, panels: range, out: Floats) -> None:
        """The rows of ``panels`` of one whole chunk; each row of Z that they need is drawn once."""
        reach = max(1, *(self.reach[panel] for panel in panels))  # rows of zeros are filled too
        z = np.empty((min(_COLUMNS, reach), piece.length), self.dtype)
        part = np.empty((_ROWS, piece.length), self.dtype)
        for start in range(0, reach, _COLUMNS):
            stop = min(start + _COLUMNS, reach)
            for row in range(start, stop):
                fill(row, piece.chunk, z[row - start])
            for i, panel in enumerate(panels):
                rows = self.matrix[panel * _ROWS : (panel + 1) * _ROWS, start : min(stop, self.reach[panel])]
                target = out[i * _ROWS : i * _ROWS + len(rows)]
                if start == 0:
                    np.matmul(rows, z[: rows.shape[1]], out=target)
                elif rows.shape[1]:
                    target += np.matmul(rows, z[: rows.shape[1]], out=part[: len(rows)])


class Product:
    """The rows of one piece that are computed already."""

    def __init__(self, noise: DenseNoise, fill: Fill, piece: Piece, panels: int) -> None:
        self.noise, self.fill, self.piece, self.panels = noise, fill, piece, panels
        self.first = 0
        self.rows = np.empty((0, piece.width), noise.dtype)

    def skip(self, rows: int) -> None:
        """Nothing to do: any row can be computed from the normals."""

    def row(self, t: int, out: Floats) -> None:
        """Fill ``out`` with row ``t``."""
        if not self.first <= t < self.first + len(self.rows):
            self._compute(t // _ROWS)
        np.multiply(self.rows[t - self.first], self.noise.sigma, out=out)

    def _compute(self, panel: int) -> None:
        panels = range(panel, min(panel + self.panels, len(self.noise.reach)))
        first, stop = panels.start * _ROWS, min(panels.stop * _ROWS, len(self.noise.matrix))
        self.rows = np.empty((0, 0), self.noise.dtype)  # frees them: one set at a time
        rows = np.empty((stop - first, self.piece.length), self.noise.dtype)
        self.noise.product(self.fill, self.piece, panels, rows)
        self.first = first
        self.rows = rows if self.piece.whole else rows[:, self.piece.inside].copy()
