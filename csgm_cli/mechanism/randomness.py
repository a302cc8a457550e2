"""Random bytes of the server: from the operating system, or from a seed in simulations."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.ranges import Range, check_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEED = Range(0, 2**53, integer=True)
_WORD = 2.0**64


class Randomness:
    """A source of random bytes. With a ``seed`` in [0, 2^53] anyone who knows it can remove the noise."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = None if seed is None else int(check_range("seed", seed, _SEED))
        self._drawn = 0

    @property
    def is_private(self) -> bool:
        """Whether the bytes come from the operating system."""
        return self._seed is None

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if self._seed is None:
            return secrets.token_bytes(size)
        self._drawn += 1
        return hashlib.shake_256(f"csgm server {self._seed} {self._drawn}".encode()).digest(size)

    def key(self) -> int:
        """A random 128-bit integer."""
        return int.from_bytes(self.take(16), "little")

    def coins(self, count: int, probability: float) -> NDArray[np.bool_]:
        """Independent coins, True with ``probability`` < 1, which is floored to a multiple of 2^-64."""
        words = np.frombuffer(self.take(8 * count), "<u8")
        return words < np.uint64(int(probability * _WORD))
