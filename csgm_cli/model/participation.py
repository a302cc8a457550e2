"""How often one client takes part in one run of a factorization (standard library only)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import UsageError, shown
from csgm_cli.ranges import RANGES, check_range, check_type, settle

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The names of a `RepeatedParticipation` in results and lock files.
REPEATED_KEYS = (
    "participations", "min_separation", "fixed_order", "joint_sensitivity", "joint_sensitivity_bound",
    "release_sensitivity",
)  # fmt: skip
#: Whether a joint sensitivity is attained, or an upper bound.
_EXACT, _UPPER = "exact", "upper-bound"
#: Relative rounding of norms that are related.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Participation:
    """A client takes part in at most ``participations`` of T steps, at least ``min_separation`` steps apart.

    Adjacent steps have separation 1. Both numbers are in [1, 1e8]. ``fixed_order``: clients take part in the
    same order in every pass, so the steps of one client are exactly ``min_separation`` apart.
    """

    participations: int
    min_separation: int
    fixed_order: bool = False

    def __post_init__(self) -> None:
        settle(self, "participations")
        settle(self, "min_separation")
        check_type("fixed_order", self.fixed_order, bool)

    def check(self, T: int, bands: int | None = None) -> None:  # noqa: N803 - the name everywhere
        """Raise ``UsageError`` unless it fits into T steps, and ``bands`` keep columns orthogonal.

        Slugs: ``too-many-participations``, ``too-many-bands``.
        """
        most = -(-T // self.min_separation)
        if self.participations > most:
            room = f"at separation {self.min_separation} a client can take part at most {most} times"
            raise UsageError(
                "too-many-participations", f"{room} in {T} steps, got {self.participations} participations"
            )
        if bands is not None and bands > self.min_separation:
            raise UsageError(
                "too-many-bands",
                f"{bands} bands need a separation of at least {bands}, got {self.min_separation}: columns"
                " of C that one client affects would overlap",
            )


def overridden(
    declared: Participation | None,
    T: int,  # noqa: N803 - the name everywhere
    participations: int | None,
    min_separation: int | None,
) -> Participation | None:
    """``declared``, with each number that is given overriding it; None if there is neither.

    The default separation is 1. The default number of participations, and the largest, is
    ceil(T / min_separation). Overriding the separation of a fixed order with another one drops the order.
    """
    if participations is None and min_separation is None:
        return declared
    fixed_order = declared is not None and declared.fixed_order
    fixed_order = fixed_order and min_separation in (None, declared and declared.min_separation)
    if min_separation is None:
        min_separation = 1 if declared is None else declared.min_separation
    most = -(-T // min_separation)
    if participations is None:
        participations = most if declared is None else declared.participations
    return Participation(min(participations, most), min_separation, fixed_order)


@dataclass(frozen=True, kw_only=True)
class RepeatedParticipation(Participation):
    """The sensitivities of C for a client that takes part several times in one run.

    With c_j the columns of C that the client affects and v_j its vectors, of norm at most 1:

    ``joint_sensitivity``: at least the largest norm of sum_j c_j v_j^T, for vectors that are sent whole;
    ``is_exact`` if it is attained. ``release_sensitivity``: at least the square root of the largest
    eigenvalue of the Gram matrix of the c_j. Masked vectors are covered by as many releases as there are
    participations, each of this sensitivity (docs/theory.md, "Repeated participation"); ``is_attained`` if
    some client attains them. ``UsageError`` for numbers that no matrix has.
    """

    joint_sensitivity: float
    release_sensitivity: float
    is_exact: bool
    is_attained: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("joint_sensitivity", "release_sensitivity"):
            value = check_range(name, getattr(self, name), RANGES["sensitivity"])
            object.__setattr__(self, name, value)
        check_type("is_exact", self.is_exact, bool)
        check_type("is_attained", self.is_attained, bool)
        if self.mean_sensitivity > self.release_sensitivity * (1.0 + _ROUNDING):
            raise UsageError(
                "out-of-range",
                f"joint_sensitivity {self.joint_sensitivity!r} is more than {self.participations} releases"
                f" of release_sensitivity {self.release_sensitivity!r} have",
            )

    @property
    def mean_sensitivity(self) -> float:
        """The sensitivity of each of ``participations`` releases that together have the joint sensitivity."""
        mean = self.joint_sensitivity / math.sqrt(self.participations)
        return math.nextafter(mean, math.inf) if self.participations > 1 else mean

    @property
    def named(self) -> dict[str, int | float | str]:
        """Everything that privacy depends on, by `REPEATED_KEYS`."""
        return {
            "participations": self.participations,
            "min_separation": self.min_separation,
            "fixed_order": self.fixed_order,
            "joint_sensitivity": self.joint_sensitivity,
            "joint_sensitivity_bound": _EXACT if self.is_exact else _UPPER,
            "release_sensitivity": self.release_sensitivity,
        }

    def with_participations(self, count: int) -> RepeatedParticipation:
        """``count`` participations with the same sensitivities per release."""
        joint = self.joint_sensitivity * math.sqrt(count / self.participations)
        return replace(self, participations=count, joint_sensitivity=joint)


def repeated_from(values: Mapping[str, Any]) -> RepeatedParticipation | None:
    """The inverse of `RepeatedParticipation.named`; None if ``values`` have no participations.

    ``UsageError`` for invalid values.
    """
    if values.get("participations") is None:
        return None
    bound = values.get("joint_sensitivity_bound")
    if bound not in (_EXACT, _UPPER):
        allowed = f"{_EXACT} or {_UPPER}"
        raise UsageError("unknown-choice", f"joint_sensitivity_bound must be {allowed}, got {shown(bound)}")
    held: dict[str, Any] = {name: values.get(name) for name in REPEATED_KEYS}
    held["is_exact"] = held.pop("joint_sensitivity_bound") == _EXACT
    return RepeatedParticipation(**held)
