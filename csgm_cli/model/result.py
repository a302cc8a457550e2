"""The frozen values that answers consist of, from guarantees to calibrations (standard library only)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from csgm_cli.model.certificate import Proof  # noqa: TC001 - type hints can be read
from csgm_cli.model.display import Displayed, at_least, at_most
from csgm_cli.model.mechanism import Accountant, Bound, Conversion, Mechanism  # noqa: TC001 - as above


@dataclass(frozen=True)
class Notice:
    """A warning that travels with a result: a stable ``slug`` and one sentence."""

    slug: str
    message: str


def one_round_notice(name: str, one: str, prefix: str = "") -> Notice:
    """The notice that ``name``, rounds or epochs, was left at 1; ``one`` is how the caller writes that."""
    called = prefix + name
    advice = f"pass {called} (use {called}{one} if each client takes part once)"
    return Notice("one-round", f"{name} not given; {advice}")


@dataclass(frozen=True)
class Verification:
    """What the independent high-precision recomputation found.

    ``digits``: decimal digits it worked with; ``relative_difference``: of epsilon (or delta)
    between the answer and the recomputation.
    """

    digits: int
    relative_difference: float


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) statement and everything it rests on.

    ``order``: of the Renyi or Gaussian-matched bound, None where none is involved. ``proof``: the theorem
    behind ``bound``. ``lower_bound``: the same quantity below which no analysis can go, None unless the
    accountant looks at the privacy profile.
    """

    epsilon: float
    delta: float
    order: float | None
    bound: Bound
    conversion: Conversion | None
    assumptions: tuple[str, ...]
    lower_bound: float | None = None
    verified: Verification | None = None
    notices: tuple[Notice, ...] = ()
    proof: Proof | None = None


@dataclass(frozen=True)
class MeanSquaredError:
    """Expected squared L2 error of the mean estimate, summed over coordinates, worst client vectors.

    Units: ``l2_norm`` squared. ``gaussian_total``: the plain Gaussian mechanism at the same target
    and accountant, with the same factorization if there is one (in a comparison with that of the first
    row); ``ratio`` = total / gaussian_total.
    """

    privacy: float
    sparsification: float
    total: float
    gaussian_total: float
    ratio: float


@dataclass(frozen=True)
class NoisePerRow:
    """Std of the noise on each coordinate of a row, sigma ||B[t]|| / (n gamma): over the T rows."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, repr=False)
class Calibration(Displayed):
    """The least noise found for a target, and what it costs.

    ``accountant`` is the resolved one. ``sigma`` is the std of the noise on each coordinate of the sum, in
    the units of ``l2_norm``; ``statement`` is the guarantee in one publishable paragraph.
    ``mean_noise_std`` (of the mean estimate) needs ``cohort_size``, ``bits_per_client`` (values only)
    needs ``dim``, ``mse`` needs both; None without.

    With a factorization ``sigma`` is the std of Z, ``mean_noise_std`` is None and ``noise_std_per_row`` in
    its place, ``mse`` is the mean over the rows of A X, each divided by the cohort size, and
    ``mse_last_row`` that of the last row.
    """

    mechanism: Mechanism
    accountant: Accountant
    noise_multiplier: float
    effective_noise_multiplier: float
    sigma: float
    guarantee: Guarantee
    statement: str
    mean_noise_std: float | None
    mse: MeanSquaredError | None
    bits_per_client: float | None
    notices: tuple[Notice, ...] = ()
    noise_std_per_row: NoisePerRow | None = None
    mse_last_row: MeanSquaredError | None = None
    gaussian_noise_multiplier: float | None = None

    def _shown(self) -> Mapping[str, object]:
        return {
            **_asked(self.mechanism),
            "noise_multiplier": at_least(self.noise_multiplier),
            "sigma": at_least(self.sigma),
            "epsilon": at_least(self.guarantee.epsilon),
            "delta": at_least(self.guarantee.delta),
            "bound": self.guarantee.bound,
        }

    def _details(self) -> Mapping[str, object]:
        return {
            "effective_noise_multiplier": at_least(self.effective_noise_multiplier),
            "lower_bound": at_most(self.guarantee.lower_bound),
            "mse_ratio": at_least(None if self.mse is None else self.mse.ratio),
            "notices": ", ".join(notice.slug for notice in self.notices) or "-",
        }


@dataclass(frozen=True, repr=False)
class Account(Displayed):
    """What a given noise guarantees: one guarantee per requested delta (or one for an epsilon).

    ``mean_noise_std`` needs ``cohort_size``; ``error_parts``, the privacy and the sparsification part of
    the MSE as in `MeanSquaredError`, needs ``dim`` as well; None without. What a factorization adds is as
    in `Calibration`.
    ``noise_multiplier`` is sigma / l2_norm; ``statements`` has one publishable paragraph per guarantee.
    """

    mechanism: Mechanism
    accountant: Accountant
    noise_multiplier: float
    guarantees: tuple[Guarantee, ...]
    statements: tuple[str, ...]
    mean_noise_std: float | None = None
    error_parts: tuple[float, float] | None = None
    notices: tuple[Notice, ...] = ()
    noise_std_per_row: NoisePerRow | None = None
    error_parts_last_row: tuple[float, float] | None = None

    @property
    def effective_noise_multiplier(self) -> float:
        """The noise multiplier over gamma."""
        return self.noise_multiplier / self.mechanism.gamma

    def _shown(self) -> Mapping[str, object]:
        return {
            **_asked(self.mechanism),
            "noise_multiplier": at_least(self.noise_multiplier),
            "epsilon": ",".join(at_least(guarantee.epsilon) for guarantee in self.guarantees),
            "delta": ",".join(at_least(guarantee.delta) for guarantee in self.guarantees),
            "bound": ",".join(dict.fromkeys(guarantee.bound.value for guarantee in self.guarantees)),
        }


def _asked(mechanism: Mechanism) -> Mapping[str, object]:
    counted = "rounds" if mechanism.factorization is None or mechanism.repeated else "epochs"
    rate = {"sampling_rate": at_most(mechanism.sampling_rate)} if mechanism.sampling_rate < 1.0 else {}
    return {
        "mechanism": mechanism.name,
        "gamma": at_most(mechanism.gamma),
        counted: mechanism.releases,
        **rate,
        "adjacency": mechanism.adjacency,
    }
