"""What client and server must agree on: the calibrated mechanism, its rotation and its wire format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.result import Calibration
from csgm_cli.ranges import Range, check_range, check_type, member_named, settle

#: Masks compare 32 bits of a keystream with gamma: gamma is a multiple of 2^-32.
GAMMA_STEPS = 2**32
_SEED = Range(0, 2**53, integer=True)
#: Up to this share of a power of two the frame is redundant enough for Kashin representations.
_KASHIN_FILL = 0.85


class Rotation(StrEnum):
    """How a vector is spread over coordinates before it is clipped."""

    HADAMARD = "hadamard"
    DCT = "dct"
    KASHIN = "kashin"
    NONE = "none"


@dataclass(frozen=True)
class WireFormat:
    """How one value is written: a float of 16 or 32 bits, or an integer of 4 to 16 bits."""

    bits: int
    floating: bool = False

    def __post_init__(self) -> None:
        check_type("floating", self.floating, bool)
        bits = check_range("bits of a value", self.bits, Range(4, 32, integer=True))
        object.__setattr__(self, "bits", bits)
        if (self.bits not in (16, 32)) if self.floating else (self.bits > 16):
            raise UsageError(
                "unknown-wire-format",
                f"no wire format {self}",
                "use FLOAT32, FLOAT16 or WireFormat(bits) with 4 to 16 bits",
            )

    def __str__(self) -> str:
        return f"{'float' if self.floating else 'int'}{self.bits}"


FLOAT32 = WireFormat(32, floating=True)
FLOAT16 = WireFormat(16, floating=True)


def floored_gamma(gamma: float) -> float:
    """The largest multiple of 2^-32 up to ``gamma``; ``UsageError`` (slug ``gamma-too-small``) if it is 0."""
    gamma = check_range("gamma", gamma, Range(0.0, 1.0))
    steps = math.floor(gamma * GAMMA_STEPS)  # exact: a power of two times a float
    if steps == 0:
        raise UsageError(
            "gamma-too-small", f"gamma must be at least 2^-32 = {1 / GAMMA_STEPS:g}, got {gamma!r}"
        )
    return steps / GAMMA_STEPS


@dataclass(frozen=True)
class Plan:
    """A calibrated mechanism that can be run; public: every client knows it.

    ``mechanism`` needs ``geometry.dim`` and ``geometry.cohort_size``, the planned number n of clients in a
    round: with client sampling q N. ``sigma``: std of the noise on each coordinate of the sum, as calibrated.
    ``rotation_seed``, public, in [0, 2^53]: of the random signs of the rotation.

    Raises:
        UsageError: a value out of range, or a mechanism that cannot be run (slug ``cannot-run``).
    """

    mechanism: Mechanism
    sigma: float
    rotation: Rotation = Rotation.HADAMARD
    wire: WireFormat = FLOAT32
    rotation_seed: int = 0

    def __post_init__(self) -> None:
        check_type("mechanism", self.mechanism, Mechanism)
        settle(self, "sigma")
        object.__setattr__(self, "rotation", member_named(Rotation, "rotation", self.rotation))
        check_type("wire", self.wire, WireFormat)
        seed = check_range("rotation_seed", self.rotation_seed, _SEED)
        object.__setattr__(self, "rotation_seed", seed)
        geometry = self.mechanism.geometry
        for name in ("dim", "cohort_size"):
            if getattr(geometry, name) is None:
                raise UsageError(
                    "cannot-run", f"running a mechanism needs {name}", f"calibrate with `{name}`"
                )
        if self.mechanism.kind.needs_dim and self.length > self.dim:
            raise UsageError(
                "cannot-run",
                f"{self.mechanism.name} was calibrated for dim {self.dim}, but the {self.rotation} rotation"
                f" makes {self.length} coordinates, all of which may be at the L-inf clip",
                f"calibrate with dim {self.length} and append zeros to the vectors, or use another rotation",
            )

    @property
    def dim(self) -> int:
        """Length of a client's vector."""
        assert self.mechanism.geometry.dim is not None  # checked above
        return self.mechanism.geometry.dim

    @property
    def cohort_size(self) -> int:
        """The planned number n of clients in a round, which the sum is divided by."""
        assert self.mechanism.geometry.cohort_size is not None  # checked above
        return self.mechanism.geometry.cohort_size

    @property
    def gamma(self) -> float:
        """The probability that a coordinate is sent: the mechanism's, floored to a multiple of 2^-32."""
        return floored_gamma(self.mechanism.gamma)

    @property
    def length(self) -> int:
        """Number of coordinates of a rotated vector."""
        return rotated_length(self.rotation, self.dim)

    @property
    def clips_l2(self) -> bool:
        """Whether the L2 norm is clipped; otherwise the L-inf clip alone bounds it."""
        return self.mechanism.kind.clips_l2

    @property
    def l2_norm(self) -> float:
        """Largest L2 norm of a clipped vector."""
        geometry = self.mechanism.geometry
        return geometry.l2_norm if self.clips_l2 else math.sqrt(self.length) * geometry.linf_norm

    @property
    def linf_norm(self) -> float:
        """Largest absolute value of a coordinate of a clipped vector."""
        geometry = self.mechanism.geometry
        return geometry.linf_norm if self.mechanism.kind.clips_linf else geometry.l2_norm


def plan_of(
    calibration: Calibration,
    rotation: Rotation = Rotation.HADAMARD,
    wire: WireFormat = FLOAT32,
    rotation_seed: int = 0,
) -> Plan:
    """The plan that runs what ``calibrate`` returned; errors as in `Plan`."""
    check_type("calibration", calibration, Calibration)
    return Plan(calibration.mechanism, calibration.sigma, rotation, wire, rotation_seed)


def rotated_length(rotation: Rotation, dim: int) -> int:
    """Number of coordinates after rotation: ``dim`` with the padding that the transform needs."""
    if rotation is Rotation.NONE:
        return dim
    if rotation is Rotation.DCT:
        return _fast_length(dim)
    power = 1 << (dim - 1).bit_length()
    return 2 * power if rotation is Rotation.KASHIN and dim > _KASHIN_FILL * power else power


def _fast_length(dim: int) -> int:
    """The least 2^a 3^b 5^c that is at least ``dim``."""
    best = 1 << (dim - 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            quotient = -(-dim // three)
            best = min(best, three << (quotient - 1).bit_length())
            three *= 3
        five *= 5
    return best
