"""BLT: closed forms against dense matrices, published values, and what normalized columns gain."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.factorization import equally_private, factor_norms, factorize, schedule_workload
from csgm_cli.factorization.matrices.semiseparable import dense_from
from csgm_cli.factorization.strategies.blt import (
    blt_generators,
    blt_points,
    normalized_points,
    plain_error,
)
from csgm_cli.model.factorization import Objective, Workload
from csgm_cli.model.participation import Participation

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "blt.json").read_text(encoding="utf-8"))


def drawn_points(seed, buffers):
    """Points at random: any that increase are interlaced."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.uniform(-8, -2) + np.cumsum(rng.uniform(0.05, 1.5, 2 * buffers)))


def plain_factors(points, T):
    """B and C by power series: poles and zeros are the roots in (0, 1) of (1 - x)^2 = point x."""
    roots = np.array([min(np.roots([1.0, -2.0 - point, 1.0]).real) for point in points])
    shift = np.eye(T, k=-1)
    c = np.eye(T)
    for pole, zero in zip(roots[::2], roots[1::2], strict=True):
        c = c @ (np.eye(T) - zero * shift) @ np.linalg.inv(np.eye(T) - pole * shift)
    return np.tril(np.ones((T, T))) @ np.linalg.inv(c), c


@given(T=st.integers(1, 40), buffers=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_closed_forms_are_those_of_the_matrices(T, buffers, seed):
    """Errors of the plain form, and C of both forms."""
    points = drawn_points(seed, buffers)
    b, c = plain_factors(points, T)
    rows, columns = (b**2).sum(axis=1), np.linalg.norm(c, axis=0)
    for objective, row in ((Objective.MEAN, rows.mean()), (Objective.MAX, rows.max())):
        error = plain_error(points, Workload(T), objective)
        np.testing.assert_allclose(error, columns[0] ** 2 * row, rtol=1e-9)
    error = plain_error(points, Workload(T, epochs=3), Objective.MEAN)
    np.testing.assert_allclose(error, columns[0] ** 2 * (rows.mean() + rows[-1]), rtol=1e-9)
    plain, normalized = (blt_generators(points, T, normalized=normalized) for normalized in (False, True))
    np.testing.assert_allclose(dense_from(plain), c / columns[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dense_from(normalized), c / columns, rtol=1e-9, atol=1e-12)


@given(T=st.integers(1, 40), buffers=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_normalized_columns_lengthen_no_row(T, buffers, seed):
    """The theorem of `normalized_points`, for any points."""
    b, c = plain_factors(drawn_points(seed, buffers), T)
    norms = np.linalg.norm(c, axis=0)
    normalized = np.tril(np.ones((T, T))) @ np.diag(norms) @ np.linalg.inv(c)
    shorter = np.linalg.norm(normalized, axis=1) <= norms[0] * np.linalg.norm(b, axis=1) * (1 + 1e-12)
    assert shorter.all()


@pytest.mark.parametrize("case", REFERENCE["blt"], ids=str)
def test_errors_of_the_reference(case):
    """The optimum over all poles and zeros, to nine digits."""
    found = factorize(case["T"], f"blt:{case['N']}", case["objective"])
    assert found.squared_error == pytest.approx(case["error"], rel=1e-9)
    assert found.generators.decays.shape == (case["T"], case["N"])


@pytest.mark.parametrize("case", REFERENCE["jax_privacy"], ids=str)
def test_at_most_the_error_of_jax_privacy(case):
    """Of the buffered Toeplitz factors that it optimizes for the max error."""
    found = factorize(case["T"], f"blt:{case['N']}", "max")
    assert found.max_squared_error <= case["error"] * (1 + 1e-7)


@pytest.mark.parametrize("case", REFERENCE["normalized"], ids=str)
def test_normalized_errors_of_the_reference(case):
    """At most 1e-4 above the optimum, and not below it by more than its rounding."""
    found = factorize(case["T"], f"blt-normalized:{case['N']}", case["objective"])
    assert case["error"] * (1 - 1e-5) < found.squared_error < case["error"] * (1 + 1e-4)


@given(T=st.integers(1, 40), buffers=st.integers(1, 4), seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_participations_count_by_their_joint_sensitivity(T, buffers, seed, data):
    """The squared norm of the sum of columns 0, b, 2b, ... of the matrix, over their number."""
    b = data.draw(st.integers(1, T))
    k = data.draw(st.integers(1, -(-T // b)))
    points = drawn_points(seed, buffers)
    B, C = plain_factors(points, T)
    joint = (C[:, : k * b : b].sum(axis=1) ** 2).sum()
    rows = (B**2).sum(axis=1)
    for objective, row in ((Objective.MEAN, rows.mean()), (Objective.MAX, rows.max())):
        error = plain_error(points, Workload(T), objective, Participation(k, b))
        np.testing.assert_allclose(error, joint / k * row, rtol=1e-8)


@pytest.mark.parametrize(
    ("T", "k", "b", "errors"),
    [(512, 16, 32, (16.68, 16.68)), (1024, 4, 256, (11.14, 11.12)), (2000, 20, 100, (22.84, 22.84))],
)
def test_errors_for_several_participations(T, k, b, errors):
    """Of an independent prototype, with 2 and 3 buffers; more buffers are never worse."""
    found = [factorize(T, f"blt:{n}", participation=Participation(k, b)) for n in (1, 2, 3)]
    scaled = [equally_private(one).mean_squared_error for one in found]
    np.testing.assert_allclose(scaled[1:], errors, rtol=5e-4)
    assert scaled == sorted(scaled, reverse=True)
    C = dense_from(found[-1].generators)
    joint = (C[:, ::b].sum(axis=1) ** 2).sum()
    np.testing.assert_allclose(scaled[-1], found[-1].mean_squared_error * joint / k, rtol=1e-9)
    assert factor_norms(found[-1]).repeated.joint_sensitivity == pytest.approx(joint**0.5, rel=1e-9)


@pytest.mark.parametrize("objective", list(Objective))
def test_one_participation_is_none_again(objective):
    """The same poles, whatever the separation."""
    once = factorize(512, "blt:3", objective)
    found = factorize(512, "blt:3", objective, participation=Participation(1, 32))
    assert found.squared_error == once.squared_error
    assert equally_private(found).squared_error == pytest.approx(once.squared_error, rel=1e-12)
    np.testing.assert_array_equal(found.generators.decays, once.generators.decays)


def test_participations_that_are_refused():
    """More than T has room for, with a restart, in a fixed order, with bands, with normalized columns."""
    for slug, workload, spec, asked, bands in (
        ("too-many-participations", Workload(8), "blt:2", Participation(3, 4), None),
        ("conflicting-options", Workload(8, epochs=2), "blt:2", Participation(2, 4), None),
        ("conflicting-options", Workload(8), "blt:2", Participation(2, 4, fixed_order=True), None),
        ("conflicting-options", Workload(8), "blt:2", Participation(2, 4), 2),
        ("conflicting-options", Workload(8), "blt-normalized:2", Participation(2, 4), None),
        ("conflicting-options", Workload(8), "streaming:2", Participation(2, 4), None),
    ):
        with pytest.raises(UsageError) as refused:
            factorize(workload, spec, participation=asked, bands=bands)
        assert refused.value.slug == slug


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("T", [1, 2, 5, 100, 10**8])
def test_no_parameter_lowers_the_plain_error(T, objective):
    """Two per cent up or down on any pole or zero; T = 10^8 takes no longer than T = 100."""
    points = blt_points(Workload(T), objective, 3)
    least = plain_error(points, Workload(T), objective)
    for change in (0.98, 1.02):
        around = points * np.where(np.eye(6, dtype=bool), change, 1.0)
        around = around[(np.diff(around) > 0).all(axis=1)]  # still interlaced
        assert (plain_error(around, Workload(T), objective) >= least * (1 - 1e-7)).all()


@pytest.mark.parametrize("objective", list(Objective))
def test_tuned_for_many_rows(objective):
    """Tuned at fewer rows, the normalized form still gains over the plain form's poles."""
    workload, buffers = Workload(20_000), 4
    plain = blt_points(workload, objective, buffers)
    assert not np.array_equal(normalized_points(workload, objective, buffers), plain)
    found = factorize(workload, f"blt-normalized:{buffers}", objective)
    assert found.squared_error < plain_error(plain, workload, objective)


@pytest.mark.parametrize(
    ("workload", "spec", "slug"),
    [
        (Workload(8, 0.9), "blt:2", "not-prefix-sum"),
        (schedule_workload([1.0, 0.5]), "blt-normalized:2", "not-prefix-sum"),
        (Workload(8), "blt:17", "out-of-range"),
        (Workload(8), "blt-normalized:64", "out-of-range"),
        (Workload(8), "blt:0", "out-of-range"),
        (Workload(8), "blt", "streaming-buffers"),
    ],
)
def test_refusals(workload, spec, slug):
    """Other workloads than prefix sums, and numbers of buffers that do not help."""
    with pytest.raises(UsageError) as refused:
        factorize(workload, spec)
    assert refused.value.slug == slug
