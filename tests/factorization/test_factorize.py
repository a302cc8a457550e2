"""Every strategy: reference values, the factors written out, and what does not apply."""

import math
from importlib import import_module
from itertools import pairwise
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.factorization import (
    default_tolerance,
    dense_factors,
    factorize,
    matrix_workload,
    parse_workload,
    schedule_workload,
)
from csgm_cli.factorization.factorize import optimal_rows
from csgm_cli.factorization.solve.oracle import Diagonals, oracle_for
from csgm_cli.factorization.solve.solver import solve
from csgm_cli.factorization.strategies import toeplitz, tree
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Objective, Strategy, StrategyName, Workload, strategy_named

MEAN, MAX = Objective.MEAN, Objective.MAX
BASELINES = {
    "toeplitz-sqrt": "sqrt_toeplitz",
    "toeplitz-sqrt-normalized": "sqrt_toeplitz_colnorm",
    "tree": "tree_plain",
    "honaker-online": "honaker_online",
    "honaker-full": "honaker_full",
    "identity": "independent_B=A",
    "output": "output_noise_C=A",
}
#: Excess over the optimum of N poles alone (docs/theory.md).
STREAMING = {
    (32, 2): 1.1e-2,
    (32, 3): 3e-4,
    (32, 4): 1e-5,
    (256, 4): 4.8e-4,
    (256, 6): 4.6e-6,
    (256, 8): 3.4e-8,
}
ALL = [f"{name.value}:3" if name.has_buffers else name.value for name in StrategyName if not name.is_repeated]


def direct_errors(workload, b, c):
    """Squared sensitivity, mean and largest error of B and C."""
    squared = float(((c.astype(float)) ** 2).sum(axis=0).max())
    rows = ((b.astype(float)) ** 2).sum(axis=1)
    return squared, squared * rows.mean(), squared * rows.max()


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_of_the_reference(reference, name):
    """Both errors of each baseline at every T of the reference file, to 1e-9."""
    seen = 0
    for T, values in reference["factorization"]["values"].items():
        expected = values.get(BASELINES[name])
        if expected is None:
            continue
        found = factorize(Workload(int(T)), strategy_named(name))
        assert math.isclose(found.mean_squared_error, expected["mse"], rel_tol=1e-9)
        if "max_sq" in expected:
            assert math.isclose(found.max_squared_error, expected["max_sq"], rel_tol=1e-9)
        seen += 1
    assert seen >= 9


def test_optimal_toeplitz_is_not_above_the_reference(reference):
    """The reference has local optima: ours is no worse."""
    seen = 0
    for T, values in reference["factorization"]["values"].items():
        if "optimal_toeplitz_mean" in values:
            found = factorize(Workload(int(T)), strategy_named("toeplitz-optimal"))
            assert found.mean_squared_error <= values["optimal_toeplitz_mean"]["mse"] * (1 + 1e-12)
            seen += 1
    assert seen >= 9


def test_no_toeplitz_factor_beats_the_square_root_in_the_worst_row():
    """For the max error ||b|| ||c|| >= sum a of b * c = a is attained by b = c = sqrt(a)."""
    for T in (2, 9, 200):
        best, root = (
            factorize(Workload(T), strategy_named(name), MAX)
            for name in ("toeplitz-optimal", "toeplitz-sqrt")
        )
        assert math.isclose(best.max_squared_error, root.max_squared_error, rel_tol=1e-10)


def test_anchor_of_the_paper():
    """T = 32, the sizes of the paper's experiments: values known to six digits."""
    printed = {
        "identity": 16.5,
        "output": 32,
        "tree": 15.1875,
        "honaker-online": 9.95791,
        "honaker-full": 4.95791,
        "toeplitz-sqrt": 4.04807,
        "toeplitz-sqrt-normalized": 3.67226,
        "toeplitz-optimal": 3.85316,
        "optimal": 3.57999071328,
    }
    for name, value in printed.items():
        found = factorize(Workload(32), strategy_named(name))
        assert math.isclose(found.mean_squared_error, value, rel_tol=2e-6 if name != "optimal" else 1e-9)
        assert math.isclose(found.rmse, math.sqrt(value), rel_tol=1e-6)
    assert factorize(Workload(32), strategy_named("tree")).sensitivity_squared == 6.0
    assert math.isclose(factorize(Workload(32), strategy_named("tree")).lower_bound, 3.350673, rel_tol=1e-6)


