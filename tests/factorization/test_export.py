"""Arrays as they are written: measured with 60 digits, on workloads of any condition."""

import numpy as np
import pytest
from mpmath import mp

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization import (
    factorize,
    inspect_arrays,
    matrix_workload,
    parse_workload,
    rounded,
    schedule_workload,
)
from csgm_cli.factorization.workload import dense
from csgm_cli.model.factorization import Objective, strategy_named

random = np.random.default_rng(5)
ILL = np.tril(random.normal(size=(30, 30)))
np.fill_diagonal(ILL, np.abs(ILL.diagonal()) + 0.1)


def with_many_digits(x):
    return [[mp.mpf(float(entry)) for entry in row] for row in x]


def product(a, x):
    return [[mp.fdot(row, column) for column in zip(*x, strict=True)] for row in a]


def quotient(b, a):
    """B^-1 A by forward substitution."""
    x = []
    for t, row in enumerate(b):
        x.append([(a[t][j] - mp.fdot(row[:t], [up[j] for up in x])) / row[t] for j in range(len(a))])
    return x


WORKLOADS = {
    "ill": matrix_workload(ILL),
    "rows apart": matrix_workload(ILL * np.geomspace(1e5, 1e-5, 30)[:, None]),
    "momentum": parse_workload("momentum=0.999", 30),
    "columns apart": matrix_workload(ILL * np.geomspace(1e5, 1e-5, 30)),
    "rates apart": schedule_workload(10.0 ** random.uniform(-8, 8, 30), 0.9),
}


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("name", WORKLOADS)
def test_noise_that_is_made_with_the_arrays(name, objective):
    """Noise A C_inv Z has the certified error with the sensitivity of C_inv^-1, B Z with that of B^-1 A: 1.

    No B in float64 stands for the C of workloads whose columns are far apart.
    """
    workload = WORKLOADS[name]
    found = factorize(workload, objective=objective)
    kept = ("C", "C_inv") if "apart" in name else ("B", "C", "C_inv")
    _, factors = rounded(found, tolerance=1e-9, arrays=kept)
    with mp.workdps(60):
        a, b, inverse = map(with_many_digits, (dense(workload), factors.B, factors.C_inv))
        noises = [(product(a, inverse), quotient(inverse, with_many_digits(np.eye(30))))]
        noises += [(b, quotient(b, a))] if "B" in kept else []
        for rows, c in noises:
            squared = max(mp.fdot(column, column) for column in zip(*c, strict=True))
            errors = [squared * mp.fdot(row, row) for row in rows]
            error = mp.fsum(errors) / 30 if objective is Objective.MEAN else max(errors)
            assert squared <= 1
            assert found.lower_bound * (1 - 1e-12) <= error <= found.lower_bound * (1 + 1.1e-9)


@pytest.mark.parametrize("name", ["columns apart", "rates apart"])
def test_what_can_be_written(name):
    """B is refused where noise B Z would need more than the sensitivity of C, and what remains is named."""
    found = factorize(WORKLOADS[name])
    with pytest.raises(NoAnswerError, match="B or C or C_inv would need more sensitivity") as caught:
        rounded(found)
    assert caught.value.hint == "`arrays` C,C_inv"
    rounded(found, arrays=("C", "C_inv"))


def test_float32_rows_and_columns_are_held_to_one():
    """Rounded up to 2^-24 relatively, the columns of C, summed exactly, are still at most 1."""
    for T in (1, 2, 33, 100):
        for spec in ("prefix-sum", "momentum=0.9"):
            found = factorize(parse_workload(spec, T), objective=Objective.MAX)
            for kept in (("B", "C"), ("C",), ("C_inv",), ("B", "C_inv"), ("B",)):
                measured, factors = rounded(found, "float32", arrays=kept, tolerance=1e-9)
                assert measured.sensitivity <= 1.0
                assert measured.gap <= 1.01e-6
                with mp.workdps(40):
                    c = with_many_digits(factors.C)
                    assert max(mp.fdot(column, column) for column in zip(*c, strict=True)) <= 1


