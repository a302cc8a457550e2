"""Workloads: what their structure says against the matrix written out, and what is refused."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli import factorize, inspect_arrays, norms_of_arrays
from csgm_cli.errors import UsageError
from csgm_cli.factorization import matrix_workload, parse_workload, schedule_workload
from csgm_cli.factorization.workload import (
    apply,
    column_norms_squared,
    dense,
    row_norms_squared,
    series,
    structure,
)


def sgd(rates, momentum):
    """Row t: the model after t+1 steps of SGD with momentum, as a function of the gradients."""
    T = len(rates)
    a, buffer = np.zeros((T, T)), np.zeros(T)
    model = np.zeros(T)
    for t in range(T):
        buffer = momentum * buffer
        buffer[t] += 1.0
        model = model + rates[t] * buffer
        a[t] = model
    return a


@given(
    rates=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=12),
    momentum=st.one_of(st.just(0.0), st.floats(0.01, 0.99)),
)
def test_structure(rates, momentum):
    """Products, norms and bounds of SGD with a schedule are those of the matrix written out."""
    workload, a = schedule_workload(rates, momentum), sgd(rates, momentum)
    T = len(rates)
    np.testing.assert_allclose(dense(workload), a, rtol=1e-13)
    np.testing.assert_allclose(apply(workload, np.arange(1.0, T + 1)), a @ np.arange(1.0, T + 1), rtol=1e-13)
    np.testing.assert_allclose(row_norms_squared(workload), (a**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(column_norms_squared(workload), (a**2).sum(axis=0), rtol=1e-12)
    v, u = np.linspace(1, 2, T), np.linspace(3, 1, T)
    for s, k in ((structure(workload), a), (structure(workload).flipped, a[::-1, ::-1].T)):
        eigenvalues = np.linalg.svd(np.sqrt(u)[:, None] * k * np.sqrt(v), compute_uv=False) ** 2
        assert s.trace_bound(v, u) >= eigenvalues.sum() * (1 - 1e-12)
        assert s.inverse_norm_bound(v, u) >= (1 - 1e-9) / eigenvalues[-1]


@pytest.mark.parametrize("spec", ["prefix-sum", "momentum=0.9", "momentum=0"])
def test_named(spec):
    """Names and first columns."""
    workload = parse_workload(spec, 7)
    a = sgd(np.ones(7), 0.9 if spec == "momentum=0.9" else 0.0)
    np.testing.assert_allclose(series(workload), a[:, 0], rtol=1e-14)
    assert workload.is_toeplitz
    assert workload.name == ("momentum=0.9" if spec == "momentum=0.9" else "prefix-sum")


def test_names():
    """Each structure says what it is."""
    assert schedule_workload([1.0, 0.5]).name == "learning-rates"
    assert schedule_workload([1.0, 0.5], 0.5).name == "momentum=0.5,learning-rates"
    assert schedule_workload([1.0, 1.0]).name == "prefix-sum"
    assert matrix_workload(np.eye(2)).name == "matrix"


@pytest.mark.parametrize("T", [0, -3, 2.5, float("nan"), 1e9])
def test_sizes_refused(T):
    """T is a whole number of rows."""
    with pytest.raises(UsageError, match="T must be"):
        parse_workload("prefix-sum", T)


@pytest.mark.parametrize(
    ("spec", "slug"),
    [
        ("prefix", "unknown-workload"),
        ("momentum", "unknown-workload"),
        ("momentum=", "not-a-number"),
        ("momentum=x", "not-a-number"),
        ("momentum=1", "out-of-range"),
        ("momentum=-0.1", "out-of-range"),
        ("momentum=nan", "out-of-range"),
        ("", "unknown-workload"),
    ],
)
def test_words_refused(spec, slug):
    """One error for each kind of wrong word."""
    with pytest.raises(UsageError) as refused:
        parse_workload(spec, 4)
    assert refused.value.slug == slug


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (np.zeros((0, 0)), "square"),
        (np.ones(3), "square"),
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, np.nan], [0, 1]]), "finite"),
        (np.array([[1.0, 0], [np.inf, 1]]), "finite"),
        (np.triu(np.ones((3, 3))), r"lower-triangular .*entry \(0, 1\)"),
        (np.array([[1.0, 0], [1, 0]]), "singular: its diagonal is 0 in row 1"),
        (np.array([[None, 0], [1, 1]], dtype=object), "real numbers"),
        (np.eye(2, dtype=complex), "real numbers"),
        (np.eye(2, dtype=bool), "real numbers"),
    ],
)
def test_matrices_refused(matrix, says):
    """One line that names what is wrong."""
    with pytest.raises(UsageError, match=says):
        matrix_workload(matrix)


@pytest.mark.parametrize("rates", [[], [1.0, 0.0], [1.0, -1.0], [np.nan], [[1.0]], ["a"]])
def test_schedules_refused(rates):
    """Learning rates are positive numbers in one row."""
    with pytest.raises(UsageError):
        schedule_workload(rates)


def test_inputs_are_copied():
    """A workload does not change with the array it was made of."""
    matrix, rates = np.eye(2), np.array([1.0, 2.0])
    workload, schedule = matrix_workload(matrix), schedule_workload(rates)
    matrix[1, 0] = rates[0] = 5.0
    assert workload.matrix[1, 0] == 0.0
    assert schedule.learning_rates[0] == 1.0


def test_checks_of_a_matrix_take_little_memory():
    """Beside its own copy, a workload takes a few rows while it is checked."""
    matrix = np.tri(1000)
    tracemalloc.start()
    try:
        matrix_workload(matrix)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * matrix.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rows", [2, 2.0, np.int64(2)])
def test_a_number_of_rows_is_prefix_sums(rows):
    """B = A, C = 1 has the errors 1 and 2 of the two rows, wherever a workload is taken."""
    arrays = {"B": np.tril(np.ones((2, 2))), "C": np.eye(2)}
    for found in (factorize(rows, "identity"), inspect_arrays(rows, arrays, "max", "identity")):
        assert (found.T, type(found.T), found.workload.name) == (2, int, "prefix-sum")
        assert (found.mean_squared_error, found.max_squared_error) == (1.5, 2.0)
    assert norms_of_arrays(rows, arrays).rows.last_squared == 2.0


@pytest.mark.parametrize("wrong", ["prefix-sum", "momentum=0.9", None, True, [[1.0]], np.eye(2)])
def test_what_is_no_workload_is_told_how_to_make_one(wrong):
    """The hint names the function for every other workload."""
    with pytest.raises(UsageError) as caught:
        factorize(wrong)
    assert caught.value.slug == "invalid-type"
    assert caught.value.message.startswith("workload must be a Workload or a number of rows, got ")
    assert "parse_workload(" in caught.value.hint


@pytest.mark.parametrize("rows", [0, -1, 2.5, 10**9, float("nan")])
def test_a_number_of_rows_is_in_range(rows):
    """As T on the command line."""
    with pytest.raises(UsageError, match="T must be an integer in"):
        factorize(rows)
