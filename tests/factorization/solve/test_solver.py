"""The optimum: reference values, closed forms, certificates, and a dense second method."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization import (
    dense_factors,
    matrix_workload,
    parse_workload,
    schedule_workload,
)
from csgm_cli.factorization.factorize import factorization_of
from csgm_cli.factorization.solve.solver import lower_bound, solve
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Dual, Objective, Workload

MEAN, MAX = Objective.MEAN, Objective.MAX
#: The table of optimal values beyond the sizes in reference/factorization.json, to its digits.
LARGE = {
    (256, MEAN): 6.37266814259,
    (2048, MEAN): 10.0635819805,
    (4096, MEAN): 11.4905534302,
    (8192, MEAN): 13.0153897239,
    (256, MAX): 6.4146510305,
    (2048, MAX): 10.096360242,
    (4096, MAX): 11.520835732,
    (8192, MAX): 13.043463833,
}


@pytest.mark.parametrize("objective", list(Objective))
def test_reference(reference, objective):
    """Every T of the reference file, to 1e-9; and no bound above what the reference attains."""
    for T, values in reference["factorization"]["values"].items():
        entry = values[f"optimal_dense_{objective.value}"]
        key = "mse" if objective is MEAN else "max_sq"
        found = solve(Workload(int(T)), objective)
        assert found.gap <= 1e-9
        assert math.isclose(found.upper, entry[key], rel_tol=1e-9)
        assert found.lower <= entry[f"{key}_upper"] * (1 + 1e-11)  # its own eleven digits


@pytest.mark.parametrize(("T", "objective"), LARGE)
def test_reference_at_large_sizes(T, objective):
    """Sizes of which only the optimal value is recorded."""
    assert math.isclose(solve(Workload(T), objective).upper, LARGE[T, objective], rel_tol=1.1e-9)


@pytest.mark.parametrize(
    ("T", "objective", "value"),
    [(1, MEAN, 1.0), (1, MAX, 1.0), (2, MEAN, (3 + math.sqrt(5)) / 4), (2, MAX, 4 / 3)],
)
def test_closed_forms(T, objective, value):
    """T = 1 and T = 2 need one evaluation, for the certificate."""
    found = solve(Workload(T), objective, 1e-12)
    assert found.iterations == 1
    assert found.lower <= value <= found.upper
    assert math.isclose(found.upper, value, rel_tol=1e-12)


@pytest.mark.parametrize("T", [4, 8, 32])
def test_dual_vectors(reference, T):
    """The weights themselves, which are unique up to scale."""
    dual = solve(Workload(T), MEAN, 1e-12).dual
    expected = np.array(reference["factorization"]["vectors"][f"dual_v_mean_T{T}"])
    np.testing.assert_allclose(dual.columns / dual.columns.sum(), expected, rtol=1e-9)


def eigenvalue_certificate(matrix, dual):
    """h^2 / (sum v sum u), by the eigenvalues of D^(1/2) A^T D_u A D^(1/2)."""
    root = np.sqrt(dual.columns)
    gram = root[:, None] * (matrix.T @ (dual.rows[:, None] * matrix)) * root
    h = np.sqrt(np.linalg.eigvalsh(gram)).sum()
    return h**2 / (dual.columns.sum() * dual.rows.sum())


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("T", [3, 20, 200])
def test_bound_by_eigenvalues(T, objective):
    """A dense eigendecomposition gives the same lower bound."""
    found = solve(Workload(T), objective)
    by_eigenvalues = eigenvalue_certificate(dense(Workload(T)), found.dual)
    assert math.isclose(found.lower, by_eigenvalues, rel_tol=1e-10)
    assert found.lower <= by_eigenvalues * (1 + 1e-12)


@pytest.mark.parametrize("spec", ["prefix-sum", "momentum=0.5"])
def test_dense_path_agrees(spec):
    """The structured and the dense solver bracket the same optimum."""
    workload = parse_workload(spec, 40)
    for objective in Objective:
        a, b = solve(workload, objective, 1e-8), solve(matrix_workload(dense(workload)), objective, 1e-8)
        assert a.lower <= b.upper
        assert b.lower <= a.upper
        assert math.isclose(a.upper, b.upper, rel_tol=2e-8)


@given(T=st.integers(1, 25), seed=st.integers(0, 2**32 - 1), tolerance=st.floats(1e-6, 0.5))
@settings(max_examples=30, deadline=None)
def test_bracket_holds_the_optimum(T, seed, tolerance):
    """Loose brackets contain tight ones, for random schedules with momentum."""
    generator = np.random.default_rng(seed)
    workload = schedule_workload(generator.uniform(0.1, 1.0, T), generator.choice([0.0, 0.5]))
    loose, tight = solve(workload, MEAN, tolerance), solve(workload, MEAN, 1e-8)
    assert loose.lower <= tight.upper
    assert tight.lower <= loose.upper
    assert lower_bound(workload, MEAN) <= tight.upper


@given(scale=st.floats(1e-6, 1e6), T=st.integers(2, 20))
@settings(max_examples=20, deadline=None)
def test_scaling(scale, T):
    """s A has s^2 times the error of A, whatever way it is given."""
    one = solve(Workload(T), MEAN).upper
    rates = solve(schedule_workload(np.full(T, scale)), MEAN).upper
    matrix = solve(matrix_workload(scale * dense(Workload(T))), MEAN).upper
    assert math.isclose(rates, scale**2 * one, rel_tol=1e-8)
    assert math.isclose(matrix, scale**2 * one, rel_tol=1e-8)


@given(T=st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_larger_size_larger_error(T):
    """One more row costs more, and the bound of equal weights is the closed nuclear norm."""
    for objective in Objective:
        assert solve(Workload(T), objective, 1e-8).upper < solve(Workload(T + 1), objective, 1e-8).lower
    j = np.arange(1, T + 1)
    nuclear = (0.5 / np.sin((2 * j - 1) * np.pi / (4 * T + 2))).sum()
    assert math.isclose(lower_bound(Workload(T), MEAN), (nuclear / T) ** 2, rel_tol=1e-10)
    assert math.isclose(lower_bound(Workload(T), MAX), (nuclear / T) ** 2, rel_tol=1e-10)


def test_iterations_of_the_theory():
    """18 steps at T = 32 and 41 at 8192 in a prototype, where the plain step takes 96 and 316."""
    assert solve(Workload(32), MEAN).iterations <= 20
    assert solve(Workload(8192), MEAN).iterations <= 45


def test_progress_and_resuming():
    """The last weights reported are where a new solve ends at once; halfway ones save half the steps."""
    steps = []
    whole = solve(Workload(100), MEAN, progress=lambda *step: steps.append(step))
    assert [i for i, _, _ in steps] == list(range(1, whole.iterations + 1))
    assert steps[-1][1] == whole.gap <= 1e-9 < steps[-2][1]
    assert solve(Workload(100), MEAN, start=whole.dual).iterations == 1
    half = solve(Workload(100), MEAN, start=steps[len(steps) // 2][2])
    assert half.iterations < whole.iterations
    assert math.isclose(half.upper, whole.upper, rel_tol=2e-9)


@pytest.mark.parametrize(
    "bad", [[1.0, 2.0], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1e-60, 1.0]]
)
def test_bad_start_is_refused(bad):
    """Weights to resume from must be positive and as many as T."""
    with pytest.raises(UsageError, match="weights to start from"):
        solve(Workload(3), MEAN, start=Dual(np.array(bad), np.ones(3)))


def test_unreachable_tolerance():
    """Where rounding alone is more than the tolerance there is no answer, and it says what was reached."""
    with pytest.raises(NoAnswerError, match="was certified; rounding alone may be") as refused:
        solve(Workload(4096), MEAN, 1e-13)
    assert refused.value.slug == "not-certified"
    reachable = float(refused.value.hint.split()[1])
    assert refused.value.hint == f"`tolerance` {reachable:g} can be reached"
    assert solve(Workload(4096), MEAN, reachable).gap <= reachable < 1e-9
    with pytest.raises(UsageError, match="tolerance"):
        solve(Workload(3), MEAN, 0.0)


def test_momentum_needs_no_square_array():
    """T = 2048 with momentum to 1e-9: a T x T array would be 32 MiB, the peak is below half."""
    tracemalloc.start()
    try:
        found = solve(parse_workload("momentum=0.9", 2048), MEAN)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.gap <= 1e-9
    assert peak < 2048**2 * 8 / 2


def least_error(T, objective):
    """The error over all lower-triangular C with columns of norm 1, by minimizers that know no bound."""
    a, lower = dense(Workload(T)), np.tril_indices(T)

    def rows(entries):
        c = np.zeros((T, T))
        c[lower] = entries
        c /= np.linalg.norm(c, axis=0)
        return ((a @ np.linalg.inv(c)) ** 2).sum(axis=1)

    start = (np.eye(T) + 0.1 * a)[lower]
    if objective is MEAN:
        return minimize(lambda c: rows(c).mean(), start, method="BFGS", options={"gtol": 1e-9}).fun
    above_all_rows = {"type": "ineq", "fun": lambda x: x[-1] - rows(x[:-1])}
    found = minimize(
        lambda x: x[-1], [*start, rows(start).max()], method="SLSQP", constraints=above_all_rows, tol=1e-13
    )
    return rows(found.x[:-1]).max()


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("T", [2, 5, 12])
def test_no_minimizer_beats_the_bound(T, objective):
    """A general-purpose minimizer comes down to the certified optimum, and not below."""
    found = solve(Workload(T), objective)
    assert found.lower * (1 - 1e-12) <= least_error(T, objective) <= found.upper * (1 + 1e-7)


def nuclear_certificate(workload, dual):
    """h^2 / (sum v sum u), by a dense singular value decomposition."""
    w = np.sqrt(dual.rows)[:, None] * dense(workload) * np.sqrt(dual.columns)
    return np.linalg.svd(w, compute_uv=False).sum() ** 2 / (dual.columns.sum() * dual.rows.sum())


@pytest.mark.parametrize(("T", "momentum"), [(64, 0.0), (64, 0.9), (200, 0.99)])
@pytest.mark.parametrize("schedule", ["none", "cosine", "linear", "random"])
def test_weights_that_vanish(T, momentum, schedule):
    """Strong momentum and schedules leave columns that the worst row hardly sees: 1e-9 all the same."""
    t = np.arange(T)
    rates = {
        "none": np.ones(T),
        "cosine": 0.5 + 0.5 * np.cos(np.pi * (t + 0.5) / T),
        "linear": 1.0 - t / T,
        "random": np.random.default_rng(0).uniform(0.1, 1.0, T),
    }[schedule]
    workload = schedule_workload(rates, momentum)
    found = solve(workload, MAX)
    assert found.gap <= 1e-9
    assert found.iterations < 200
    assert math.isclose(found.lower, nuclear_certificate(workload, found.dual), rel_tol=1e-10)
    factors = dense_factors(factorization_of(workload, MAX, found.dual))
    np.testing.assert_allclose(factors.B @ factors.C, dense(workload), atol=1e-11 * found.upper**0.5)
    rows, columns = (factors.B**2).sum(axis=1), (factors.C**2).sum(axis=0)
    assert found.lower <= rows.max() * columns.max() * (1 + 1e-12) <= found.upper * (1 + 1e-8)
    assert found.upper >= np.abs(dense(workload)).max() ** 2  # gamma_2 is at least the largest entry


@given(T=st.integers(1, 12), seed=st.integers(0, 2**32 - 1), diagonal=st.floats(0.01, 10.0))
@settings(max_examples=40, deadline=None)
def test_any_matrix(T, seed, diagonal):
    """Random lower-triangular workloads, most of them with weights that vanish for the max error."""
    random = np.random.default_rng(seed)
    a = np.tril(random.normal(size=(T, T)))
    np.fill_diagonal(a, diagonal * random.uniform(0.5, 1.0, T))
    for objective in Objective:
        found = solve(matrix_workload(a), objective)
        assert found.gap <= 1e-9
        assert found.lower <= found.upper
        assert found.lower <= (np.abs(a).sum(axis=1) ** 2).max() * (1 + 1e-12)  # B = A, C = 1 has no more


def test_one_entry_rules():
    """With momentum 0.999 for 64 rows the last row's first entry is the optimum: one weight remains."""
    found = solve(parse_workload("momentum=0.999", 64), MAX)
    first = (1.0 - 0.999**64) / (1.0 - 0.999)
    assert math.isclose(found.upper, first**2, rel_tol=1.1e-9)


