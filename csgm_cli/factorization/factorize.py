"""Factorize a workload by any strategy: its exact errors, and their gap to the proven optimum."""

# ruff: noqa: N803 - T is the number of rows in every formula

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.bands.factorize import banded
from csgm_cli.factorization.fixed_order import fixed_order
from csgm_cli.factorization.matrices.semiseparable import row_errors
from csgm_cli.factorization.solve.oracle import oracle_for
from csgm_cli.factorization.solve.solver import Progress, Solution, certificate, lower_bound, solve
from csgm_cli.factorization.strategies import blt, toeplitz, tree
from csgm_cli.factorization.strategies.streaming import check_streams, streaming_generators
from csgm_cli.factorization.workload import column_norms_squared, mean_and_max, row_norms_squared
from csgm_cli.model.factorization import (
    Dual,
    Factorization,
    FloatArray,
    Generators,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyLike,
    StrategyName,
    Workload,
    WorkloadLike,
    as_strategy,
    as_workload,
    objective_named,
)
from csgm_cli.model.result import Notice
from csgm_cli.ranges import check_range

if TYPE_CHECKING:
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

_TOEPLITZ = (StrategyName.TOEPLITZ_SQRT, StrategyName.TOEPLITZ_SQRT_NORMALIZED, StrategyName.TOEPLITZ_OPTIMAL)

#: T from which the search for the best Toeplitz factors would take hours.
_MOST_TOEPLITZ_ROWS = 10_000_000
#: The default gap, and the one beyond so many rows, where rounding keeps the certified gap above the first.
_TOLERANCE, _LOOSE, _MANY_ROWS, _MANY_ROWS_WITH_MOMENTUM = 1e-9, 1e-6, 100_000, 30_000


def default_tolerance(workload: Workload) -> float:
    """The gap that `factorize` solves to by default: 1e-9, or 1e-6 beyond 100,000 rows.

    With momentum beyond 30,000: docs/factorize.md has the floor that rounding puts under the certified gap.
    """
    most = _MANY_ROWS_WITH_MOMENTUM if workload.momentum else _MANY_ROWS
    return _LOOSE if workload.matrix is None and most < workload.T else _TOLERANCE


def _check_rows(workload: Workload, name: StrategyName) -> None:
    if name is StrategyName.TOEPLITZ_OPTIMAL and workload.T > _MOST_TOEPLITZ_ROWS:
        raise UsageError(
            "too-large",
            f"{name} takes T up to {_MOST_TOEPLITZ_ROWS}, got {workload.T}",
            "toeplitz-sqrt-normalized has less error",
        )


def factorize(
    workload: WorkloadLike,
    strategy: StrategyLike = StrategyName.OPTIMAL,
    objective: ObjectiveLike = Objective.MEAN,
    tolerance: float | None = None,
    *,
    participation: Participation | None = None,
    bands: int | None = None,
    start: Dual | None = None,
    optimum: Factorization | None = None,
    progress: Progress | None = None,
) -> Factorization:
    """The factorization of ``workload`` by ``strategy``, without forming B or C (``dense_factors`` does).

    ``workload``: a `Workload`, or the number of rows of prefix sums. ``strategy``: a `Strategy`, or its name,
    such as ``streaming:4``.
    ``tolerance``: relative gap, in [1e-13, 1], to which ``optimal`` (and, for ``streaming``, its optimum) is
    solved from ``start``; without one that of `default_tolerance`. ``progress(iteration, gap, dual)`` follows
    the solver. ``optimum``: the optimal factorization for the same workload and objective, if it is known:
    its bound is used and nothing solved. The bound of other strategies is otherwise that of equal weights, a
    few per cent lower.
    ``participation``: how often one client takes part without a restart, for ``banded`` and
    ``banded-toeplitz``, whose C has as many ``bands`` as there are steps of separation, or fewer. Their bound
    is that of all C with so many bands, and their default gap that of `band_tolerance`. ``blt:N`` minimises
    the error at equal privacy for vectors that are sent whole (`equally_private`).

    Raises ``UsageError`` where the strategy does not apply to the workload or would take hours for its T
    (slug ``too-large``), or the objective is unknown, and
    ``NoAnswerError`` (slug ``not-certified``) where the tolerance is out of reach.
    """
    workload, strategy = as_workload(workload), as_strategy(strategy)
    objective = objective_named(objective)
    if tolerance is not None:
        tolerance = check_range("tolerance", tolerance)
    name = strategy.name
    if name.is_banded:
        return banded(
            workload, strategy, objective, _taken(strategy, participation), bands, tolerance, progress
        )
    if name is StrategyName.FIXED_ORDER:
        taken = _taken(strategy, participation)
        return fixed_order(workload, strategy, objective, taken, tolerance, progress)
    _check_once(strategy, participation, bands)
    tolerance = default_tolerance(workload) if tolerance is None else tolerance
    _check_rows(workload, name)
    _check_epochs(workload, objective)

    def solved() -> Factorization:
        solution = solve(workload, objective, tolerance, start=start, progress=progress)
        return _optimal(workload, objective, solution)

    if name is StrategyName.OPTIMAL:
        return solved()
    if name is StrategyName.STREAMING:
        check_streams(workload)
        return _streaming(workload, strategy, objective, optimum or solved())
    if name.has_buffers:
        return _blt(workload, strategy, objective, optimum, participation)
    return _unsolved(workload, strategy, objective, optimum)


