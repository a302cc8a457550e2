"""The frozen values of a question: mechanism and target (standard library only).

Words mean one thing everywhere (flags, JSON keys, fields, docs):

=====================  ======================================================================
``gamma``              probability that a coordinate is sent
``l2_norm``            clip norm Delta_2 of one client's vector
``linf_norm``          clip norm Delta_inf of one client's vector
``norm_ratio``         Delta_2 / Delta_inf, at least 1; its square is ``k``
``rounds``             number of releases that ONE client can influence; with a sampling rate, all rounds
``sampling_rate``      q: probability that a client takes part in a round, independently and in secret
``epochs``             number of factorized streams, each of which ONE client enters once
``participations``     times that ONE client takes part in the T steps of a factorization without a restart
``min_separation``     least distance between two of them; 1 for neighbouring steps
``sigma``              std of the noise on each coordinate of the SUM of the masked vectors
``noise_multiplier``   sigma / l2_norm, for every mechanism
=====================  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism_table import MECHANISMS, Geometry, MechanismKind, MechanismLike, MechanismName
from csgm_cli.model.participation import RepeatedParticipation
from csgm_cli.ranges import Range, check_range, check_type, member_named, settle, swapped


class Adjacency(StrEnum):
    """The neighbouring relation."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


AdjacencyLike: TypeAlias = Adjacency | Literal["add-remove", "replace-one"]


class Accountant(StrEnum):
    """The privacy accountant."""

    AUTO = "auto"
    EXACT = "exact"
    RDP = "rdp"
    PAPER = "paper"
    TIGHT = "tight"


AccountantLike: TypeAlias = Accountant | Literal["auto", "exact", "rdp", "paper", "tight"]


class Bound(StrEnum):
    """The bound that an answer rests on."""

    EXACT = "exact"
    RDP = "rdp"
    PAPER = "paper"
    MASK_REVEALED = "mask-revealed"
    TIGHT_ADD = "tight-add"
    TIGHT_REMOVE = "tight-remove"
    REPLACE_ONE = "replace-one"
    PROFILE = "profile"


class Conversion(StrEnum):
    """The conversion of a Renyi curve to (epsilon, delta)."""

    CKS20 = "canonne-kamath-steinke-2020"


#: Entries of workloads are in [1e-50, 1e50], and errors are squares times those of sigma.
_ROW_NORMS = Range(1e-60, 1e60)


@dataclass(frozen=True)
class RowNorms:
    """What errors need to know of A = B C: squared norms of rows of B and A, over the rows and of the last.

    ``least``, ``mean``, ``largest``: of ||B[t]||; ``mean_squared``, ``last_squared``: of ||B[t]||^2, which
    the variance of the noise goes with; ``workload_mean_squared``, ``workload_last_squared``: of
    ||A[t]||^2 (for prefix sums (T + 1)/2 and T), which the variance of the sparsification goes with.
    """

    least: float
    mean: float
    largest: float
    mean_squared: float
    last_squared: float
    workload_mean_squared: float
    workload_last_squared: float

    def __post_init__(self) -> None:
        squares = Range(_ROW_NORMS.low**2, _ROW_NORMS.high**2)
        for name, value in vars(self).items():
            check_range(f"{name} of the rows", value, squares if name.endswith("squared") else _ROW_NORMS)


