"""The frozen values of factorizations A = B C and of their noise; arrays are NumPy's, which is not imported.

A module of its own, so that commands without factorizations start without it.
"""

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

    from csgm_cli.model.result import Notice

    FloatArray: TypeAlias = NDArray[np.float64]
    AnyFloatArray: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
else:  # at run time hints must not import numpy
    FloatArray = AnyFloatArray = Any

#: The arrays that have a meaning and the sides of each: T steps, R rows of C, N buffers.
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
        "optimal",
        "toeplitz-sqrt",
        "toeplitz-sqrt-normalized",
        "toeplitz-optimal",
        "tree",
        "honaker-online",
        "honaker-full",
        "identity",
        "output",
        "streaming",
        "blt",
        "blt-normalized",
    ]
)


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
    """

    T: int
    momentum: float = 0.0
    learning_rates: FloatArray | None = None
    matrix: FloatArray | None = None

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
class Generators:
    """Correlated noise x = C^-1 z, one step at a time, with N numbers of state per model coordinate.

    x_t = (z_t - outputs_t . s_t) / diagonal_t,   s_(t+1) = decays_t * s_t + inputs_t x_t,   s_0 = 0.

    ``decays``, ``inputs``, ``outputs``: (T, N); ``diagonal``: (T,), the diagonal of C.
    """

    decays: FloatArray
    inputs: FloatArray
    outputs: FloatArray
    diagonal: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class _Errors(Displayed):
    """What any A = B C has, whoever made it; `Factorization` says what the fields mean."""

    workload: Workload
    strategy: Strategy | None
    objective: Objective
    sensitivity_squared: float
    mean_squared_error: float
    max_squared_error: float
    lower_bound: float
    iterations: int = 0

    @property
    def T(self) -> int:  # noqa: N802 - the name of the dimension everywhere
        """Number of rows of the workload."""
        return self.workload.T

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
class Factorization(_Errors):
    """A = B C, and what noise it needs.

    ``sensitivity_squared``: largest squared column norm of C. ``mean_squared_error``: ||B||_F^2
    sensitivity^2 / T, the error per row and coordinate for noise of unit sensitivity;
    ``max_squared_error``: that of the worst row. ``lower_bound``: no factorization of this workload has
    less of the chosen ``objective`` (proven, rounding included); ``gap``: how far above it this one is,
    relatively. ``iterations``: steps of the solver, 0 where nothing was solved. ``dual`` is None unless
    ``optimal`` or ``streaming``, ``generators`` unless ``strategy`` has buffers, ``series`` (the first
    columns of B and C, shape (2, T)) unless ``toeplitz-``.
    """

    strategy: Strategy
    dual: Dual | None = None
    generators: Generators | None = None
    series: FloatArray | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One thing that a file of arrays says of itself, against what was computed from the arrays.

    ``name``: one of the keys of a factorization's result, ``sha256``, or what every file claims by being
    one: ``product`` (B C = A: the largest entry of the difference, relative), ``inverse`` (C_inv C = 1,
    likewise) and ``generators`` (B, C and C_inv are those of the streaming form, likewise); of those
    ``claimed`` is 0, and None for arrays made elsewhere, which come without claims.
    ``dual``: arrays that are said to be optimal have no more error than the dual in the same file attains.
    ``strategy``: any other has the errors of its name, a streaming form its number of buffers.
    """

    name: str
    claimed: bool | int | float | str | None
    computed: bool | int | float | str | None
    holds: bool


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(_Errors):
    """All numbers of a factorization recomputed from its arrays, and whether its ``claims`` hold.

    The fields are those of `Factorization`; ``strategy`` is what the file says, None where it says nothing.
    ``iterations``: steps that the solver took to find the bound, 0 where the file's dual proves it.
    """

    claims: tuple[Claim, ...] = ()

    @property
    def holds(self) -> bool:
        """True where every claim does."""
        return all(claim.holds for claim in self.claims)

    def _shown(self) -> Mapping[str, object]:
        return {"holds": self.holds, **super()._shown()}

    def _details(self) -> Mapping[str, object]:
        return {f"claim {claim.name}": "holds" if claim.holds else "fails" for claim in self.claims}


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


class NoiseOn(StrEnum):
    """What correlated noise is added to: the rows of X as they come, or the rows of A X that are released."""

    INCREMENTS = "increments"
    SUMS = "sums"


NoiseOnLike: TypeAlias = NoiseOn | Literal["increments", "sums"]


def noise_on_named(value: NoiseOnLike) -> NoiseOn:
    """The member of that name; ``UsageError`` (slug ``unknown-choice``) for any other word."""
    return NoiseOn(member_named(NoiseOn, "on", value))


@dataclass(frozen=True)
class NoiseState:
    """All that a `NoiseStream` needs to go on from round ``t``, besides its own arguments: keep it secret.

    Whoever has the ``seed`` can subtract the noise, so it is not in ``repr``; it is None where the normals
    are the caller's own. ``fingerprint`` tells whether the noise that goes on is the noise that was begun.
    """

    t: int
    fingerprint: str
    seed: int | None = field(default=None, repr=False)