@pytest.mark.parametrize(("T", "buffers"), STREAMING)
def test_streaming_figures_of_the_theory(T, buffers):
    """A constant term beside N poles leaves at most half of the excess."""
    found = factorize(Workload(T), Strategy(StrategyName.STREAMING, buffers), tolerance=1e-11)
    assert 0 < found.gap <= STREAMING[T, buffers] / 2
    assert found.sensitivity_squared == 1.0
    assert found.generators.decays.shape == (T, buffers)


@pytest.mark.parametrize("T", [5, 50, 700])
def test_more_buffers_less_error(T):
    """The error falls with every buffer, to the optimum."""
    optimum = factorize(Workload(T), tolerance=1e-10)
    errors = [
        factorize(Workload(T), Strategy(StrategyName.STREAMING, n), optimum=optimum).mean_squared_error
        for n in range(1, 8)
    ]
    assert all(a > b for a, b in pairwise(errors) if a > optimum.lower_bound * (1 + 1e-9))
    assert errors[-1] < optimum.lower_bound * (1 + 1e-4)
    many = factorize(Workload(T), Strategy(StrategyName.STREAMING, 24), optimum=optimum)
    assert math.isclose(many.mean_squared_error, optimum.lower_bound, rel_tol=1e-9)


@pytest.mark.parametrize("objective", [MEAN, MAX])
def test_many_buffers_have_the_optimum(objective):
    """Beyond a dozen buffers, too, none does harm: 1000 rows are more than are tuned for."""
    optimum = factorize(Workload(1000), objective=objective)
    gaps = [
        factorize(Workload(1000), Strategy(StrategyName.STREAMING, n), objective, optimum=optimum).gap
        for n in (12, 20, 30)
    ]
    assert all(a >= b - 1e-9 for a, b in pairwise(gaps))  # the gap of the optimum
    assert gaps[-1] <= 1e-9


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("T", [1, 2, 3, 6, 21, 64])
def test_errors_are_those_of_the_factors(T, objective):
    """For every strategy the dense factors multiply to A and have the sensitivity and errors reported."""
    workload = Workload(T)
    optimum = factorize(workload, objective=objective)
    for spec in ALL:
        found = factorize(workload, strategy_named(spec), objective, optimum=optimum)
        factors = dense_factors(found)
        np.testing.assert_allclose(factors.B @ factors.C, dense(workload), atol=1e-12)
        squared, mean, worst = direct_errors(workload, factors.B, factors.C)
        tolerance = 2e-9 if spec == "optimal" else 1e-12
        assert math.isclose(squared, found.sensitivity_squared, rel_tol=1e-12)
        assert math.isclose(mean, found.mean_squared_error, rel_tol=tolerance)
        assert math.isclose(worst, found.max_squared_error, rel_tol=tolerance)
        assert found.squared_error == (
            found.mean_squared_error if objective is MEAN else found.max_squared_error
        )
        assert found.squared_error >= found.lower_bound
        assert found.lower_bound == optimum.lower_bound
        assert str(found.strategy) == spec
        numbers = (found.mean_squared_error, found.max_squared_error, found.lower_bound, found.gap)
        assert all(type(number) is float for number in numbers)  # what json can write


@given(
    T=st.integers(1, 30),
    momentum=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 2**32 - 1),
    scheduled=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_other_workloads(T, momentum, seed, scheduled):
    """Strategies that apply to schedules and momentum report the errors of their factors, too."""
    rates = np.random.default_rng(seed).uniform(0.2, 1.0, T)
    workload = schedule_workload(rates, momentum) if scheduled else Workload(T, momentum)
    specs = ["optimal", "identity", "output"]
    specs += ["streaming:2"] if momentum == 0 else []
    specs += ["toeplitz-sqrt", "toeplitz-sqrt-normalized"] if workload.is_toeplitz else []
    for spec in specs:
        found = factorize(workload, strategy_named(spec), tolerance=1e-8)
        factors = dense_factors(found)
        np.testing.assert_allclose(factors.B @ factors.C, dense(workload), rtol=1e-10, atol=1e-10)
        _, mean, worst = direct_errors(workload, factors.B, factors.C)
        assert math.isclose(mean, found.mean_squared_error, rel_tol=1e-6)
        assert math.isclose(worst, found.max_squared_error, rel_tol=1e-5)
        assert mean >= found.lower_bound * (1 - 1e-12)


