"""The frozen values of compare, plan and sweep, which put several answers side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Accountant, Mechanism, Target
    from csgm_cli.model.result import Calibration, Notice


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism of a comparison; ``calibration`` is None where it has no answer."""

    mechanism: Mechanism
    calibration: Calibration | None


@dataclass(frozen=True)
class Comparison:
    """Several mechanisms at one target (or at one MSE), all by the one ``accountant``."""

    target: Target
    accountant: Accountant
    at_equal_mse: bool
    rows: tuple[ComparisonRow, ...]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The smallest gamma that stays within an overhead over the Gaussian mechanism."""

    gamma: float
    compression: float
    calibration: Calibration
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Question:
    """One point of a sweep: the least noise for a target, or what a given noise guarantees.

    Without ``noise``, epsilon and delta are the target. With ``noise`` = (noise multiplier, sigma),
    one of epsilon and delta is None, and that one is the answer.
    """

    mechanism: Mechanism
    accountant: Accountant
    epsilon: float | None
    delta: float | None
    noise: tuple[float, float] | None = None
    verify: bool = False
    value_bits: int = 32
