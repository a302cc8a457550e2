"""Noise C^-1 Z or B Z by a filter with few numbers of state per coordinate: of `Generators` or of `Bands`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from csgm_cli.factorization.matrices.semiseparable import cast, column_norms_squared, norm_margin
from csgm_cli.model.factorization import Bands, Generators
from csgm_cli.noise.normals import not_below

if TYPE_CHECKING:
    from csgm_cli.model.factorization import AnyFloatArray, FloatArray
    from csgm_cli.noise.normals import Fill, Floats, Piece


class FilterNoise:
    """x_t = (z_t - outputs_t . states) / diagonal_t, exactly as rounded in ``dtype``, for z of std ``sigma``.

    ``rates``: None for noise on the increments, else (T,): row t is the sum of rates_s x_s over s <= t.
    ``scratch``: how many rows of scratch `advance` takes, at least one.
    """

    scratch = 1

    def __init__(
        self,
        outputs: AnyFloatArray,
        diagonal: AnyFloatArray,
        sigma: float,
        rates: FloatArray | None,
        dtype: np.dtype[np.floating],
    ) -> None:
        self.outputs = outputs.astype(dtype)
        self.reciprocals = _reciprocals_above(diagonal.astype(dtype))
        self.rates = None if rates is None else rates.astype(dtype)
        self.sigma = not_below(sigma, dtype)
        self.dtype = dtype

    @property
    def coefficients(self) -> list[Floats]:
        """All that the noise depends on, besides the normals."""
        return [self.outputs, self.reciprocals, *([] if self.rates is None else [self.rates])]

    def advance(self, t: int, x: Floats, states: Floats, scratch: Floats) -> None:
        """Move the states (buffers, length) on from row ``t``, in place."""
        raise NotImplementedError

    def workers(self, fill: Fill, cut: list[Piece]) -> list[Recursion]:
        """Noise on each of the pieces, from row 0 on."""
        lengths, buffers = [piece.length for piece in cut], self.outputs.shape[1]
        scratch = np.empty((self.scratch + 1, max(lengths)), self.dtype)
        # In one array, which NumPy places in huge pages.
        states = np.zeros(buffers * sum(lengths), self.dtype)
        parts = np.split(states, buffers * np.cumsum(lengths)[:-1])
        return [
            Recursion(self, fill, piece, part.reshape(buffers, piece.length), scratch)
            for piece, part in zip(cut, parts, strict=True)
        ]


class StreamingNoise(FilterNoise):
    """The recursion of ``generators``."""

    def __init__(
        self,
        generators: Generators,
        sigma: float,
        rates: FloatArray | None,
        dtype: np.dtype[np.floating],
    ) -> None:
        g = generators
        super().__init__(g.outputs, g.diagonal, sigma, rates, dtype)
        # Columns, to be multiplied with states of shape (N, length).
        self.decays, inputs = (part.astype(dtype)[:, :, None] for part in (g.decays, g.inputs))
        shared = (inputs == inputs[:, :1]).all()  # as in `streaming`: one product for all states
        self.inputs = inputs[:, :1] if shared else inputs
        self.scratch = self.inputs.shape[1]

    @property
    def coefficients(self) -> list[Floats]:
        """All that the noise depends on, besides the normals."""
        return [self.decays, self.inputs, *super().coefficients]

    def advance(self, t: int, x: Floats, states: Floats, scratch: Floats) -> None:
        """Decay, and add ``x`` times the inputs."""
        states *= self.decays[t]
        states += np.multiply(x, self.inputs[t], out=scratch)


class BandedNoise(FilterNoise):
    """C^-1 by the ``bands`` of C: the states are the last b - 1 rows, each in the place of the oldest."""

    def __init__(
        self, bands: Bands, sigma: float, rates: FloatArray | None, dtype: np.dtype[np.floating]
    ) -> None:
        matrix = bands.matrix
        buffers, rows = len(matrix) - 1, matrix.shape[1]
        outputs = np.zeros((rows, buffers), matrix.dtype)
        for lag in range(1, buffers + 1):
            earlier = np.arange(rows - lag)
            outputs[earlier + lag, earlier % buffers] = matrix[lag, : rows - lag]
        super().__init__(outputs, matrix[0], sigma, rates, dtype)

    def advance(self, t: int, x: Floats, states: Floats, scratch: Floats) -> None:  # noqa: ARG002 - of FilterNoise
        """Put ``x`` in the place of the oldest row."""
        if len(states):
            states[t % len(states)] = x


class Recursion:
    """The state of the chunk of one piece; ``row`` must be called for 0, 1, 2, ... in turn.

    Whole chunks, because the rounding of a product may depend on its width.
    """

    def __init__(self, noise: FilterNoise, fill: Fill, piece: Piece, states: Floats, scratch: Floats) -> None:
        self.noise, self.fill, self.piece, self.states = noise, fill, piece, states
        self.total = None if noise.rates is None else np.zeros(piece.length, noise.dtype)
        self.scratch, self.chunk = scratch[:-1, : piece.length], scratch[-1, : piece.length]

    def skip(self, rows: int) -> None:
        """Go through the first ``rows`` rows."""
        out = np.empty(self.piece.width, self.noise.dtype)
        for t in range(rows):
            self.row(t, out)

    def row(self, t: int, out: Floats) -> None:
        """Fill ``out`` with row ``t``."""
        if self.piece.whole:
            self._chunk_row(t, out)
        else:
            self._chunk_row(t, self.chunk)
            out[:] = self.chunk[self.piece.inside]

    def _chunk_row(self, t: int, x: Floats) -> None:
        """Fill ``x`` with row ``t`` of the chunk, in place throughout; sigma is multiplied last."""
        noise, states, scratch = self.noise, self.states, self.scratch
        self.fill(t, self.piece.chunk, x)
        x -= np.matmul(noise.outputs[t], states, out=scratch[0])
        x *= noise.reciprocals[t]
        noise.advance(t, x, states, scratch)
        if self.total is None or noise.rates is None:
            x *= noise.sigma
            return
        if noise.rates[t] != 1.0:
            x *= noise.rates[t]
        self.total += x
        np.multiply(self.total, noise.sigma, out=x)


def rounded_down(form: Generators | Bands, dtype: np.dtype[np.floating]) -> Generators | Bands:
    """The form with numbers in ``dtype`` that are no larger in magnitude.

    Nonnegative ones are then of a C without a larger entry, which has no larger sensitivity, however often a
    client takes part.
    """
    if isinstance(form, Bands):
        return Bands(_down(form.matrix, dtype))
    return Generators(*(_down(x, dtype) for x in (form.decays, form.inputs, form.outputs, form.diagonal)))


def _down(x: AnyFloatArray, dtype: np.dtype[np.floating]) -> Any:  # noqa: ANN401 - of either precision
    found = x.astype(dtype)
    return np.where(np.abs(found) > np.abs(x), np.nextafter(found, dtype.type(0)), found)


def _reciprocals_above(diagonal: Floats) -> Floats:
    """1 / ``diagonal``, rounded up: those of a C with no larger diagonal, whose columns are no longer."""
    with np.errstate(over="ignore"):  # infinite noise is refused
        reciprocals = 1 / diagonal
    is_exact = np.frexp(diagonal)[0] == 0.5  # a power of two
    return np.where(is_exact, reciprocals, np.nextafter(reciprocals, np.asarray(np.inf, diagonal.dtype)))


def rounded_sensitivity(generators: Generators, dtype: np.dtype[np.floating]) -> float:
    """colmax(C) of the C that the generators, rounded to ``dtype``, are of: not below it, in O(T N^2)."""
    squared = column_norms_squared(cast(generators, dtype)).max()
    return float(squared**0.5) * (1.0 + norm_margin(generators))


def rounded_band_sensitivity(bands: Bands, dtype: np.dtype[np.floating]) -> float:
    """colmax(C) of the C that the bands, rounded to ``dtype``, are of: not below it."""
    matrix = bands.matrix.astype(dtype).astype(np.float64)
    squared = float(np.einsum("lj,lj->j", matrix, matrix).max())
    return float(squared**0.5) * (1.0 + (len(matrix) + 2) * 2.0**-53)
