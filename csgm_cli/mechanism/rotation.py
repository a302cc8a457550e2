"""Public random rotations, which spread a vector so that an L-inf clip rarely changes it.

A vector of ``plan.dim`` numbers is multiplied by random signs, padded with zeros to ``plan.length`` and
transformed by an orthonormal matrix. `rotate_back` applies the inverse and drops the padding. Kashin
coefficients are mapped back in the same way, but are smaller than those of the transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.keystream import keystream
from csgm_cli.mechanism.plan import Plan, Rotation

Floats: TypeAlias = NDArray[np.float64]
_Transform: TypeAlias = Callable[[Floats], Floats]

#: Bits of the position that one matrix product transforms: blocks of 16 were the fastest of 8 to 1024.
_BLOCK_BITS = 4
#: Distance of neighbours in the padded vector: odd, near 2^32 divided by the golden ratio.
_STRIDE = 0x9E3779B1
#: Among 0.6 to 0.9 and 3 to 15, these gave the smallest coefficients for most of five kinds of vectors.
_KASHIN_DECAY, _KASHIN_STEPS = 0.7, 10


def rotate(plan: Plan, vector: Floats) -> Floats:
    """The ``plan.length`` rotated coordinates of a vector of ``plan.dim`` numbers."""
    _check_shape("vector", vector, plan.dim)
    if plan.rotation is Rotation.NONE:
        return np.array(vector, np.float64)
    if plan.rotation is Rotation.KASHIN:
        return _kashin(plan, np.asarray(vector, np.float64))
    return _analyse(plan, np.asarray(vector, np.float64))


def rotate_back(plan: Plan, rotated: Floats) -> Floats:
    """The vector of ``plan.dim`` numbers that rotated coordinates represent; linear."""
    _check_shape("rotated", rotated, plan.length)
    if plan.rotation is Rotation.NONE:
        return np.array(rotated, np.float64)
    _, backward = _transforms(plan.rotation)
    return backward(np.array(rotated, np.float64))[_places(plan)] * _signs(plan)


def _check_shape(name: str, array: Floats, length: int) -> None:
    if np.shape(array) != (length,):
        raise UsageError(
            "wrong-shape", f"{name} must have shape ({length},), as planned, got {np.shape(array)}"
        )


def _analyse(plan: Plan, vector: Floats) -> Floats:
    """The transform of ``vector`` with random signs and padding."""
    padded = np.zeros(plan.length)
    places, signs = _places(plan), _signs(plan)
    if isinstance(places, slice):
        np.multiply(vector, signs, out=padded[places])
    else:
        padded[places] = vector * signs
    forward, _ = _transforms(plan.rotation)
    return forward(padded)


def _places(plan: Plan) -> slice | NDArray[np.int64]:
    """Positions of a vector in the padded one: the first, or for Kashin representations scattered.

    With zeros in the second half, the second half of the Hadamard coefficients would repeat the first, which
    adds no redundancy. The length is a power of two and the stride odd, so the positions are distinct.
    """
    if plan.rotation is not Rotation.KASHIN:
        return slice(plan.dim)
    return np.arange(plan.dim, dtype=np.int64) * _STRIDE % plan.length


def _signs(plan: Plan) -> NDArray[np.int8]:
    """Random signs +1 and -1 of the coordinates, from the public seed of the rotation."""
    return _signs_of(plan.rotation_seed, plan.dim)


@lru_cache(maxsize=1)  # all clients of a plan have the same ones
def _signs_of(rotation_seed: int, dim: int) -> NDArray[np.int8]:
    stream = keystream("csgm rotation 1", rotation_seed.to_bytes(8, "little"), 0, -(-dim // 8))
    bits = np.unpackbits(np.frombuffer(stream, np.uint8), count=dim, bitorder="little")
    signs = 1 - 2 * bits.view(np.int8)
    signs.flags.writeable = False
    return signs


def _transforms(rotation: Rotation) -> tuple[_Transform, _Transform]:
    """The orthonormal transform and its inverse; both may overwrite their argument."""
    if rotation is not Rotation.DCT:
        return _hadamard, _hadamard
    from scipy import fft

    return (
        lambda x: fft.dct(x, norm="ortho", overwrite_x=True),
        lambda x: fft.idct(x, norm="ortho", overwrite_x=True),
    )


def _hadamard(values: Floats) -> Floats:
    """H x / sqrt(n) for the Hadamard matrix H of natural (Sylvester) order; its own inverse."""
    compiled = _compiled_hadamard()
    if compiled is None:
        return _hadamard_by_blocks(values)
    return np.multiply(compiled(values), 1 / math.sqrt(len(values)), out=values)


@cache
def _compiled_hadamard() -> _Transform | None:
    """The transform of the optional package fht-cpu, in place; None where it is not installed."""
    try:
        from fht_cpu import fht
    except ImportError:
        return None
    transform: _Transform = fht
    return transform


def _hadamard_by_blocks(values: Floats) -> Floats:
    """H x / sqrt(n), one group of bits of the position at a time: H is a Kronecker product.

    Each product transforms the leading bits and moves them to the end; after the last they are in order.
    """
    bits = len(values).bit_length() - 1
    found = values
    while bits > 0:
        block = _small_hadamard(min(_BLOCK_BITS, bits))
        found = found.reshape(len(block), -1).T @ block
        bits -= _BLOCK_BITS
    return found.reshape(-1)


@cache
def _small_hadamard(bits: int) -> Floats:
    matrix = np.ones((1, 1))
    for _ in range(bits):
        matrix = np.kron(matrix, np.array([[1.0, 1.0], [1.0, -1.0]]))
    return matrix / math.sqrt(len(matrix))


def _kashin(plan: Plan, vector: Floats) -> Floats:
    """Coefficients that represent ``vector`` and are all near 3 |vector| / sqrt(plan.length) or below.

    Lyubarskii and Vershynin (2010): clip the coefficients of the residual at a level, subtract what they
    represent, lower the level, and repeat. The last step adds the whole residual, so nothing is lost.
    """
    found, left = np.zeros(plan.length), vector
    level = math.sqrt(float(np.einsum("i,i", vector, vector)) / plan.length)
    for _ in range(_KASHIN_STEPS):
        cut = np.clip(_analyse(plan, left), -level, level)
        found += cut
        left = left - rotate_back(plan, cut)
        level *= _KASHIN_DECAY
    return found + _analyse(plan, left)