def test_going_on_where_weights_vanish():
    """Weights of any step save steps, and those of Newton's method most of them."""
    workload = parse_workload("momentum=0.9", 64)
    steps = []
    whole = solve(workload, MAX, progress=lambda *step: steps.append(step))
    assert solve(workload, MAX, start=whole.dual).iterations == 1
    for back, most in ((whole.iterations // 2, whole.iterations), (8, 20), (4, 12)):
        again = solve(workload, MAX, start=steps[-back][2])
        assert again.iterations < most
        assert again.gap <= 1e-9
        assert math.isclose(again.upper, whole.upper, rel_tol=2e-9)


@pytest.mark.parametrize("spec", ["prefix-sum", "momentum=0.9"])
@pytest.mark.parametrize("objective", list(Objective))
def test_semidefinite_programming(objective, spec):
    """min t: A^T A (or each row of A) against X, by an interior point solver for semidefinite programs."""
    cvxpy = pytest.importorskip("cvxpy", reason="cvxpy comes with csgm-cli[test]")
    for T in (2, 5, 10):
        workload = parse_workload(spec, T)
        a = dense(workload)
        x = cvxpy.Variable((T, T), symmetric=True)
        rows = [cvxpy.matrix_frac(a[i], x) for i in range(T)]
        error = sum(rows) / T if objective is MEAN else cvxpy.maximum(*rows)
        problem = cvxpy.Problem(cvxpy.Minimize(error), [cvxpy.diag(x) <= 1])
        assert math.isclose(problem.solve(solver="CLARABEL"), solve(workload, objective).upper, rel_tol=1e-6)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("sizes", [(1, 1e-12, 1e12), (1e15, 1e-15, 1), (1e15, 1, 1e-15), (1e-15, 1e15, 1)])
def test_columns_that_are_nothing_beside_others(sizes, objective):
    """A decomposition may find nothing at all of a column: 1e-9 all the same, between two simple bounds."""
    a = np.tril(np.ones((3, 3))) * np.array(sizes)
    found = solve(matrix_workload(a), objective)
    assert found.gap <= 1e-9
    rows, column = (a**2).sum(axis=1), np.argmax(sizes)
    # No less than by the largest column alone, no more than B = A, C = 1 has.
    most = rows.mean() if objective is Objective.MEAN else rows.max()
    alone = (a[:, column] ** 2).mean() if objective is Objective.MEAN else (a[:, column] ** 2).max()
    assert alone * (1 - 1e-9) <= found.lower <= most * (1 + 1e-9)