def _taken(strategy: Strategy, participation: Participation | None) -> Participation:
    if participation is None:
        message = f"{strategy} needs the least separation of a client's participations"
        raise UsageError("missing-option", message, "for example `min_separation` 32")
    return participation


def _check_once(strategy: Strategy, participation: Participation | None, bands: int | None) -> None:
    """``UsageError`` (slug ``conflicting-options``) for what a strategy without bands does not take."""
    if bands is not None:
        raise UsageError("conflicting-options", f"{strategy} has no bands: they belong to banded C")
    if participation is not None and not strategy.name.takes_participations:
        raise UsageError(
            "conflicting-options",
            f"{strategy} is for clients that take part once: participations need banded, banded-toeplitz,"
            " blt:N or fixed-order",
        )


def _check_epochs(workload: Workload, objective: Objective) -> None:
    """``UsageError`` (slug ``epochs-objective``) for the max error over several epochs."""
    if workload.epochs > 1 and objective is not Objective.MEAN:
        raise UsageError(
            "epochs-objective",
            f"over {workload.epochs} epochs the mean error is minimised, not the {objective}",
            "use the mean objective",
        )


def _unsolved(
    workload: Workload, strategy: Strategy, objective: Objective, optimum: Factorization | None
) -> Factorization:
    """The factorization of a closed-form strategy."""
    name = strategy.name
    sensitivity_squared, rows, series = _baseline(workload, name, objective)
    bound = lower_bound(workload, objective) if optimum is None else optimum.lower_bound
    return Factorization(
        workload,
        strategy,
        objective,
        sensitivity_squared,
        *mean_and_max(workload, sensitivity_squared * rows),
        bound,
        series=series,
        notices=_padding(workload.T) if name.is_tree else (),
    )


def factorization_of(workload: Workload, objective: Objective, dual: Dual) -> Factorization:
    """The factorization that belongs to any positive weights, with the bound that they prove."""
    return _optimal(workload, objective, certificate(workload, objective, dual))


def _optimal(workload: Workload, objective: Objective, solution: Solution) -> Factorization:
    """Both errors of the solution: the one that was solved for is its certified upper bound."""
    dual = solution.dual
    rows = optimal_rows(workload, solution)
    mean, worst = mean_and_max(workload, rows)
    if objective is Objective.MEAN:
        mean = solution.upper
    else:
        worst = solution.upper
    return Factorization(
        workload,
        Strategy(StrategyName.OPTIMAL),
        objective,
        1.0,
        mean,
        worst,
        solution.lower,
        iterations=solution.iterations,
        dual=dual,
    )


def optimal_rows(workload: Workload, solution: Solution) -> Array:
    """The squared norms of the rows of B, rounded up, where the columns of C have norm 1."""
    found = oracle_for(workload).diagonals(solution.dual, 1e-12, rows=True)
    assert found.rows is not None  # asked for
    rows = (found.rows + found.absolute) / solution.dual.rows
    return np.asarray(rows * solution.column_scale * (1.0 + 3.0 * found.error))


