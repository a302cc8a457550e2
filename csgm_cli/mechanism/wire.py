"""Encoding of payloads: a header and the values, whose positions the server derives from the seed.

========  =====  ==================================================================
bytes     type   content
========  =====  ==================================================================
0 to 3    ASCII  ``CSGM``
4         u8     version of this format, 1
5         u8     1 for floats, 0 for integers
6 to 7    u16    bits of a value
8 to 15   bytes  fingerprint of the plan and the seed of the mask
16 to     ...    values in units of the L-inf clip, little-endian
========  =====  ==================================================================

Integers of b bits are levels from -(2^(b-1) - 1) to 2^(b-1) - 1, plus 2^(b-1) - 1, packed without gaps,
highest bit first. All values are rounded toward zero, so the decoded norms, for which the noise is
calibrated, never exceed the clip norms.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.clip import norm_upper
from csgm_cli.mechanism.masks import mask_positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from csgm_cli.mechanism.plan import Plan, WireFormat

VERSION = 1
_MAGIC = b"CSGM"
_HEADER = struct.Struct("<4sBBH8s")
#: Bytes of a payload before its values.
HEADER_BYTES = _HEADER.size


def pack(plan: Plan, values: NDArray[np.float64], mask_seed: bytes) -> bytes:
    """The payload of clipped ``values``, in the order of the positions of the mask."""
    codes = _float_codes(plan, values) if plan.wire.floating else _integer_codes(plan, values)
    return (
        _HEADER.pack(_MAGIC, VERSION, plan.wire.floating, plan.wire.bits, fingerprint(plan, mask_seed))
        + codes
    )


def decode(plan: Plan, payload: bytes, mask_seed: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The positions and values of a payload, after checking its header, length and norms.

    Raises:
        UsageError: the header has another format (slug ``payload-header``), version (``payload-version``),
            plan or seed (``payload-plan``); the length does not match the mask (``payload-length``); NaN,
            infinite or unused codes (``payload-values``); a norm above the clip (``payload-norm``). No
            message contains values or counts.
    """
    positions = mask_positions(mask_seed, plan.gamma, plan.length)
    _check_header(plan, payload, mask_seed)
    body = memoryview(payload)[_HEADER.size :]
    if len(body) != -(-len(positions) * plan.wire.bits // 8):
        raise UsageError("payload-length", "the length of the payload does not match its mask")
    read = _read_floats if plan.wire.floating else _read_integers
    values = read(plan, body, len(positions))
    if plan.clips_l2 and norm_upper(values) > plan.l2_norm:
        raise UsageError("payload-norm", "the decoded values exceed the L2 clip")
    return positions, values


def expected_bytes(plan: Plan) -> float:
    """Expected size of a payload: its header, and gamma of the rotated coordinates."""
    return HEADER_BYTES + plan.gamma * plan.length * plan.wire.bits / 8


def fingerprint(plan: Plan, mask_seed: bytes) -> bytes:
    """Eight bytes that identify the seed and the parts of the plan that clients use.

    It is a hash, and a seed has 128 bits, so the seed cannot be found by brute force.
    """
    numbers = (plan.gamma.hex(), plan.l2_norm.hex(), plan.linf_norm.hex(), plan.dim, plan.length)
    parts = (*numbers, plan.clips_l2, plan.rotation, plan.rotation_seed, plan.wire, "")
    return hashlib.sha256("|".join(map(str, parts)).encode() + mask_seed).digest()[:8]


def _check_header(plan: Plan, payload: bytes, mask_seed: bytes) -> None:
    if not isinstance(payload, bytes) or len(payload) < _HEADER.size or payload[:4] != _MAGIC:
        raise UsageError("payload-header", "not a payload: the header is missing")
    _, version, floating, bits, found = _HEADER.unpack_from(payload)
    if version != VERSION:
        raise UsageError(
            "payload-version", f"the payload has version {version}, this program reads {VERSION}"
        )
    if (floating, bits) != (plan.wire.floating, plan.wire.bits):
        raise UsageError("payload-header", f"the payload does not hold {plan.wire} values, as planned")
    if found != fingerprint(plan, mask_seed):
        raise UsageError("payload-plan", "the payload was made for another plan, client or round")


def _float_codes(plan: Plan, values: NDArray[np.float64]) -> bytes:
    """Values in units of the L-inf clip, as floats rounded toward zero."""
    codes = (values / plan.linf_norm).astype(_float_type(plan.wire))
    exceeds = np.abs(codes.astype(np.float64) * plan.linf_norm) > np.abs(values)
    codes[exceeds] = np.nextafter(codes[exceeds], codes.dtype.type(0))
    return codes.tobytes()


def _float_type(wire: WireFormat) -> np.dtype[np.floating]:
    return np.dtype(f"<f{wire.bits // 8}")


def _read_floats(plan: Plan, body: memoryview, count: int) -> NDArray[np.float64]:
    read = np.frombuffer(body, _float_type(plan.wire), count)
    if not np.isfinite(read).all():  # before the conversion, which warns about signalling NaN
        raise UsageError("payload-values", "the payload holds NaN or infinite values")
    codes = read.astype(np.float64)
    if count and np.abs(codes).max() > 1.0:
        raise UsageError("payload-norm", "a decoded value exceeds the L-inf clip")
    return codes * plan.linf_norm


def _integer_codes(plan: Plan, values: NDArray[np.float64]) -> bytes:
    """Values as integer levels rounded toward zero, packed."""
    top, step = _levels(plan)
    levels = np.clip(np.rint(values / step), -top, top)
    levels -= np.sign(levels) * (np.abs(levels * step) > np.abs(values))
    codes = (levels + top).astype(">u2")
    bits = np.unpackbits(codes.view(np.uint8).reshape(-1, 2), axis=1)
    return np.packbits(bits[:, 16 - plan.wire.bits :]).tobytes()


def _levels(plan: Plan) -> tuple[int, float]:
    """The highest level, and the step between levels, rounded down: the highest is within the clip."""
    top = 2 ** (plan.wire.bits - 1) - 1
    return top, float(np.nextafter(plan.linf_norm / top, 0.0))


def _read_integers(plan: Plan, body: memoryview, count: int) -> NDArray[np.float64]:
    top, step = _levels(plan)
    bits = np.unpackbits(np.frombuffer(body, np.uint8), count=count * plan.wire.bits)
    padded = np.zeros((count, 16), np.uint8)
    padded[:, 16 - plan.wire.bits :] = bits.reshape(count, plan.wire.bits)
    codes = np.packbits(padded, axis=1).view(">u2").reshape(count)
    if count and codes.max() > 2 * top:
        raise UsageError("payload-values", "the payload holds an invalid integer code")
    return (codes.astype(np.float64) - top) * step
