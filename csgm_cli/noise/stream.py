"""The public class: checks arguments, keeps the position, and assembles rounds from pieces."""

# ruff: noqa: N802, N806 - T is the number of rows in every formula

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.factorization.export import noise_matrix
from csgm_cli.model.display import Displayed, at_most
from csgm_cli.model.factorization import (
    AnyFloatArray,
    Bands,
    Factorization,
    FloatArray,
    Generators,
    NoiseOn,
    NoiseOnLike,
    NoiseState,
    noise_on_named,
)
from csgm_cli.noise.checks import (
    FloatType,
    check_finite_noise,
    checked_bands,
    checked_generators,
    checked_matrix,
    checked_seed,
    checked_sigma,
    float_type,
)
from csgm_cli.noise.dense import DenseNoise, Product
from csgm_cli.noise.normals import Fill, Floats, NormalSource, checked, philox, pieces
from csgm_cli.noise.streaming import (
    BandedNoise,
    FilterNoise,
    Recursion,
    StreamingNoise,
    rounded_band_sensitivity,
    rounded_down,
    rounded_sensitivity,
)
from csgm_cli.ranges import Range, check_range

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from csgm_cli.factorization.dense import Precision

_Noise: TypeAlias = DenseNoise | FilterNoise
_Worker: TypeAlias = Product | Recursion