@pytest.mark.parametrize("T", [1, 5, 13, 32, 100])
def test_trees_by_hand(T):
    """Padded trees: nodes from their definition, and least squares by the pseudo-inverse."""
    steps = np.arange(T)
    size = 1 << (T - 1).bit_length()
    c = []
    for h in range(size.bit_length()):
        c += [(steps >= a) & (steps < a + 2**h) for a in range(0, size, 2**h)]
    c = np.array([row for row in c if row.any()], dtype=float)
    np.testing.assert_array_equal(c, tree.nodes(T))
    assert (c.sum(axis=0) == tree.levels(T)).all()
    b = dense(Workload(T)) @ np.linalg.pinv(c)
    full = tree.row_errors(T, StrategyName.HONAKER_FULL)
    np.testing.assert_allclose(full, (b**2).sum(axis=1), rtol=1e-10)
    popcounts = [t.bit_count() for t in range(1, T + 1)]
    np.testing.assert_array_equal(tree.row_errors(T, StrategyName.TREE), popcounts)
    notices = factorize(Workload(T), strategy_named("tree")).notices
    assert [n.slug for n in notices] == ([] if size == T else ["tree-padded"])


def test_large_normalized_square_root():
    """The O(T) sum of exponentials is the direct O(T^2) one; its moments are the central binomials."""
    c = toeplitz.sqrt_series(Workload(2048))
    direct = toeplitz.normalized_row_errors(Workload(2048), c)
    np.testing.assert_allclose(toeplitz._normalized_rows_of_sums(c), direct, rtol=1e-11)
    nodes, weights = toeplitz.exponentials()
    for k in (0, 1, 7, 1000, 10**5):
        exact = float(mpmath.binomial(2 * k, k) / mpmath.mpf(4) ** k)
        assert math.isclose(weights @ nodes**k, exact, rel_tol=1e-12 + k * 2**-52)


def test_any_size():
    """Every strategy that is O(T) is there at a large T, in the order that small T have."""
    workload = Workload(20_000)
    specs = (
        "toeplitz-sqrt-normalized",
        "toeplitz-sqrt",
        "honaker-full",
        "honaker-online",
        "tree",
        "identity",
        "output",
    )
    optimum = factorize(workload, tolerance=1e-6)
    errors = [factorize(workload, strategy_named(spec), optimum=optimum).mean_squared_error for spec in specs]
    assert errors == sorted(errors)
    assert errors[0] > optimum.mean_squared_error
    assert math.isclose(errors[5], 10_000.5)


def test_generators_are_the_filter():
    """Run as the docstring says, the generators turn white noise z into C^-1 z."""
    T = 40
    found = factorize(Workload(T), strategy_named("streaming:3"))
    g, z = found.generators, np.random.default_rng(0).standard_normal(T)
    state, x = np.zeros(3), np.zeros(T)
    for t in range(T):
        x[t] = (z[t] - g.outputs[t] @ state) / g.diagonal[t]
        state = g.decays[t] * state + g.inputs[t] * x[t]
    np.testing.assert_allclose(x, dense_factors(found).C_inv @ z, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("workload", "spec", "slug"),
    [
        (Workload(4, 0.5), "tree", "not-prefix-sum"),
        (schedule_workload([1.0, 0.5]), "honaker-full", "not-prefix-sum"),
        (schedule_workload([1.0, 0.5]), "toeplitz-sqrt", "not-toeplitz"),
        (matrix_workload(np.eye(3)), "toeplitz-optimal", "not-toeplitz"),
        (Workload(4, 0.5), "streaming:2", "no-streaming-form"),
        (matrix_workload(np.eye(3)), "streaming:2", "no-streaming-form"),
        (Workload(70_000, 0.5), "toeplitz-sqrt-normalized", "too-large"),
    ],
)
def test_what_does_not_apply(workload, spec, slug):
    """Refused with the strategy and the workload named."""
    with pytest.raises(UsageError) as refused:
        factorize(workload, strategy_named(spec))
    assert refused.value.slug == slug
    assert spec.partition(":")[0].partition("-")[0] in refused.value.message.lower()


