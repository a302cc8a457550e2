"""Banded optima and banded Toeplitz matrices: reference values, certificates, and other tools."""

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.factorization.bands.factorize import band_tolerance
from csgm_cli.model.factorization import Objective
from csgm_cli.model.participation import Participation


def solved(T, bands, strategy="banded", objective="mean", **options):
    """With as many steps of separation as bands."""
    return csgm.factorize(T, strategy, objective, participation=Participation(1, bands), **options)


@pytest.mark.parametrize("key", ["64,2", "64,32", "256,16", "1024,2", "1024,8"])
def test_optima_of_the_reference(reference, key):
    """Both errors to the accuracy of either side's certificate."""
    T, bands = map(int, key.split(","))
    expected = reference["banded"]["banded"][key]
    found = solved(T, bands)
    either = 1e-6 + expected["gap"]
    assert found.gap <= 1e-6
    assert found.mean_squared_error == pytest.approx(expected["mean"], rel=either)
    assert found.max_squared_error == pytest.approx(expected["max_row"], rel=1e-3)
    assert found.lower_bound <= expected["mean"] * (1 + 1e-12)
    assert found.sensitivity == pytest.approx(1, abs=1e-12)


def test_a_thousand_steps(reference):
    """T = 1024 with 32 bands: 23.993377, and no more than 100 steps of jax-privacy leave."""
    found = solved(1024, 32)
    assert found.mean_squared_error == pytest.approx(23.993377, rel=1e-6)
    (theirs,) = (
        row["mean"]
        for row in reference["banded"]["jax_privacy"]
        if (row["what"], row["T"], row["b"]) == ("banded", 1024, 32)
    )
    assert found.mean_squared_error <= theirs


def test_no_more_error_than_other_tools(reference):
    """Of 100 steps of jax-privacy's optimizer, and of its banded Toeplitz matrices."""
    for row in reference["banded"]["jax_privacy"]:
        T, bands = row["T"], row["b"]
        if row["what"] == "banded" and T <= 256:
            assert solved(T, bands).mean_squared_error <= row["mean"] * (1 + 1e-6)
        if row["what"] == "banded toeplitz":
            found = solved(T, bands, "banded-toeplitz", tolerance=1e-2)
            assert found.mean_squared_error <= row["mean"] * (1 + 1e-9)


@pytest.mark.parametrize("key", ["64,8", "256,64", "1024,2", "1024,8"])
def test_toeplitz_matrices_of_the_reference(reference, key):
    """The plain one, and its columns brought to norm 1."""
    T, bands = map(int, key.split(","))
    plain, normalised = reference["banded"]["toeplitz"][key]
    found = solved(T, bands, "banded-toeplitz", tolerance=1e-2)
    assert found.mean_squared_error == pytest.approx(plain, rel=1e-7)
    held = found.band_matrix
    assert all(np.ptp(row[: T - at]) == 0 for at, row in enumerate(held))
    squares = csgm.inspect_arrays(T, {"bands": held / np.sqrt((held**2).sum(axis=0))})
    assert squares.mean_squared_error == pytest.approx(normalised, rel=1e-7)
    assert found.lower_bound < found.mean_squared_error


def test_more_bands_have_less_error(reference):
    """T = 512: the published figures for 1, 2, ... bands; one band is independent noise."""
    expected = {1: 256.5, 2: 130.66, 4: 68.287, 8: 37.429, 16: 22.084, 32: 14.362305}
    for bands, error in expected.items():
        found = csgm.factorize(512, "banded", participation=Participation(16, 32), bands=bands)
        assert found.mean_squared_error == pytest.approx(error, rel=3e-5)
        assert found.bands == bands
    assert expected[32] == pytest.approx(
        reference["banded"]["several_participations"]["512,16,32"]["banded optimal"][0], rel=1e-6
    )


def test_all_bands_are_the_dense_optimum():
    """With T bands the class is that of all factorizations: the dense solver's dual agrees."""
    for objective, tolerance in (("mean", 1e-6), ("max", 5e-3)):
        dense = csgm.factorize(24, objective=objective)
        found = solved(24, 24, objective=objective)
        assert found.squared_error == pytest.approx(dense.squared_error, rel=tolerance)
        assert found.squared_error >= dense.lower_bound * (1 - 1e-12)
        assert found.lower_bound <= dense.squared_error * (1 + 1e-9)


@pytest.mark.parametrize("key", ["64,8", "256,16"])
def test_max_errors_of_the_reference(reference, key):
    """Not above the primal of a separate method, the bound not above it, and the gap as promised."""
    T, bands = map(int, key.split(","))
    expected = reference["banded"]["max"][key]
    found = solved(T, bands, objective="max")
    assert found.max_squared_error <= expected["primal"]
    assert found.lower_bound <= expected["primal"]
    assert found.gap <= 0.6 * band_tolerance(T, bands, Objective.MAX) == pytest.approx(3e-3)


def test_learning_rates_weigh_the_columns():
    """Certified; with rates that fall, B = A C^-1 of the same C."""
    rates = np.linspace(1, 0.1, 40)
    found = csgm.factorize(csgm.schedule_workload(rates), "banded", participation=Participation(8, 5))
    assert found.gap <= 1e-6
    factors = csgm.dense_factors(found)
    assert pytest.approx(np.tri(40) * rates, abs=1e-12) == factors.B @ factors.C
    assert (factors.B**2).sum() / 40 == pytest.approx(found.mean_squared_error, rel=1e-9)
    assert (factors.C[np.tri(40, k=-5) > 0] == 0).all()


def test_extreme_sizes():
    """One row, one band, one participation."""
    assert solved(1, 1).mean_squared_error == 1
    assert solved(1, 1, objective="max").max_squared_error == pytest.approx(1, rel=1e-12)
    assert solved(9, 1, objective="max").gap <= 5e-3
    assert solved(40, 3, objective="max").gap <= 5e-3
    assert solved(9, 1).mean_squared_error == pytest.approx(5, rel=1e-12)
    assert solved(9, 1, "banded-toeplitz").max_squared_error == pytest.approx(9, rel=1e-12)
    assert csgm.factorize(3, "banded", participation=Participation(1, 100)).bands == 3


@pytest.mark.parametrize(
    ("workload", "options", "slug"),
    [
        (csgm.parse_workload("momentum=0.9", 8), {}, "no-banded-form"),
        (csgm.matrix_workload(np.tri(8)), {}, "no-banded-form"),
        (csgm.Workload(8), {"bands": 5}, "too-many-bands"),
        (csgm.Workload(8), {"participation": None}, "missing-option"),
        (csgm.Workload(8), {"participation": Participation(3, 4)}, "too-many-participations"),
        (csgm.Workload(8), {"strategy": "optimal"}, "conflicting-options"),
        (csgm.Workload(8, epochs=2), {}, "conflicting-options"),
        (csgm.schedule_workload(np.arange(1.0, 9.0)), {"strategy": "banded-toeplitz"}, "not-toeplitz"),
        (csgm.Workload(64), {"tolerance": 1e-13, "objective": "max"}, "not-certified"),
    ],
)
def test_what_is_refused(workload, options, slug):
    """Each with its reason."""
    arguments = {"strategy": "banded", "participation": Participation(2, 4), **options}
    with pytest.raises(csgm.CsgmError) as refused:
        csgm.factorize(workload, **arguments)
    assert refused.value.slug == slug
