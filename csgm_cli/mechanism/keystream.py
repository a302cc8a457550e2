"""Pseudorandom bytes, the same on every platform and in every version: SHAKE128 of a labelled seed."""

from __future__ import annotations

import hashlib

#: Length of the label before the seed; different labels keep different uses of a seed apart.
_LABEL_BYTES = 24


def keystream(label: str, seed: bytes, block: int, size: int) -> bytes:
    """The first ``size`` bytes of SHAKE128(label, padded with zeros to 24 bytes || block || seed).

    ``block`` is written as 8 bytes, little-endian. ``label``: ASCII of at most 24 characters.
    """
    prefix = label.encode("ascii").ljust(_LABEL_BYTES, b"\0") + block.to_bytes(8, "little")
    assert len(prefix) == _LABEL_BYTES + 8, "a longer label would run into the block number"
    return hashlib.shake_128(prefix + seed).digest(size)