@pytest.mark.parametrize(
    "spec",
    ["", "optima", "streaming", "streaming:", "streaming:0", "streaming:65", "streaming:2.5", "tree:3"],
)
def test_strategies_refused(spec):
    """Unknown words, and buffers where there are none or too many."""
    with pytest.raises(UsageError):
        strategy_named(spec)


def test_momentum_of_zero_is_prefix_sum():
    """The same workload by another name has the same strategies."""
    assert factorize(parse_workload("momentum=0", 8), strategy_named("tree")).mean_squared_error == 6.5


def test_sizes_that_would_take_hours():
    """They are refused before anything is searched, and say what the most is and what to take instead."""
    with pytest.raises(UsageError, match="takes T up to 10000000, got 10000001") as refused:
        factorize(Workload(10**7 + 1), strategy_named("toeplitz-optimal"))
    assert refused.value.slug == "too-large"
    assert "toeplitz-sqrt-normalized" in refused.value.hint


def test_streaming_of_more_than_a_million_rows():
    """N numbers per row and no limit but memory: between the bound of equal weights and the square root."""
    T = 1_000_001
    found = factorize(Workload(T), strategy_named("streaming:4"), tolerance=0.5)
    assert found.generators.decays.shape == (T, 4)
    j = np.arange(1, T + 1)  # docs/theory.md: the nuclear norm of A over T
    equal_weights = (0.5 / np.sin((2 * j - 1) * np.pi / (4 * T + 2))).mean() ** 2
    toeplitz_sqrt = factorize(Workload(T), strategy_named("toeplitz-sqrt"), optimum=found).mean_squared_error
    assert equal_weights < found.lower_bound < found.mean_squared_error < toeplitz_sqrt


def test_larger_streams_have_larger_errors():
    """Each buffer brings the error nearer to the optimum, each row adds to it: at sizes of several blocks."""
    previous = [0.0] * 6
    for T in (40, 300, 2500):
        optimum = factorize(Workload(T), tolerance=1e-8)
        streams = [Strategy(StrategyName.STREAMING, n) for n in (1, 2, 3, 4, 6, 8)]
        errors = [factorize(Workload(T), s, optimum=optimum).mean_squared_error for s in streams]
        assert all(few > many for few, many in pairwise(errors) if few > optimum.lower_bound * (1 + 1e-9))
        assert errors[-1] >= optimum.lower_bound * (1 - 1e-12)
        assert all(error > before for error, before in zip(errors, previous, strict=True))
        previous = errors
    assert errors[-1] < optimum.mean_squared_error * (1 + 1e-4)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (Workload(100_000), 1e-9),
        (Workload(100_001), 1e-6),
        (Workload(30_000, 0.9), 1e-9),
        (Workload(30_001, 0.9), 1e-6),
        (matrix_workload(np.eye(2)), 1e-9),
    ],
)
def test_default_tolerance(workload, expected):
    """That of the command line and of a solve without one: looser where rounding leaves no less."""
    assert default_tolerance(workload) == expected


def test_no_tolerance_is_the_default_one():
    """The same certificate, by Python and by its number."""
    assert factorize(Workload(50)).lower_bound == factorize(Workload(50), tolerance=1e-9).lower_bound


@pytest.mark.parametrize(("relative", "absolute"), [(0.01, 0.0), (0.0, 1e-3)])
def test_row_norms_are_upper_bounds_however_the_oracle_errs(monkeypatch, relative, absolute):
    """Each is at least the right one where the oracle's entries are too small by the errors it admits."""
    workload = matrix_workload(dense(Workload(6)))
    found = solve(workload, MEAN)
    right = oracle_for(workload).diagonals(found.dual, 1e-15, rows=True)
    erring = Diagonals(right.columns, right.rows * (1 - relative) - absolute, relative, absolute)
    stub = SimpleNamespace(diagonals=lambda dual, accuracy, *, rows: erring)
    module = import_module("csgm_cli.factorization.factorize")  # the package has a function of that name
    monkeypatch.setattr(module, "oracle_for", lambda workload: stub)
    rows = optimal_rows(workload, found)
    exact = right.rows / found.dual.rows * found.column_scale
    assert (rows >= exact * (1 - 1e-12)).all()
    assert (rows <= exact * (1 + 3 * relative + 1e-12)).all()