class NoiseStream(Displayed):
    """The correlated Gaussian noise of a factorization A = B C, one round after the other.

    ``factors`` is a `Factorization`, or what an exported file holds: `Generators`, `Bands`, or the one matrix
    that is multiplied with Z. With Z a matrix of independent normals of standard deviation ``sigma``, one
    column per model coordinate, row t of the noise is

    * ``on="increments"``: (C^-1 Z)[t], to be added to the t-th sum of client vectors (matrix: C^-1);
    * ``on="sums"``: (B Z)[t], to be added to row t of A X, such as a prefix sum (matrix: B). With
      `Generators` or `Bands` alone A is taken to be the prefix sum.

    Never two streams of one seed for different data: the difference of their releases has no noise.

    ``sigma`` is that of the calibration, sensitivity of C included, in [1e-45, 1e48] ([1e-30, 1e30] in
    float32), for the SUM of the masked vectors; 0 needs ``no_privacy=True`` and warns. ``dim`` in [1, 1e12].
    ``dtype``: float64 (of a `Factorization` the default) or float32; arrays have theirs, and may be made
    wider but not narrower, which could raise the sensitivity. ``seed`` in [0, 2^128): without one it comes
    from the operating system's entropy, as it should for training. ``resume`` goes on from the ``state`` of
    an earlier stream with the same arguments.

    ``for noise in stream`` has one array of shape (dim,) per round and ends after T; ``next_round`` raises
    instead. ``blocks(width)`` has streams over ``width`` coordinates at a time. Number i of round t depends
    on the arguments, the seed, t and i alone: with the same NumPy and BLAS it is the same to the bit in
    whatever blocks and after whatever interruption. Memory: per coordinate N numbers for generators, b - 1
    for b bands (on sums one more), 64 for a matrix, or as many as fit in 256 MiB; fewer than T of them make a
    matrix draw Z again and again, so that blocks are the fast way there.

    **Security.** Philox is not a cryptographic generator, though no test is known to distinguish it
    from random. ``normals(row, chunk, length)`` may supply the standard normals of a better one: the same for
    the same arguments, independent otherwise. Noise in floating point leaks where an attacker sees all bits
    of an output (Mironov 2012); that is outside the model in which sigma is calibrated.

    Raises ``UsageError``: ``invalid-type``, ``out-of-range``, ``unknown-choice``, ``wrong-dtype``,
    ``shape-mismatch``, ``not-finite``, ``transposed`` (an upper-triangular matrix),
    ``no-inverse`` (trees have noise on sums only), ``no-privacy``, ``conflicting-options``, ``other-noise``
    (a state of another stream), ``bad-normals``; docs/json.md lists them. ``NoAnswerError`` (slug
    ``not-certified``) for a factorization too ill-conditioned for ``dtype``.
    """

    def __init__(
        self,
        factors: Factorization | Generators | Bands | AnyFloatArray,
        *,
        sigma: float,
        dim: int,
        on: NoiseOnLike,
        dtype: DTypeLike | None = None,
        seed: int | None = None,
        normals: NormalSource | None = None,
        no_privacy: bool = False,
        resume: NoiseState | None = None,
    ) -> None:
        self._dtype = float_type(dtype, factors)
        self._sigma = sigma = checked_sigma(sigma, self._dtype, no_privacy=no_privacy)
        self._on = noise_on_named(on)
        self._dim = int(check_range("dim", dim))
        self._range = range(self._dim)
        self._noise, self._T = _noise(factors, sigma, self._on, self._dtype)
        self._identity = f"{sigma!r} {self._dim} {self._dtype} {self._on}"
        self._seed = checked_seed(seed, normals, resume)
        self._normals = normals
        self._workers: list[tuple[slice, _Worker]] | None = None
        self._t = 0
        if resume is not None:
            self._resume(resume)

    @property
    def T(self) -> int:
        """Rounds in all."""
        return self._T

    @property
    def t(self) -> int:
        """The next round, from 0; T when all are drawn."""
        return self._t

    @property
    def coordinates(self) -> range:
        """Which model coordinates it makes noise for: all, or those of its block."""
        return self._range

    @property
    def dtype(self) -> FloatType:
        """Of the noise, and of everything that it is computed with."""
        return self._dtype

    @property
    def state(self) -> NoiseState:
        """What ``resume`` takes. The rounds before t are then computed again from the seed, not stored."""
        return NoiseState(self._t, self._fingerprint(), self._seed)

    def next_round(self) -> AnyFloatArray:
        """The noise of round t, a new array of finite numbers.

        ``UsageError``: slug ``no-rounds-left`` after the last one, ``not-finite`` where the noise overflows
        because numbers of the factors are too large.
        """
        if self._t >= self._T:
            raise UsageError(
                "no-rounds-left",
                f"all {self._T} rounds of the factorization have been drawn",
                "for another epoch, start a new stream with a new seed; a longer one takes a factorization of"
                " more rows",
            )
        out = np.empty(len(self._range), self._dtype)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
                # To and fro, so that a round starts with the states that are still in cache.
                for place, worker in self._working()[:: 1 if self._t % 2 else -1]:
                    worker.row(self._t, out[place])
                    check_finite_noise(self._t, out[place])
        except BaseException:  # some pieces went on and some did not: begin again from the seed
            self._workers = None
            raise
        self._t += 1
        return cast("AnyFloatArray", out)

    def __iter__(self) -> Iterator[AnyFloatArray]:
        while self._t < self._T:
            yield self.next_round()

    def blocks(self, width: int) -> Iterator[NoiseStream]:
        """Streams from round t on over ``width`` of the coordinates at a time (the last may have fewer).

        Their ``coordinates`` say which. Multiples of 16384 waste no work. Blocks share nothing that changes:
        they may run in threads, unless ``normals`` may not.
        """
        width = int(check_range("width", width, Range(1, 1e12, integer=True)))
        for first in range(self._range.start, self._range.stop, width):
            block = copy.copy(self)
            block._range = range(first, min(first + width, self._range.stop))
            block._workers = None
            yield block

    def _shown(self) -> Mapping[str, object]:
        whole = len(self._range) == self._dim
        block = {} if whole else {"coordinates": f"{self._range.start}:{self._range.stop}"}
        return {
            "t": self._t,
            "T": self._T,
            "dim": self._dim,
            **block,
            "on": self._on,
            "sigma": at_most(self._sigma),
            "dtype": self._dtype,
        }

    def _working(self) -> list[tuple[slice, _Worker]]:
        """The workers of all pieces, at round t."""
        if self._workers is None:
            cut = pieces(self._range.start, self._range.stop, self._dim)
            workers: Sequence[_Worker] = self._noise.workers(self._fill(), cut)
            for worker in workers:
                worker.skip(self._t)
            self._workers = [(piece.outside, worker) for piece, worker in zip(cut, workers, strict=True)]
        return self._workers

    def _fill(self) -> Fill:
        """A generator of its own for each user, so that blocks may run in threads."""
        if self._seed is not None:
            return philox(self._seed)
        assert self._normals is not None  # checked_seed saw to it
        return checked(self._normals)

    def _resume(self, state: NoiseState) -> None:
        t = check_range("t", state.t, Range(0, self._T, integer=True))
        if state.fingerprint != self._fingerprint():
            raise UsageError(
                "other-noise",
                "the state belongs to another stream: its arguments, normals or NumPy's generator differ",
                "pass all arguments as before; if NumPy changed, go on with the version that began",
            )
        self._t = int(t)

    def _fingerprint(self) -> str:
        """A hash of all that the noise depends on; the first and the last stand for all normals."""
        digest = hashlib.sha256(f"{self._identity} {self._T}".encode())
        for array in self._noise.coefficients:
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        last = pieces(self._dim - 1, self._dim, self._dim)[0]
        fill = self._fill()
        for row, piece in ((0, pieces(0, 1, self._dim)[0]), (self._T - 1, last)):
            z = np.empty(piece.length, self._dtype)
            fill(row, piece.chunk, z)
            digest.update(z.data)
        return digest.hexdigest()


