"""Dense C for clients that come back in a fixed order: orthogonality, certificate, and files."""

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.factorization import inspect_arrays, rounded
from csgm_cli.factorization.fixed_order import pack_dual, problem_of, unpack_dual
from csgm_cli.factorization_file import inspect_described
from csgm_cli.model.participation import Participation
from csgm_cli.storage.factorizations import description_of, file_of


def solved(T, separation, workload=None, **options):
    """With as many participations as there is room for."""
    taken = Participation(-(-T // separation), separation)
    return csgm.factorize(workload or T, "fixed-order", participation=taken, **options)


@pytest.mark.parametrize(("T", "separation"), [(1, 1), (12, 4), (13, 5), (7, 1), (6, 9)])
def test_columns_of_one_client_are_orthonormal(T, separation):
    """Within each class of steps C^T C is the identity; C is lower-triangular, and B C = A."""
    found = solved(T, separation)
    C = found.factor
    X = C.T @ C
    steps = np.arange(T) % separation
    inside = steps[:, None] == steps
    assert X[inside] == pytest.approx(np.eye(T)[inside], abs=1e-11)
    assert (np.triu(C, 1) == 0).all()
    rows = ((np.tri(T) @ np.linalg.inv(C)) ** 2).sum(axis=1)
    assert found.mean_squared_error == pytest.approx(rows.mean(), rel=1e-10)
    assert found.max_squared_error == pytest.approx(rows.max(), rel=1e-10)
    assert found.gap <= 1e-6
    assert found.sensitivity <= 1


def test_between_the_bands_and_unequal_columns(reference):
    """Less error than bands, and more than with columns of unequal norms, which the reference has."""
    found = solved(64, 16)
    other = reference["banded"]["fixed_order_unequal_columns"]["64,4,16"]
    assert found.mean_squared_error >= other["mean"] / (1 + other["gap"])
    assert found.mean_squared_error < 1.06 * other["mean"]
    bands = csgm.factorize(64, "banded", participation=Participation(4, 16))
    assert found.lower_bound < 0.97 * bands.mean_squared_error
    assert solved(9, 1).mean_squared_error == pytest.approx(5, rel=1e-9)  # all orthogonal
    assert solved(9, 9).mean_squared_error == pytest.approx(csgm.factorize(9).mean_squared_error, rel=1e-6)


def test_any_dual_proves_a_bound_below_any_factor():
    """For random V, positive definite and 0 between classes, and the C of others."""
    rng = np.random.default_rng(0)
    problem = problem_of(csgm.Workload(12), 4)
    best = solved(12, 4)
    for _ in range(20):
        F = np.where(problem.inside, rng.normal(size=(12, 12)), 0) + 2 * np.eye(12)
        assert problem.lower_bound(F) <= best.mean_squared_error
        C = problem.factor(F)
        assert problem.error(C) >= best.lower_bound
        assert unpack_dual(pack_dual(F, 4), 4) @ unpack_dual(pack_dual(F, 4), 4).T == pytest.approx(F @ F.T)
    assert problem.lower_bound(unpack_dual(best.class_dual, 4)) == pytest.approx(best.lower_bound)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_files_are_inspected(tmp_path, precision):
    """Claims hold; columns that overlap, and a dual that is none, do not pass."""
    found, factors = rounded(solved(12, 4), precision, arrays=("C",))
    held = file_of(found, factors, ("C",))
    csgm.write_arrays(tmp_path / "f.npz", held)
    read = csgm.read_arrays(tmp_path / "f.npz")
    said = description_of(read)
    assert said.participation == Participation(3, 4, fixed_order=True)
    inspected = inspect_described(read, said, None)
    assert inspected.holds
    assert "orthogonality" in [claim.name for claim in inspected.claims]
    other = csgm.dense_factors(csgm.factorize(12)).C
    arrays = {"C": other, "class_dual": held.arrays["class_dual"]}
    optimal = inspect_arrays(12, arrays, strategy="optimal", participation=said.participation)
    assert optimal.lower_bound == pytest.approx(csgm.factorize(12).lower_bound)  # below that of its class
    claims = inspect_arrays(12, arrays, participation=said.participation).claims
    assert [claim.holds for claim in claims if claim.name == "orthogonality"] == [False]
    for broken in (-held.arrays["class_dual"], held.arrays["class_dual"][:2]):
        with pytest.raises(csgm.UsageError) as refused:
            inspect_arrays(12, {"C": other, "class_dual": broken}, participation=said.participation)
        assert refused.value.slug == "bad-dual"


def test_momentum_and_matrices_have_one_too():
    """Any workload, since all is dense; the max error and epochs do not."""
    for workload in (csgm.parse_workload("momentum=0.9", 10), csgm.matrix_workload(np.tri(10))):
        assert solved(10, 3, workload).gap <= 1e-6
    assert solved(10, 3, csgm.matrix_workload(np.tri(10))).mean_squared_error == pytest.approx(
        solved(10, 3).mean_squared_error, rel=2e-6
    )
    for options in ({"objective": "max"}, {"workload": csgm.Workload(8, epochs=2)}):
        with pytest.raises(csgm.UsageError) as refused:
            solved(8, 4, **options)
        assert refused.value.slug == "conflicting-options"
