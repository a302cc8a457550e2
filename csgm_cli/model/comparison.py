"""The frozen values of compare, plan and sweep, which put several answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.model.display import Displayed, at_least, at_most

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Accountant, Mechanism, Target
    from csgm_cli.model.result import Calibration, Notice


#: Rows of a comparison whose numbers fit on one line.
_MOST_SHOWN = 5


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism of a comparison; ``calibration`` is None where it has no answer."""

    mechanism: Mechanism
    calibration: Calibration | None


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Several mechanisms at one target (or at one MSE), all by the one ``accountant``."""

    target: Target
    accountant: Accountant
    at_equal_mse: bool
    rows: tuple[ComparisonRow, ...]
    notices: tuple[Notice, ...] = ()

    def _shown(self) -> Mapping[str, object]:
        return {
            "rows": len(self.rows),
            "epsilon": at_least(self.target.epsilon),
            "delta": at_least(self.target.delta),
            "accountant": self.accountant,
            "at_equal_mse": self.at_equal_mse,
            **self._answers(),
        }

    def _answers(self) -> Mapping[str, object]:
        """What the rows differ in, of the first rows."""
        found = [row.calibration for row in self.rows[:_MOST_SHOWN]]
        if self.at_equal_mse:
            name, numbers = "epsilons", [None if c is None else c.guarantee.epsilon for c in found]
        else:
            name = "effective_noise_multipliers"
            numbers = [None if c is None else c.effective_noise_multiplier for c in found]
        more = ",..." if len(self.rows) > _MOST_SHOWN else ""
        return {name: ",".join(map(at_least, numbers)) + more}

    def _details(self) -> Mapping[str, object]:
        return {f"row {i}": _row_in_words(row) for i, row in enumerate(self.rows, 1)}


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """The smallest gamma that stays within an overhead over the Gaussian mechanism."""

    gamma: float
    compression: float
    calibration: Calibration
    notices: tuple[Notice, ...] = ()

    def _shown(self) -> Mapping[str, object]:
        noise, guarantee = self.calibration, self.calibration.guarantee
        return {
            "mechanism": noise.mechanism.name,
            "gamma": at_least(self.gamma),
            "compression": at_most(self.compression),
            "noise_multiplier": at_least(noise.noise_multiplier),
            "epsilon": at_least(guarantee.epsilon),
            "delta": at_least(guarantee.delta),
            "bound": guarantee.bound,
        }


def _row_in_words(row: ComparisonRow) -> str:
    mechanism, found = row.mechanism, row.calibration
    strategy = mechanism.factorization and mechanism.factorization.strategy
    words = [str(mechanism.name), f"gamma {at_most(mechanism.gamma)}", *([strategy] if strategy else [])]
    if found is None:
        return ", ".join([*words, "no answer"])
    words.append(f"effective noise multiplier {at_least(found.effective_noise_multiplier)}")
    words.append(f"epsilon {at_least(found.guarantee.epsilon)}")
    return ", ".join([*words, *([] if found.mse is None else [f"MSE ratio {at_least(found.mse.ratio)}"])])


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