def _noise(factors: object, sigma: float, on: NoiseOn, dtype: FloatType) -> tuple[_Noise, int]:
    """The noise of ``factors``, and its number of rounds."""
    noise: _Noise
    if isinstance(factors, Factorization):
        form = _form_of(factors)
        if form is None:
            dense, more = _matrix_of(factors, on, dtype)
            return DenseNoise(dense, sigma * more, dtype), factors.T
        rates = factors.workload.learning_rates
        if dtype == np.float32:  # another C: the noise grows as its sensitivity does
            form = rounded_down(form, dtype)
            sigma *= max(1.0, _rounded_sensitivity(form, dtype) / factors.sensitivity)
            if on is NoiseOn.SUMS and rates is not None:  # of sums at rounded rates, C has scaled columns
                sigma *= max(1.0, float((rates / rates.astype(dtype)).max()))
        noise, T = _filtered(form, sigma, on, rates, dtype), factors.T
    elif isinstance(factors, Generators | Bands):
        T = checked_generators(factors) if isinstance(factors, Generators) else checked_bands(factors)
        noise = _filtered(factors, sigma, on, None, dtype)
    else:
        matrix = checked_matrix(factors)
        noise, T = DenseNoise(matrix, sigma, dtype), len(matrix)
    return noise, T


def _form_of(factorization: Factorization) -> Generators | Bands | None:
    """The filter of a factorization that has one."""
    if factorization.band_matrix is not None:
        return Bands(factorization.band_matrix)
    return factorization.generators


def _rounded_sensitivity(form: Generators | Bands, dtype: FloatType) -> float:
    if isinstance(form, Bands):
        return rounded_band_sensitivity(form, dtype)
    return rounded_sensitivity(form, dtype)


def _filtered(
    form: Generators | Bands, sigma: float, on: NoiseOn, rates: FloatArray | None, dtype: FloatType
) -> FilterNoise:
    T = form.matrix.shape[1] if isinstance(form, Bands) else len(form.diagonal)
    if on is NoiseOn.INCREMENTS:
        rates = None
    elif rates is None:
        rates = np.ones(T)
    if isinstance(form, Bands):
        return BandedNoise(form, sigma, rates, dtype)
    return StreamingNoise(form, sigma, rates, dtype)


def _matrix_of(factorization: Factorization, on: NoiseOn, dtype: FloatType) -> tuple[Floats, float]:
    """What is multiplied with Z, and by what the noise grows because it is rounded."""
    name: Literal["B", "C_inv"] = "B" if on is NoiseOn.SUMS else "C_inv"
    matrix, more = noise_matrix(factorization, name, cast("Precision", dtype.name))
    if matrix is None:
        raise UsageError(
            "no-inverse",
            f"{factorization.strategy} has one number of Z per node of the tree, not one per round",
            "use on='sums', or the strategy honaker-full",
        )
    return matrix, more
