"""The frozen values of compare, plan and sweep, which put several answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.model.display import Displayed, at_least, at_most

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Accountant, Mechanism, Target
    from csgm_cli.model.result import Calibration, MeanSquaredError, Notice


#: Rows of a comparison whose numbers fit on one line.
_MOST_SHOWN = 5


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism of a comparison; ``calibration`` is None where it has no answer."""

    mechanism: Mechanism
    calibration: Calibration | None


@dataclass(frozen=True)
class PrivUnitRow:
    """Shuffled PrivUnitG reports of a comparison: ``messages`` per client, each at ``local_epsilon``.

    A report is in the cap beyond ``threshold`` / sqrt(dim), of mass ``cap_mass`` under N(0, I/dim), with
    probability p = e^local_epsilon cap_mass / (1 + (e^local_epsilon - 1) cap_mass). ``sphere_total``: the MSE
    if N(0, I/dim) is replaced by the uniform law on the sphere, with a cap of the same mass (None in one
    dimension).
    """

    messages: int
    local_epsilon: float
    threshold: float
    cap_mass: float
    epsilon: float
    delta: float
    bound: str
    proof: str
    assumptions: tuple[str, ...]
    statement: str
    mse: MeanSquaredError
    sphere_total: float | None
    bits_per_client: int

    @property
    def server_epsilon(self) -> float:
        """Return the local epsilon of all messages together: a client's privacy without the shuffler."""
        return self.messages * self.local_epsilon


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Several mechanisms at one target (or at one MSE), all by the one ``accountant``.

    ``privunit_rows``: the local alternative behind a shuffler, if asked for; no accountant is involved.
    """

    target: Target
    accountant: Accountant
    at_equal_mse: bool
    rows: tuple[ComparisonRow, ...]
    notices: tuple[Notice, ...] = ()
    privunit_rows: tuple[PrivUnitRow, ...] = ()

    def _shown(self) -> Mapping[str, object]:
        return {
            "rows": len(self.rows) + len(self.privunit_rows),
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
        words = [*map(_row_in_words, self.rows), *map(_privunit_in_words, self.privunit_rows)]
        return {f"row {i}": text for i, text in enumerate(words, 1)}


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


def _privunit_in_words(row: PrivUnitRow) -> str:
    count = f"{row.messages} message{'s' * (row.messages > 1)}"
    return f"privunit-shuffle, {count}, {row.bound}, local epsilon {at_most(row.local_epsilon)}"


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


@dataclass(frozen=True)
class SelftestCase:
    """One shipped reference value recomputed here."""

    name: str
    expected: float
    computed: float
    relative_difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """True where the recomputation agrees (False for a NaN)."""
        return self.relative_difference <= self.tolerance
