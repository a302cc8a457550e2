"""Noise C^-1 Z or B Z with N numbers of state per coordinate, by the recursion of `Generators`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.factorization.matrices.semiseparable import cast, column_norms_squared, norm_margin
from csgm_cli.noise.normals import not_below

if TYPE_CHECKING:
    from csgm_cli.model.factorization import FloatArray, Generators
    from csgm_cli.noise.normals import Fill, Floats, Piece


class StreamingNoise:
    """The recursion of ``generators``, exactly as rounded in ``dtype``, for noise of std ``sigma``.

    ``rates``: None for noise on the increments, else (T,): row t is the sum of rates_s x_s over s <= t.
    """

    def __init__(
        self,
        generators: Generators,
        sigma: float,
        rates: FloatArray | None,
        dtype: np.dtype[np.floating],
    ) -> None:
        g = generators
        # Columns, to be multiplied with states of shape (N, width).
        self.decays, self.inputs, self.outputs = (
            part.astype(dtype)[:, :, None] for part in (g.decays, g.inputs, g.outputs)
        )
        self.diagonal = g.diagonal.astype(dtype)
        self.rates = None if rates is None else rates.astype(dtype)
        self.sigma = not_below(sigma, dtype)
        self.dtype = dtype

    @property
    def coefficients(self) -> list[Floats]:
        """All that the noise depends on, besides the normals."""
        rates = [] if self.rates is None else [self.rates]
        return [self.decays, self.inputs, self.outputs, self.diagonal, *rates]

    def workers(self, fill: Fill, cut: list[Piece]) -> list[Recursion]:
        """Noise on each of the pieces, from row 0 on."""
        widest = max(piece.length for piece in cut)
        scratch = np.empty((self.decays.shape[1] + 1, widest), self.dtype)
        return [Recursion(self, fill, piece, scratch) for piece in cut]


class Recursion:
    """The state of one piece; ``row`` must be called for 0, 1, 2, ... in turn."""

    def __init__(self, noise: StreamingNoise, fill: Fill, piece: Piece, scratch: Floats) -> None:
        self.noise, self.fill, self.piece = noise, fill, piece
        states = noise.decays.shape[1]
        self.states = np.zeros((states, piece.width), noise.dtype)
        self.total = None if noise.rates is None else np.zeros(piece.width, noise.dtype)
        self.scratch = scratch[:states, : piece.width]
        self.drawn = None if piece.whole else scratch[states, : piece.length]

    def skip(self, rows: int) -> None:
        """Go through the first ``rows`` rows."""
        out = np.empty(self.piece.width, self.noise.dtype)
        for t in range(rows):
            self.row(t, out)

    def row(self, t: int, out: Floats) -> None:
        """Fill ``out`` with row ``t``. In place throughout; every operation works on single coordinates."""
        noise, states, scratch = self.noise, self.states, self.scratch
        if self.drawn is None:
            self.fill(t, self.piece.chunk, out)
        else:
            self.fill(t, self.piece.chunk, self.drawn)
            out[:] = self.drawn[self.piece.inside]
        out *= noise.sigma
        np.multiply(states, noise.outputs[t], out=scratch)
        for part in scratch:  # one by one: the order of a sum over an axis depends on the width
            out -= part
        out /= noise.diagonal[t]
        states *= noise.decays[t]
        np.multiply(out, noise.inputs[t], out=scratch)
        states += scratch
        if self.total is not None and noise.rates is not None:
            out *= noise.rates[t]
            self.total += out
            out[:] = self.total


def rounded_sensitivity(generators: Generators, dtype: np.dtype[np.floating]) -> float:
    """colmax(C) of the C that the generators, rounded to ``dtype``, are of: not below it, in O(T N^2)."""
    squared = column_norms_squared(cast(generators, dtype)).max()
    return float(squared**0.5) * (1.0 + norm_margin(generators))
