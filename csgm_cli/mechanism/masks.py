"""Masks: the positions that a client sends, derived from a secret seed that it shares with the server.

Each coordinate draws a 32-bit integer u from a keystream, and is sent if u < gamma 2^32: independent
Bernoulli(gamma) draws, with gamma floored to a multiple of 2^-32. The highest byte of u decides for all but
one coordinate in 256; the other three bytes are drawn only for those coordinates.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.keystream import keystream
from csgm_cli.mechanism.plan import GAMMA_STEPS, floored_gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Coordinates per block of the keystream; part of the specification, since each block starts a stream.
BLOCK = 2**20
#: Bytes of a seed: at least the 128 bits of SHAKE128's security.
LEAST_SEED_BYTES = 16


def mask_positions(seed: bytes, gamma: float, length: int) -> NDArray[np.int64]:
    """The increasing positions in [0, length) that are sent, each with probability ``gamma``.

    ``gamma`` is floored to a multiple of 2^-32. The same seed gives the same mask on every platform
    and in every version: draw a new seed for each client and round from secret randomness
    (``secrets.token_bytes(16)``).

    Raises:
        UsageError: a seed of less than 16 bytes (slug ``short-seed``), or gamma below 2^-32.
    """
    if not isinstance(seed, bytes) or len(seed) < LEAST_SEED_BYTES:
        raise UsageError(
            "short-seed",
            f"the seed of a mask must be at least {LEAST_SEED_BYTES} bytes",
            "call secrets.token_bytes(16) for each client and each round",
        )
    threshold = round(floored_gamma(gamma) * GAMMA_STEPS)  # exact
    if threshold == GAMMA_STEPS:
        return np.arange(length, dtype=np.int64)
    return _positions(seed, threshold, length).copy()


@lru_cache(maxsize=1)  # a simulation needs each mask twice in a row: for the client and for the server
def _positions(seed: bytes, threshold: int, length: int) -> NDArray[np.int64]:
    found = [
        _block_positions(seed, threshold, block, min(BLOCK, length - block * BLOCK)) + block * BLOCK
        for block in range(-(-length // BLOCK))
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _block_positions(seed: bytes, threshold: int, block: int, length: int) -> NDArray[np.int64]:
    """The positions within one block whose integer is below ``threshold``."""
    top, rest = threshold >> 24, threshold & 0xFFFFFF
    high = np.frombuffer(keystream("csgm mask 1 high", seed, block, length), np.uint8)
    positions = np.flatnonzero(high <= top).astype(np.int64)
    undecided = high[positions] == top
    count = int(np.count_nonzero(undecided))
    low = np.frombuffer(keystream("csgm mask 1 low", seed, block, 3 * count), np.uint8)
    low = low.reshape(count, 3).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    is_sent = ~undecided
    is_sent[undecided] = low < rest
    found: NDArray[np.int64] = positions[is_sent]
    return found
