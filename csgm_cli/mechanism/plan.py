"""What client and server must agree on: the calibrated mechanism, its rotation and its wire format."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model.mechanism import Accountant, Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.result import Calibration, Notice
from csgm_cli.ranges import Range, check_range, check_type, member_named, settle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Masks compare 32 bits of a keystream with gamma: gamma is a multiple of 2^-32.
GAMMA_STEPS = 2**32
_SEED = Range(0, 2**53, integer=True)
#: A Kashin representation needs redundancy: dim is at most this share of the padded length.
_KASHIN_FILL = 0.85
#: Tolerance in log delta of a recomputed guarantee (`csgm account --from` reports 2e-9 of epsilon).
_SAME_LOG_DELTA = 1e-6


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
    ``rotation_seed``: public seed in [0, 2^53] of the random signs of the rotation.

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
        if self.mechanism.repeated is not None:
            raise UsageError(
                "cannot-run",
                "a plan in which clients take part several times within the T steps cannot be run here",
                "calibrate with `epochs`, each of which starts with fresh noise",
            )
        factors = self.mechanism.factorization
        if factors is not None and factors.workload != "prefix-sum":
            raise UsageError(
                "cannot-run", f"the server releases prefix sums, and the plan is for {factors.workload}"
            )
        if self.length > self.dim and self._relies_on_dim:
            raise UsageError(
                "cannot-run",
                f"the mechanism was calibrated for {self.dim} coordinates, all of which may be at the L-inf"
                f" clip, but the {self.rotation} rotation makes {self.length}",
                f"calibrate with dim {self.length} and append zeros to the vectors, or use another rotation",
            )

    @property
    def _relies_on_dim(self) -> bool:
        """Whether the guarantee holds for vectors of ``dim`` coordinates only: all can be at the clip."""
        mechanism = self.mechanism
        return mechanism.kind.needs_dim or (not mechanism.sends_all and mechanism.coordinates >= self.dim)

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


def load_plan(
    path: str | Path,
    rotation: Rotation = Rotation.HADAMARD,
    wire: WireFormat = FLOAT32,
    rotation_seed: int = 0,
) -> Plan:
    """The plan that runs the result which ``csgm calibrate --format json --output PATH`` saved.

    All numbers in it that follow from others are computed again, its epsilon too, so that an edited or
    outdated file is not run. A warning is issued if its texts differ from those of this version of csgm.

    Raises:
        StorageError: the file cannot be read.
        UsageError: it is not a calibration or contradicts itself (slug ``bad-result-file``), or cannot be run
            (``cannot-run``).
        NoAnswerError: the guarantee in it does not hold (``not-proven``).
    """
    plan, notices = read_plan(path, rotation, wire, rotation_seed)
    for notice in notices:
        warnings.warn(f"{str(path)!r}: {notice.message}", stacklevel=2)
    return plan


def read_plan(
    path: str | Path, rotation: Rotation, wire: WireFormat, rotation_seed: int = 0
) -> tuple[Plan, tuple[Notice, ...]]:
    """The plan and the warnings of `load_plan`."""
    from csgm_cli.saved_result import calibrated_mechanism, check_agreement
    from csgm_cli.storage.files import naming, read_text
    from csgm_cli.storage.saved import load_saved

    text = read_text(path)
    with naming(path):
        saved = load_saved(text)
        plan = Plan(calibrated_mechanism(saved), saved.sigma, rotation, wire, rotation_seed)
        notices = check_agreement(saved, plan.mechanism)
    [(epsilon, delta)] = saved.guarantees
    if not _is_proven(plan, epsilon, delta):
        raise NoAnswerError(
            "not-proven",
            f"{str(path)!r}: its mechanism and noise do not give epsilon {epsilon:g} at delta {delta:g}",
            "calibrate again",
        )
    return plan, tuple(notice for notice in notices if notice.slug == "other-words")


def client_values(plan: Plan) -> dict[str, bool | float | str]:
    """The parts of the plan that a client needs, as numbers and text that can be sent (see `client_plan`)."""
    mechanism, geometry = plan.mechanism, plan.mechanism.geometry
    return {
        "mechanism": str(mechanism.name),
        "gamma": mechanism.gamma,
        "norm_ratio": geometry.norm_ratio,
        "l2_norm": geometry.l2_norm,
        "dim": plan.dim,
        "rotation": str(plan.rotation),
        "rotation_seed": plan.rotation_seed,
        "bits": plan.wire.bits,
        "floating": plan.wire.floating,
    }


def client_plan(values: Mapping[str, Any]) -> Plan:
    """The plan of the given `client_values`, for encoding only: noise and cohorts are placeholders.

    Raises:
        UsageError: a value is missing (slug ``bad-message``); others as in `Plan`.
    """
    names = ("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "rotation", "rotation_seed", "bits")
    missing = [name for name in (*names, "floating") if name not in values]
    if missing:
        raise UsageError("bad-message", f"the plan lacks {', '.join(missing)}")
    geometry = Geometry(values["norm_ratio"], values["l2_norm"], values["dim"], cohort_size=1)
    mechanism = Mechanism(values["mechanism"], values["gamma"], geometry, rounds=1)
    wire = WireFormat(values["bits"], values["floating"])
    return Plan(mechanism, geometry.l2_norm, values["rotation"], wire, values["rotation_seed"])


def _is_proven(plan: Plan, epsilon: float, delta: float) -> bool:
    """Whether the mechanism and the noise of the plan provably satisfy (epsilon, delta)."""
    from csgm_cli.accounting.accountants import log_delta_of

    enough = math.log(delta) + _SAME_LOG_DELTA
    return log_delta_of([(plan.mechanism, plan.sigma)], Accountant.AUTO, epsilon, enough) <= enough


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
