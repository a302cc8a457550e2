"""The frozen values of factorizations A = B C; arrays are NumPy's, which is not imported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from csgm_cli.errors import UsageError, shown
from csgm_cli.model.display import Displayed, at_least, at_most
from csgm_cli.ranges import check_range, check_type, member_named

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from csgm_cli.model.participation import Participation
    from csgm_cli.model.result import Notice

    FloatArray: TypeAlias = NDArray[np.float64]
    AnyFloatArray: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
else:  # at run time hints must not import numpy
    FloatArray = AnyFloatArray = Any

#: The arrays that have a meaning and the sides of each: T steps, R rows of C, N buffers, P bands. Row l of
#: ``bands`` is a diagonal of C: bands[l, j] = C[j+l, j], 0 where j + l >= T.
SIDES: dict[str, tuple[str, ...]] = {
    "A": ("T", "T"),
    "B": ("T", "R"),
    "C": ("R", "T"),
    "C_inv": ("T", "R"),
    "v": ("T",),
    "u": ("T",),
    "learning_rates": ("T",),
    "decays": ("T", "N"),
    "inputs": ("T", "N"),
    "outputs": ("T", "N"),
    "diagonal": ("T",),
    "series": ("2", "T"),
    "bands": ("P", "T"),
    "bound_bands": ("P", "T"),
    "class_dual": ("K", "T"),
}
#: Those that are T x T but for trees.
DENSE = ("B", "C", "C_inv")
#: Those of a streaming form.
GENERATORS = ("decays", "inputs", "outputs", "diagonal")


class Objective(StrEnum):
    """Which squared error of a factorization is made small: averaged over rows, or of the worst row."""

    MEAN = "mean"
    MAX = "max"


ObjectiveLike: TypeAlias = Objective | Literal["mean", "max"]


class StrategyName(StrEnum):
    """How a workload A is written as B C (docs/factorize.md)."""

    OPTIMAL = "optimal"
    TOEPLITZ_SQRT = "toeplitz-sqrt"
    TOEPLITZ_SQRT_NORMALIZED = "toeplitz-sqrt-normalized"
    TOEPLITZ_OPTIMAL = "toeplitz-optimal"
    TREE = "tree"
    HONAKER_ONLINE = "honaker-online"
    HONAKER_FULL = "honaker-full"
    IDENTITY = "identity"
    OUTPUT = "output"
    STREAMING = "streaming"
    BLT = "blt"
    BLT_NORMALIZED = "blt-normalized"
    BANDED = "banded"
    BANDED_TOEPLITZ = "banded-toeplitz"
    FIXED_ORDER = "fixed-order"

    @property
    def is_banded(self) -> bool:
        """True where C has few bands, for clients that take part several times without a restart."""
        return self in (StrategyName.BANDED, StrategyName.BANDED_TOEPLITZ)

    @property
    def is_repeated(self) -> bool:
        """True for all that is made for several participations in one run."""
        return self.is_banded or self is StrategyName.FIXED_ORDER

    @property
    def takes_participations(self) -> bool:
        """True for all that can be made for several participations in one run."""
        return self.is_repeated or self is StrategyName.BLT

    @property
    def is_tree(self) -> bool:
        """True for binary trees over the steps, which factorize prefix sums alone."""
        return self is StrategyName.HONAKER_FULL or self.has_nodes

    @property
    def has_nodes(self) -> bool:
        """True where C has a row for each node of a tree, so that it has no inverse."""
        return self in (StrategyName.TREE, StrategyName.HONAKER_ONLINE)

    @property
    def has_buffers(self) -> bool:
        """True where C^-1 is a filter with a chosen number of buffers: ``name:N``."""
        return self in (StrategyName.STREAMING, StrategyName.BLT, StrategyName.BLT_NORMALIZED)


StrategyNameLike: TypeAlias = (
    StrategyName
    | Literal[
        "optimal", "toeplitz-sqrt", "toeplitz-sqrt-normalized", "toeplitz-optimal", "tree", "honaker-online",
        "honaker-full", "identity", "output", "streaming", "blt", "blt-normalized", "banded",
        "banded-toeplitz", "fixed-order",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Strategy:
    """A strategy by name; ``buffers`` (in [1, 64]) belongs to ``streaming``, ``blt``, ``blt-normalized``."""

    name: StrategyName
    buffers: int | None = None

    if TYPE_CHECKING:  # the name may be given as text; the field is a member

        def __init__(self, name: StrategyNameLike, buffers: int | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", member_named(StrategyName, "strategy", self.name))
        if (self.buffers is not None) != self.name.has_buffers:
            raise UsageError(
                "streaming-buffers",
                f"a number of buffers belongs to streaming, blt and blt-normalized, got {self}",
                "write streaming:4",
            )
        if self.buffers is not None:
            check_range("buffers", self.buffers)

    def __str__(self) -> str:
        return self.name.value if self.buffers is None else f"{self.name.value}:{self.buffers}"


def objective_named(value: ObjectiveLike) -> Objective:
    """The objective of that name; ``UsageError`` (slug ``unknown-choice``) for any other word."""
    return Objective(member_named(Objective, "objective", value))


def strategy_named(spec: str) -> Strategy:
    """The strategy written ``optimal``, ``tree``, ``streaming:4``, ...; ``UsageError`` for anything else."""
    check_type("strategy", spec, str)
    word, colon, number = spec.partition(":")
    name = StrategyName(member_named(StrategyName, "strategy", word))
    if not colon:
        return Strategy(name)
    if not (number.isascii() and number.isdigit()):
        raise UsageError("not-a-number", f"the buffers of {word} must be a whole number, got {number!r}")
    return Strategy(name, int(number))


#: A strategy, or how `strategy_named` spells it, such as ``streaming:4``.
StrategyLike: TypeAlias = Strategy | str


def as_strategy(strategy: StrategyLike) -> Strategy:
    """The strategy itself, or the one of that name; ``UsageError`` for anything else."""
    return strategy if isinstance(strategy, Strategy) else strategy_named(strategy)


@dataclass(frozen=True, eq=False)
class Workload:
    """The lower-triangular T x T matrix A whose products with a stream are released.

    Without ``matrix``: A = S diag(learning_rates) M, S prefix sums and M_ij = momentum^(i-j) for i >= j, so
    that row i is what i+1 steps of SGD with momentum do to a model. ``learning_rates``: T positive
    numbers, None where all are 1. Build it with ``csgm_cli.factorization.workload``, which checks.
    ``epochs``: how often noise and sums start anew, the last row of each epoch being carried into all later
    ones; B and C are those of one epoch, errors those over all rows of all epochs.
    """

    T: int
    momentum: float = 0.0
    learning_rates: FloatArray | None = None
    matrix: FloatArray | None = None
    epochs: int = 1

    @property
    def name(self) -> str:
        """``prefix-sum``, ``momentum=0.9``, ``learning-rates``, both of these, or ``matrix``."""
        if self.matrix is not None:
            return "matrix"
        rates = [] if self.learning_rates is None else ["learning-rates"]
        momentum = [] if self.momentum == 0 else [f"momentum={self.momentum!r}"]
        return ",".join(momentum + rates) or "prefix-sum"

    @property
    def is_toeplitz(self) -> bool:
        """True where A_ij depends on i - j only and A is known by its structure."""
        return self.matrix is None and self.learning_rates is None


#: A workload, or the number of rows of prefix sums.
WorkloadLike: TypeAlias = Workload | int


def as_workload(workload: WorkloadLike) -> Workload:
    """The workload itself, or prefix sums of so many rows, in [1, 1e8]; ``UsageError`` for anything else."""
    if isinstance(workload, Workload):
        return workload
    if isinstance(workload, bool) or not isinstance(workload, Real):
        raise UsageError(
            "invalid-type",
            f"workload must be a Workload or a number of rows, got {shown(workload)}",
            'pass 32 for prefix sums of 32 rows, or parse_workload("momentum=0.9", 32)',
        )
    return Workload(int(check_range("T", workload)))


@dataclass(frozen=True, eq=False)
class Dual:
    """Weights that certify a lower bound: ``columns`` v and ``rows`` u, both T positive numbers.

    For the mean error ``rows`` is all ones.
    """

    columns: FloatArray
    rows: FloatArray


@dataclass(frozen=True, eq=False)
class BandedDual:
    """What proves a lower bound on the error of bands: weights of ``rows``, and the best C for them.

    ``rows``: T positive numbers; ``bands``: that C, or one close to it, shape (P, T).
    """

    rows: FloatArray
    bands: FloatArray


@dataclass(frozen=True, eq=False)
class Generators:
    """Correlated noise x = C^-1 z, one step at a time, with N numbers of state per model coordinate.

    x_t = (z_t - outputs_t . s_t) / diagonal_t,   s_(t+1) = decays_t * s_t + inputs_t x_t,   s_0 = 0.

    ``decays``, ``inputs``, ``outputs``: (T, N); ``diagonal``: (T,), the diagonal of C.
    """

    decays: FloatArray
    inputs: FloatArray
    outputs: FloatArray
    diagonal: FloatArray


@dataclass(frozen=True, eq=False)
class Bands:
    """Correlated noise x = C^-1 z of a lower-triangular C with b bands, with b - 1 numbers of state.

    x_t = (z_t - sum_l C_(t,t-l) x_(t-l)) / C_tt over 0 < l < b.

    ``matrix``: (b, T), matrix[l, j] = C[j+l, j].
    """

    matrix: AnyFloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Errors(Displayed):
    """What any A = B C has, whoever made it; `Factorization` says what the fields mean."""

    workload: Workload
    strategy: Strategy | None
    objective: Objective
    sensitivity_squared: float
    mean_squared_error: float
    max_squared_error: float
    lower_bound: float
    iterations: int = 0
    participation: Participation | None = field(default=None, kw_only=True)
    bands: int | None = field(default=None, kw_only=True)

    @property
    def participations(self) -> int | None:
        """How often a client takes part in the T steps; None where once per restart."""
        return None if self.participation is None else self.participation.participations

    @property
    def min_separation(self) -> int | None:
        """The least number of steps between two participations; None where each has its restart."""
        return None if self.participation is None else self.participation.min_separation

    @property
    def T(self) -> int:  # noqa: N802 - the name of the dimension everywhere
        """Number of rows of the workload."""
        return self.workload.T

    @property
    def epochs(self) -> int:
        """The epochs whose errors are counted; the noise starts anew in each."""
        return self.workload.epochs

    @property
    def sensitivity(self) -> float:
        """Largest column norm of C."""
        return math.sqrt(self.sensitivity_squared)

    @property
    def rmse(self) -> float:
        """Square root of the mean squared error."""
        return math.sqrt(self.mean_squared_error)

    @property
    def squared_error(self) -> float:
        """The error that ``objective`` names."""
        return self.mean_squared_error if self.objective is Objective.MEAN else self.max_squared_error

    @property
    def gap(self) -> float:
        """squared_error / lower_bound - 1, at least 0."""
        return max(0.0, self.squared_error / self.lower_bound - 1.0)

    def _shown(self) -> Mapping[str, object]:
        return {
            "workload": self.workload.name,
            "T": self.T,
            "strategy": self.strategy or "-",
            "objective": self.objective,
            "sensitivity": at_least(self.sensitivity),
            "mean_squared_error": at_least(self.mean_squared_error),
            "max_squared_error": at_least(self.max_squared_error),
            "lower_bound": at_most(self.lower_bound),
            "gap": at_least(self.gap),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Factorization(Errors):
    """A = B C, and what noise it needs.

    ``sensitivity_squared``: largest squared column norm of C. ``mean_squared_error``: ||B||_F^2
    sensitivity^2 / T, the error per row and coordinate for noise of unit sensitivity;
    ``max_squared_error``: that of the worst row. ``lower_bound``: no factorization of this workload has
    less of the chosen ``objective`` (proven, rounding included); ``gap``: how far above it this one is,
    relatively. ``iterations``: steps of the solver, 0 where nothing was solved. ``dual`` is None unless
    ``optimal`` or ``streaming``, ``generators`` unless ``strategy`` has buffers, ``series`` (the first
    columns of B and C, shape (2, T)) unless ``toeplitz-``.
    ``participation``: of one client in the T steps, None where it takes part once and then everything starts
    anew. ``bands``: C_ij = 0 for i - j >= bands, None unless ``banded``; then ``band_matrix`` is C, shape
    (bands, T): band_matrix[l, j] = C[j+l, j]. The bound is that of all C with so many bands, which
    ``band_dual`` proves where C itself does not (None). ``factor`` is the C of ``fixed-order``, shape (T, T),
    and ``class_dual`` V proves its bound, shape (K, T): class_dual[l, j] = V[j + l min_separation, j].
    ``blt`` with a ``participation`` has the least error of `equally_private`.
    """

    strategy: Strategy
    dual: Dual | None = None
    generators: Generators | None = None
    series: FloatArray | None = None
    band_matrix: FloatArray | None = None
    band_dual: BandedDual | None = None
    factor: FloatArray | None = None
    class_dual: FloatArray | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, eq=False)
class Factors:
    """B and C as arrays: T x T and lower-triangular, except for ``tree`` and ``honaker-``.

    The trees have one row of C (and one column of B) per node and no ``C_inv``. ``sensitivity`` is that
    of these rounded numbers and not above the factorization's; the errors are theirs too.
    """

    B: AnyFloatArray
    C: AnyFloatArray
    C_inv: AnyFloatArray | None
    sensitivity: float
    mean_squared_error: float
    max_squared_error: float