def test_a_dual_that_is_not_good_enough():
    """The gap that is out of reach is named, and the tolerance that is not."""
    found = factorize(parse_workload("prefix-sum", 8), tolerance=1e-3)
    assert found.gap > 1e-8
    rounded(found, tolerance=1e-3)
    for kept in (("v",), ("B", "C")):
        with pytest.raises(NoAnswerError, match="would have a gap of") as caught:
            rounded(found, arrays=kept, tolerance=1e-8)
        assert "can be reached" in caught.value.hint


def test_output_and_identity_are_not_computed():
    """B = 1 times a number, and B = A, whatever the condition."""
    workload = matrix_workload(ILL)
    _, factors = rounded(factorize(workload, strategy_named("identity")), arrays=("B", "C"))
    np.testing.assert_array_equal(factors.B, ILL)
    _, factors = rounded(factorize(workload, strategy_named("output")), "float32", arrays=("B", "C"))
    np.testing.assert_array_equal(factors.B, factors.B[0, 0] * np.eye(30, dtype="float32"))
    np.testing.assert_array_equal(workload.matrix, ILL)


@pytest.mark.parametrize("rates", [[0.7], 10.0 ** random.uniform(-10, 10, 21)])
@pytest.mark.parametrize("arrays", [("B",), ("C_inv",), ("B", "C_inv"), ("B", "C")])
def test_the_identity_gives_way_to_rounding(rates, arrays):
    """Where float32 has less than A, C = B^-1 A is above the identity: B is made larger until it is not."""
    workload = schedule_workload(rates)
    found = factorize(workload, strategy_named("identity"))
    _, factors = rounded(found, "float32", arrays=arrays)
    if "C" not in arrays:
        inverted = "C_inv" in arrays  # then a reader has C from that
        of = with_many_digits(factors.C_inv if inverted else factors.B)
        c = quotient(of, with_many_digits(np.eye(len(rates)) if inverted else dense(workload)))
        assert max(mp.fsum(x * x for x in column) for column in zip(*c, strict=True)) <= 1 + 1e-14
    assert factors.B[0, 0] == pytest.approx(rates[0], rel=3e-7)


def test_an_inverse_beyond_float64():
    """Its squares overflow: refused, not written as infinity."""
    a = np.eye(600) - np.tril(np.full((600, 600), 4.0), -1) * np.eye(600, k=-1)
    found = factorize(matrix_workload(a), strategy_named("output"))
    with pytest.raises(UsageError, match=r"a row of C\^-1 is too large"):
        rounded(found)


def test_noise_that_would_need_more_sensitivity():
    """C_inv of an ill-conditioned C: in float32 there is the other precision, in float64 the other arrays."""
    a = np.tril(np.random.default_rng(0).normal(size=(100, 100)))
    found = factorize(matrix_workload(a), strategy_named("output"))
    for precision, hint in (("float32", "`dtype` float64"), ("float64", "`arrays` B,C")):
        with pytest.raises(NoAnswerError, match="too ill-conditioned") as caught:
            rounded(found, precision)
        assert caught.value.hint == hint
    rounded(found, arrays=("B", "C"))
    for kept in (("C_inv",), ("B", "C_inv")):
        with pytest.raises(NoAnswerError, match="too ill-conditioned for float32"):
            rounded(found, "float32", arrays=kept)


@pytest.mark.parametrize("strategy", ["output", "toeplitz-sqrt"])
@pytest.mark.parametrize("arrays", ["B", "C", "C_inv"])
@pytest.mark.parametrize("spread", [3, 4])
def test_what_rounding_leaves_of_a_strategy(strategy, arrays, spread):
    """Arrays are by their strategy for who inspects them, or are refused: float32 may not hold its errors."""
    momentum = parse_workload("momentum=0.999", 21)
    rates = 10.0 ** np.random.default_rng(0).uniform(-spread, spread, 21)
    workload = momentum if strategy == "toeplitz-sqrt" else schedule_workload(rates, 0.9)
    found = factorize(workload, strategy_named(strategy))
    try:
        written, factors = rounded(found, "float32", arrays=[arrays])
    except NoAnswerError:
        assert strategy == "output"
        return
    claims = inspect_arrays(workload, {arrays: getattr(factors, arrays)}, strategy=found.strategy).claims
    assert all(claim.holds for claim in claims)
    assert "strategy" in {claim.name for claim in claims}
    assert written.mean_squared_error == pytest.approx(found.mean_squared_error, rel=0.01)