def _streaming(
    workload: Workload, strategy: Strategy, objective: Objective, optimum: Factorization
) -> Factorization:
    """The better of Markov chains in white noise and, for prefix sums, of a normalized BLT."""
    assert strategy.buffers is not None  # its constructor saw to it
    assert optimum.dual is not None  # optimal factorizations have one
    forms = [streaming_generators(workload, optimum.dual, objective, strategy.buffers)]
    if workload.name == "prefix-sum" and strategy.buffers <= blt.MOST_BUFFERS:
        points = blt.normalized_points(workload, objective, strategy.buffers)
        forms.append(blt.blt_generators(points, workload.T, normalized=True))
    found = [_filter(workload, strategy, objective, form, optimum.lower_bound) for form in forms]
    best = min(found, key=lambda one: one.squared_error)
    return replace(best, iterations=optimum.iterations, dual=optimum.dual)


def _blt(
    workload: Workload,
    strategy: Strategy,
    objective: Objective,
    optimum: Factorization | None,
    participation: Participation | None,
) -> Factorization:
    assert strategy.buffers is not None  # its constructor saw to it
    tree.require_prefix_sum(workload, strategy.name)
    blt.check_buffers(strategy)
    bound = lower_bound(workload, objective) if optimum is None else optimum.lower_bound
    if strategy.name is StrategyName.BLT_NORMALIZED:
        points = blt.normalized_points(workload, objective, strategy.buffers)
        form = blt.blt_generators(points, workload.T, normalized=True)
        return _filter(workload, strategy, objective, form, bound)
    if participation is not None:
        _check_without_restart(workload, participation)
    several = participation if participation is not None and participation.participations > 1 else None
    points = blt.blt_points(workload, objective, strategy.buffers, several)
    mean, worst = (float(blt.plain_error(points, workload, of)) for of in (Objective.MEAN, Objective.MAX))
    return Factorization(
        workload,
        strategy,
        objective,
        1.0,
        mean,
        worst,
        bound,
        generators=blt.blt_generators(points, workload.T, normalized=False),
        participation=participation,
    )


def _check_without_restart(workload: Workload, participation: Participation) -> None:
    participation.check(workload.T)
    if participation.fixed_order:
        raise UsageError("conflicting-options", "a fixed order of clients needs fixed-order, not blt")
    if workload.epochs > 1:
        raise UsageError(
            "conflicting-options", "several participations in one run have no restart: epochs must be 1"
        )


def _filter(
    workload: Workload, strategy: Strategy, objective: Objective, form: Generators, bound: float
) -> Factorization:
    """That of generators whose largest column norm is 1."""
    mean, worst = mean_and_max(workload, row_errors(workload, form))
    return Factorization(workload, strategy, objective, 1.0, mean, worst, bound, generators=form)


def _baseline(
    workload: Workload, name: StrategyName, objective: Objective
) -> tuple[float, Array, Array | None]:
    """Squared sensitivity, squared row norms of B, and the series of B and C where they have any."""
    series = None
    if name.is_tree:
        tree.require_prefix_sum(workload, name)
        squared = float(tree.levels(workload.T))
    elif name in _TOEPLITZ:
        series = _series(workload, name, objective)
        squared = 1.0 if name is StrategyName.TOEPLITZ_SQRT_NORMALIZED else float(series[1] @ series[1])
    elif name is StrategyName.IDENTITY:
        squared = 1.0
    else:
        squared = float(column_norms_squared(workload).max())
    return squared, baseline_rows(workload, name, series), series


def _series(workload: Workload, name: StrategyName, objective: Objective) -> Array:
    if name is StrategyName.TOEPLITZ_OPTIMAL:
        return np.stack(toeplitz.optimal_series(workload, objective))
    root = toeplitz.sqrt_series(workload)
    return np.stack([root, root])


def baseline_rows(workload: Workload, name: StrategyName, series: FloatArray | None) -> Array:
    """The squared norm of each row of B, shape (T,), of a strategy that solves nothing.

    ``series``: the first columns of B and C, which ``toeplitz-`` strategies have.
    """
    if name.is_tree:
        return tree.row_errors(workload.T, name)
    if series is not None:
        b, c = series
        if name is StrategyName.TOEPLITZ_SQRT_NORMALIZED:
            return toeplitz.normalized_row_errors(workload, c)
        return toeplitz.row_errors(b)
    return row_norms_squared(workload) if name is StrategyName.IDENTITY else np.ones(workload.T)


def _padding(T: int) -> tuple[Notice, ...]:
    leaves = 1 << (tree.levels(T) - 1)
    if leaves == T:
        return ()
    said = f"the tree has {leaves} leaves: {T} steps and {leaves - T} that never happen"
    return (Notice("tree-padded", said),)