@dataclass(frozen=True)
class FactorNorms:
    """What privacy and error need to know of a factorization A = B C, as numbers and words.

    ``sensitivity``, in [1e-15, 1e15]: at least the largest column norm of C, rounding included.
    ``workload`` and ``strategy``: their names, the latter None where nobody knows. ``rows``: None where only
    privacy is asked about. ``sha256``: of the file that it was read from. ``repeated``: for clients that take
    part several times in the T steps; None where each takes part once. Make it with
    ``csgm_cli.factorization.factor_norms``.
    """

    T: int
    workload: str
    strategy: str | None
    sensitivity: float
    rows: RowNorms | None = None
    sha256: str | None = None
    repeated: RepeatedParticipation | None = None

    def __post_init__(self) -> None:
        settle(self, "T")
        settle(self, "sensitivity")
        check_type("workload", self.workload, str)
        if self.rows is not None:
            check_type("rows", self.rows, RowNorms)
        if self.repeated is not None:
            check_type("repeated", self.repeated, RepeatedParticipation)

    @property
    def participations(self) -> int:
        """How often one client may take part in the T steps."""
        return 1 if self.repeated is None else self.repeated.participations

    @property
    def release_sensitivity(self) -> float:
        """Of each of as many releases of masked vectors as there are participations."""
        return self.sensitivity if self.repeated is None else self.repeated.release_sensitivity

    @property
    def mean_sensitivity(self) -> float:
        """Of each of as many releases of vectors that are sent whole."""
        return self.sensitivity if self.repeated is None else self.repeated.mean_sensitivity


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with all that its privacy depends on, except the noise.

    ``gamma`` in [1e-9, 1]: the probability that a coordinate is sent, 1 for the Gaussian mechanism.
    ``geometry``: left out, its norm ratio is 1, at which the most noise is needed; a larger one holds for
    vectors that are clipped in the L-inf norm as well.
    ``rounds`` in [1, 1e9]: the releases that one client can influence; None counts as 1, with the notice
    ``one-round`` on results. ``disjoint_cohorts``: that number holds for disjoint cohorts in a fixed order
    (`rounds_from_participation`), which answers then assume. L-inf-CSGM needs ``geometry.dim``.
    ``sampling_rate`` q in [1e-9, 1]: in each round a client takes part with probability q, independently and
    in secret (Poisson sampling). ``rounds`` are then ALL training rounds, and must be given.
    ``UsageError`` for all else.

    With a ``factorization`` A = B C it is SGMF, its L-inf form, or the matrix mechanism: the noise is B Z,
    and what a client sends in one of the T steps enters as C[:, t] times its vector, once in each of the
    ``epochs`` (in [1, 1e9]; None counts as 1, with the same notice), after which B and C start anew with
    fresh Z. ``rounds`` is then None or 1 (docs/theory.md, "Factorized streams"). With repeated participation
    they do not start anew: ``epochs`` is None or 1, ``rounds`` None or the participations of one client.
    """

    name: MechanismName
    gamma: float = 1.0
    geometry: Geometry = Geometry()  # noqa: RUF009 - frozen
    rounds: int | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    factorization: FactorNorms | None = None
    epochs: int | None = None
    disjoint_cohorts: bool = False
    sampling_rate: float = 1.0

    if TYPE_CHECKING:  # names may be given as text; the fields are members

        def __init__(
            self,
            name: MechanismLike,
            gamma: float = 1.0,
            geometry: Geometry = ...,
            rounds: int | None = None,
            adjacency: AdjacencyLike = Adjacency.ADD_REMOVE,
            factorization: FactorNorms | None = None,
            epochs: int | None = None,
            disjoint_cohorts: bool = False,  # noqa: FBT001, FBT002 - as the field
            sampling_rate: float = 1.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        # Plain strings are welcome from callers; a wrong one is a UsageError.
        for name, kind in (("name", MechanismName), ("adjacency", Adjacency)):
            object.__setattr__(self, name, member_named(kind, name, getattr(self, name)))
        check_type("geometry", self.geometry, Geometry)
        check_type("disjoint_cohorts", self.disjoint_cohorts, bool)
        settle(self, "gamma")
        settle(self, "sampling_rate")
        if self.rounds is not None:
            settle(self, "rounds")
        if not self.kind.has_gamma and self.gamma != 1.0:
            raise UsageError(
                "gaussian-gamma",
                f"the {self.name} mechanism sends every coordinate: gamma must be 1, got {self.gamma!r}",
                "leave gamma out, or use l2-csgm",
            )
        if self.kind.needs_dim and self.geometry.dim is None:
            raise UsageError("linf-needs-dim", f"{self.name} needs dim", "pass `dim`")
        self._settle_participation()

    def _settle_participation(self) -> None:
        if self.sampling_rate < 1.0:
            self._check_sampling()
        if self.factorization is None:
            if self.epochs is not None:
                raise UsageError("epochs-without-factorization", "epochs are those of a factorization")
            return
        check_type("factorization", self.factorization, FactorNorms)
        if self.epochs is not None:
            settle(self, "epochs")
        if self.factorization.repeated is not None:
            self._check_repeated(self.factorization.participations)
        elif self.rounds not in (None, 1):
            raise UsageError(
                "rounds-with-factorization",
                "with a factorization a client takes part once per epoch: rounds must be left out",
                "pass epochs, or participations and min_separation of the factorization",
            )

    def _check_repeated(self, participations: int) -> None:
        if self.rounds not in (None, participations):
            raise UsageError(
                "rounds-with-factorization",
                f"one client takes part in up to {participations} steps of the factorization, but rounds is"
                f" {self.rounds}",
                "leave rounds out",
            )
        if self.epochs not in (None, 1):
            raise UsageError(
                "epochs-with-participations",
                f"{participations} participations are those of one run without a restart, but epochs is"
                f" {self.epochs}",
                "leave epochs out, or participations and min_separation",
            )

    def _check_sampling(self) -> None:
        if self.factorization is not None:
            raise UsageError(
                "sampling-with-factorization",
                "there is no amplification by client sampling with correlated noise: sampling_rate must be 1",
                "leave sampling_rate out, and count a client once per epoch",
            )
        if self.disjoint_cohorts:
            raise UsageError(
                "sampling-with-schedule",
                "sampling_rate is for cohorts drawn at random, not for disjoint cohorts in a fixed order",
                "pass sampling_rate and rounds = all training rounds, or the schedule without sampling_rate",
            )
        if self.rounds is None:
            raise UsageError(
                "sampling-needs-rounds",
                "sampling_rate needs rounds",
                "pass rounds = all training rounds",
            )

    @property
    def releases(self) -> int:
        """The releases that one client may influence: ``rounds``, ``epochs`` or participations; or 1."""
        if self.repeated is not None:
            return self.repeated.participations
        return (self.rounds if self.factorization is None else self.epochs) or 1

    @property
    def takes_turns(self) -> bool:
        """Whether each release has the next cohort of a fixed order of all clients."""
        return self.disjoint_cohorts and self.factorization is None

    @property
    def counts_releases(self) -> bool:
        """Whether the number of releases is given."""
        return self.repeated is not None or (
            (self.rounds if self.factorization is None else self.epochs) is not None
        )

    def with_releases(self, count: int) -> Mechanism:
        """The same with so many rounds, epochs or participations, each of the same sensitivities."""
        if self.factorization is None:
            return replace(self, rounds=count)
        if self.repeated is None:
            return replace(self, epochs=count)
        repeated = self.repeated.with_participations(count)
        return replace(self, rounds=None, factorization=replace(self.factorization, repeated=repeated))

    @property
    def repeated(self) -> RepeatedParticipation | None:
        """The participations of one client in a run without a restart; None where it takes part once."""
        return None if self.factorization is None else self.factorization.repeated

    @property
    def is_attained(self) -> bool:
        """Whether some client attains the sensitivities, so that a lower bound can rest on them."""
        if self.repeated is None:
            return True
        return self.repeated.is_exact if self.sends_all else self.repeated.is_attained

    @property
    def column_norm(self) -> float:
        """The factor of a factorization on what one coordinate moves in one release; 1 without one."""
        return 1.0 if self.factorization is None else self.factorization.release_sensitivity

    @property
    def mean_column_norm(self) -> float:
        """The factor on the L2 sensitivity of one release with every coordinate sent."""
        return 1.0 if self.factorization is None else self.factorization.mean_sensitivity

    @property
    def sends_all(self) -> bool:
        """Whether a client that takes part sends every coordinate."""
        return self.gamma == 1.0

    @property
    def is_gaussian(self) -> bool:
        """Whether every client always sends every coordinate, so that the exact analysis applies."""
        return self.gamma == 1.0 and self.sampling_rate == 1.0

    @property
    def kind(self) -> MechanismKind:
        """The row of the table of mechanisms."""
        return MECHANISMS[self.name]

    @property
    def coordinates(self) -> float:
        """How many coordinates at Delta_inf the analysis charges (k, or d for L-inf-CSGM)."""
        return self.kind.coordinates(self.geometry)

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of one release with every coordinate sent, under add-remove."""
        return self.kind.sensitivity(self.geometry, self.mean_column_norm)

    @property
    def linf_sensitivity(self) -> float:
        """How much one coordinate can move in one release: Delta_inf, in all rows of a factorization."""
        return self.geometry.linf_norm * self.column_norm


def accountant_named(value: AccountantLike) -> Accountant:
    """The accountant of that name; ``UsageError`` (slug ``unknown-choice``) for any other word."""
    return Accountant(member_named(Accountant, "accountant", value))


@dataclass(frozen=True)
class Target:
    """The (epsilon, delta) guarantee to be met: epsilon in [1e-6, 1e4], delta in [1e-300, 1)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        try:
            settle(self, "epsilon")
            settle(self, "delta")
        except UsageError as error:
            hint = self._swapped() if error.slug == "out-of-range" else ""
            raise error.reworded(error.message, hint or error.hint) from None

    def _swapped(self) -> str:
        try:
            return swapped(float(self.epsilon), float(self.delta))
        except (TypeError, ValueError, OverflowError):  # no number, or beyond all ranges
            return ""
