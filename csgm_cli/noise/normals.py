"""Independent standard normals Z[row, coordinate] that can be had in any order.

The coordinates are cut into chunks of a fixed length, and a chunk of a row is drawn from the seed, the row
and the chunk alone: whoever asks for which part of Z, and when, sees the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.errors import UsageError

Floats: TypeAlias = NDArray[np.floating]
#: (row, chunk, length) -> ``length`` standard normals, the same for every call with the same arguments.
NormalSource: TypeAlias = Callable[[int, int, int], ArrayLike]
#: Fills an array with the normals of (row, chunk).
Fill: TypeAlias = Callable[[int, int, Floats], None]

#: Coordinates per chunk: a few of them fit in a core's cache, and starting a generator costs little more.
CHUNK = 16384


@dataclass(frozen=True)
class Piece:
    """The part of one chunk that a stream makes: ``inside`` the chunk, ``outside`` in the stream's rows."""

    chunk: int
    length: int
    inside: slice
    outside: slice

    @property
    def width(self) -> int:
        """How many coordinates it has."""
        return int(self.inside.stop - self.inside.start)

    @property
    def whole(self) -> bool:
        """True where it is the chunk."""
        return self.width == self.length


def pieces(first: int, stop: int, dim: int) -> list[Piece]:
    """The chunks, of ``dim`` coordinates, that the coordinates from ``first`` to ``stop`` lie in."""
    found = []
    for chunk in range(first // CHUNK, -(-stop // CHUNK)):
        start = chunk * CHUNK
        length = min(CHUNK, dim - start)
        low, high = max(first, start), min(stop, start + length)
        found.append(Piece(chunk, length, slice(low - start, high - start), slice(low - first, high - first)))
    return found


def philox(seed: int) -> Fill:
    """Normals by NumPy's Ziggurat from Philox 4x64-10 (Salmon et al. 2011) with ``seed`` as its key.

    Row and chunk are the upper half of the 256-bit counter, so no two (row, chunk) share random bits.
    """
    bits = np.random.Philox(key=seed)
    generator = np.random.Generator(bits)
    start = bits.state  # nothing is buffered in it
    counter = start["state"]["counter"]

    def fill(row: int, chunk: int, out: Floats) -> None:
        counter[:] = 0, 0, chunk, row
        bits.state = start
        generator.standard_normal(out=out, dtype=out.dtype.type)

    return fill


def checked(source: NormalSource) -> Fill:
    """The normals of a caller's own ``source``; ``UsageError`` (slug ``bad-normals``) for anything else."""

    def fill(row: int, chunk: int, out: Floats) -> None:
        values = np.asarray(source(row, chunk, len(out)))
        if values.shape != out.shape or values.dtype.kind != "f":
            what = f"an array of {values.dtype} of shape {values.shape}"
        elif not np.isfinite(values).all():
            what = "numbers that are not finite"
        else:
            out[:] = values
            return
        raise UsageError(
            "bad-normals", f"normals({row}, {chunk}, {len(out)}) must return that many floats, got {what}"
        )

    return fill


def not_below(sigma: float, dtype: np.dtype[np.floating]) -> Floats:
    """The least number of ``dtype`` that is not below ``sigma``, as an array without sides."""
    rounded = np.asarray(sigma, dtype)
    return rounded if float(rounded) >= sigma else np.nextafter(rounded, np.asarray(np.inf, dtype))
