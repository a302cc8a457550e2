"""Norms of factorizations: against the dense arrays, rounded to the safe side."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.factorization import (
    dense_factors,
    factor_norms,
    factorize,
    inspect_arrays,
    norms_of_arrays,
    parse_workload,
    schedule_workload,
)
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import StrategyName, strategy_named
from csgm_cli.model.participation import Participation

STRATEGIES = [f"{name.value}:3" if name.has_buffers else name.value for name in StrategyName]


def arrays_of(factors):
    named = {"B": factors.B, "C": factors.C, "C_inv": factors.C_inv}
    return {name: array for name, array in named.items() if array is not None}


def exact_square(c):
    """The largest squared column norm, without rounding."""
    return max(sum(Fraction(float(x)) ** 2 for x in column) for column in c.T)


def made(strategy, T):
    """By this strategy; for clients that come back after a third of the T steps, where it is for such."""
    several = Participation(1, -(-T // 3)) if StrategyName(strategy.partition(":")[0]).is_repeated else None
    return factorize(parse_workload("prefix-sum", T), strategy_named(strategy), participation=several)


@pytest.mark.parametrize("T", [1, 2, 30])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_arrays_as_with(strategy, T):
    """The closed forms are what the exported arrays have; 1e-9 is the certified gap of the optimum."""
    found = made(strategy, T)
    factors = dense_factors(found)
    ours, dense = factor_norms(found), norms_of_arrays(found.workload, arrays_of(factors))
    assert (ours.T, ours.workload, ours.strategy) == (T, "prefix-sum", strategy)
    assert ours.sensitivity == pytest.approx(dense.sensitivity, rel=1e-12)
    rows = (np.asarray(factors.B, np.float64) ** 2).sum(axis=1)
    assert ours.rows.least == pytest.approx(np.sqrt(rows).min(), rel=2e-9)
    assert ours.rows.mean == pytest.approx(np.sqrt(rows).mean(), rel=2e-9)
    assert ours.rows.largest == pytest.approx(np.sqrt(rows).max(), rel=2e-9)
    assert ours.rows.mean_squared == pytest.approx(rows.mean(), rel=2e-9)
    assert ours.rows.last_squared == pytest.approx(rows[-1], rel=2e-9)
    assert ours.rows.workload_mean_squared == (T + 1) / 2
    assert ours.rows.workload_last_squared == T
    assert ours.rows.mean_squared * ours.sensitivity**2 == pytest.approx(found.mean_squared_error, rel=1e-8)


@pytest.mark.parametrize("T", [1, 7, 32, 100])
@pytest.mark.parametrize("strategy", [*STRATEGIES, "streaming:4"])
def test_sensitivity_is_an_upper_bound(strategy, T):
    """No column of the arrays that are exported has a larger norm, in exact arithmetic."""
    found = made(strategy, T)
    ours = factor_norms(found)
    for precision in ("float64", "float32"):
        factors = dense_factors(found, precision)
        bound = Fraction(ours.sensitivity) ** 2
        assert exact_square(factors.C) <= bound
        assert (
            exact_square(factors.C)
            <= Fraction(norms_of_arrays(found.workload, arrays_of(factors)).sensitivity) ** 2
        )


@given(
    entries=st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6),
    diagonal=st.lists(st.floats(0.1, 1e3), min_size=4, max_size=4),
)
def test_any_triangular_c(entries, diagonal):
    """The bound is above the exact norm and within 1e-14 of it, for any C alone."""
    c = np.diag(diagonal)
    c[np.tril_indices(4, -1)] = entries
    found = norms_of_arrays(parse_workload("prefix-sum", 4), {"C": c}).sensitivity
    truth = exact_square(c)
    assert truth <= Fraction(found) ** 2 <= truth * (1 + Fraction(1, 10**14))


def test_the_largest_of_what_the_arrays_say():
    """A C_inv that was scaled down stands for a larger C: whoever makes noise with it needs more."""
    factors = dense_factors(factorize(parse_workload("prefix-sum", 8)))
    arrays = arrays_of(factors)
    workload = parse_workload("prefix-sum", 8)
    for name, scale in (("C_inv", 1 - 1e-8), ("B", 1 - 1e-8), ("C", 1 + 1e-8)):
        found = norms_of_arrays(workload, arrays | {name: arrays[name] * scale})
        assert found.sensitivity == pytest.approx(1 + 1e-8, rel=1e-12)


def test_learning_rates():
    """Sparsification goes with the rows of A: sums of squared rates."""
    workload = schedule_workload([1.0, 0.5, 0.25])
    rows = factor_norms(factorize(workload)).rows
    assert rows.workload_last_squared == pytest.approx(1.3125, rel=1e-15)
    assert rows.workload_mean_squared == pytest.approx((1 + 1.25 + 1.3125) / 3, rel=1e-15)


def test_large_t_needs_no_square_array():
    """A hundred thousand rows in seconds: T x T numbers would take 80 GB."""
    for strategy in ("tree", "identity", "toeplitz-sqrt"):
        found = factor_norms(factorize(parse_workload("prefix-sum", 100_000), strategy_named(strategy)))
        assert found.rows.workload_last_squared == 100_000


def test_refusals():
    """What cannot be measured, or computed with, is a usage error."""
    workload = parse_workload("prefix-sum", 2)
    with pytest.raises(UsageError, match="neither B nor C"):
        norms_of_arrays(workload, {})
    with pytest.raises(UsageError, match="too large"):
        norms_of_arrays(workload, {"C": np.diag([1e200, 1.0])})
    with pytest.raises(UsageError, match="least of the rows must be"):
        norms_of_arrays(workload, {"C": np.diag([1e70, 1e70])})
    with pytest.raises(UsageError, match="sensitivity must be"):
        norms_of_arrays(workload, {"C": np.diag([1e20, 1e20])})
    with pytest.raises(UsageError, match="factorization"):
        factor_norms("optimal")


@pytest.mark.parametrize("turned", [False, True])
def test_small_rows_do_not_hide_behind_large_ones(turned):
    """B Z has noise of 1e-3 on row 1 alone: the sensitivity is 1000, and B C is not A, whatever C is said."""
    b, c = np.array([[1e-3, 0.0], [1.0, 1e9]]), np.array([[1.0, 0.0], [0.0, 1e-9]])
    if turned:  # neither is triangular
        b, c = b[:, ::-1].copy(), c[::-1].copy()
    workload = parse_workload("prefix-sum", 2)
    assert norms_of_arrays(workload, {"B": b, "C": c}).sensitivity == pytest.approx(1000.0, rel=1e-12)
    claims = {claim.name: claim for claim in inspect_arrays(workload, {"B": b, "C": c}).claims}
    assert claims["product"].computed == pytest.approx(999.0, rel=1e-12)
    assert not claims["product"].holds


@pytest.mark.parametrize("shuffled", [False, True])
def test_noise_from_b_has_the_sensitivity_of_b(shuffled):
    """A B that is off in its smallest row, beside a C (or its inverse) that it is not of."""
    scales = np.geomspace(1.0, 1e-4, 64)
    workload = parse_workload("prefix-sum", 64)
    b, c_inv = (dense(workload) / scales).astype(np.float32), np.diag(1 / scales).astype(np.float32)
    b[0, 0] *= np.float32(0.98)
    order = np.random.default_rng(0).permutation(64) if shuffled else np.arange(64)
    arrays = {"B": b[:, order], "C": np.linalg.inv(c_inv.astype(np.float64))[order]}
    if not shuffled:
        arrays["C_inv"] = c_inv
        del arrays["C"]
    true = np.linalg.norm(np.linalg.solve(b.astype(np.float64), dense(workload)), axis=0).max()
    found = norms_of_arrays(workload, arrays).sensitivity
    assert true == pytest.approx(1 / 0.98, rel=1e-3)
    assert true * (1 - 1e-9) <= found <= true * (1 + 1e-9)


def test_noise_from_an_inverse_that_is_no_triangle():
    """Whatever C says, noise C_inv Z has the sensitivity of C_inv^-1: 1000, in any order of the rows of Z."""
    c_inv = np.array([[1e-3, 0.0], [1.0, 1e9]])
    workload, c = parse_workload("prefix-sum", 2), np.array([[1.0, 0.0], [0.0, 1e-9]])
    for order in ([0, 1], [1, 0]):
        arrays = {"C": c[order], "C_inv": c_inv[:, order]}
        arrays["B"] = dense(workload) @ np.diag([1.0, 1e9])[:, order]
        assert norms_of_arrays(workload, arrays).sensitivity == pytest.approx(1000.0, rel=1e-12)
