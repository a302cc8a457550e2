"""The certificate of given weights, where the oracle errs by as much as it admits."""

from dataclasses import dataclass

import numpy as np
import pytest

from csgm_cli.factorization import matrix_workload, schedule_workload
from csgm_cli.factorization.solve.oracle import Diagonals, Oracle, oracle_for
from csgm_cli.factorization.solve.problem import Problem
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Objective, Workload

MEAN, MAX = Objective.MEAN, Objective.MAX
T = 6


@dataclass(frozen=True)
class Erring:
    """An oracle whose entries are off by exactly the errors that it admits; ``sign`` -1: too small."""

    oracle: Oracle
    sign: int
    relative: float = 0.0
    absolute: float = 0.0

    def diagonals(self, dual, accuracy, *, rows):
        found = self.oracle.diagonals(dual, accuracy, rows=rows)
        of_h = self.relative + len(found.columns) * self.absolute / found.h
        return Diagonals(self._off(found.columns), self._off(found.rows), of_h, self.absolute)

    def _off(self, values):
        if values is None:
            return None
        return values * (1 + self.sign * self.relative) + self.sign * self.absolute


def small(index):
    """Weights of 1 but for one, which gives its column (or row) the largest share of the error by far."""
    weights = np.ones(T)
    weights[index] = 1e-6
    return weights


#: Workload, objective and weights: a mean, by symmetry one diagonal for both, and both apart.
PROBLEMS = {
    "mean": (Workload(T), MEAN, small(2)),
    "toeplitz": (Workload(T), MAX, small(2)),
    "columns": (matrix_workload(dense(Workload(T))), MAX, np.concatenate([small(2), np.ones(T)])),
    "rows": (schedule_workload(np.linspace(1, 2, T), 0.5), MAX, np.concatenate([np.ones(T), small(3)])),
}


def certified(name, **errors):
    """The certificate by an erring oracle, and the right values: both bounds and the largest column."""
    workload, objective, weights = PROBLEMS[name]
    right = oracle_for(workload)
    point = Problem(workload, objective, Erring(right, **errors), 1e-15).at(np.log(weights))
    exact = right.diagonals(point.dual, 1e-15, rows=True)
    v, u = point.dual.columns, point.dual.rows
    columns, rows = (exact.columns / v).max(), (exact.rows / u).max()
    attained = columns * (exact.h / T if objective is MEAN else rows)
    return point, exact.h**2 / (v.sum() * u.sum()), attained, columns


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    "errors", [{"relative": 0.01}, {"absolute": 1e-4}, {"relative": 1e-3, "absolute": 1e-5}], ids=str
)
def test_bounds_hold_whichever_way_the_oracle_errs(name, sign, errors):
    """The lower bound is never above the right one, nor the upper below what the weights attain."""
    point, lower, attained, columns = certified(name, sign=sign, **errors)
    assert point.lower <= lower * (1 + 1e-9)
    assert point.upper >= attained * (1 - 1e-9)
    assert point.column_scale >= columns * (1 - errors.get("relative", 0.0)) * (1 - 1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_bounds_without_errors_are_the_formulas(name):
    """An oracle that admits no error is taken at its word."""
    point, lower, attained, columns = certified(name, sign=1)
    assert point.lower == pytest.approx(lower, rel=1e-12)
    assert point.upper == pytest.approx(attained, rel=1e-12)
    assert point.column_scale == pytest.approx(columns, rel=1e-12)
