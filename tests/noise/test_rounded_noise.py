"""Noise of a factorization that is rounded is larger by what that adds to its sensitivity."""

from dataclasses import fields

import mpmath
import numpy as np
import pytest

from csgm_cli import NoiseStream
from csgm_cli.errors import NoAnswerError
from csgm_cli.factorization import dense_factors, factorize, matrix_workload, schedule_workload
from csgm_cli.factorization.export import noise_matrix
from csgm_cli.factorization.matrices.semiseparable import cast, dense_from
from csgm_cli.model.factorization import Bands, Generators, strategy_named
from csgm_cli.model.participation import Participation
from csgm_cli.noise.streaming import rounded_down, rounded_sensitivity


@pytest.mark.parametrize("strategy", ["streaming:1", "streaming:4", "streaming:9"])
def test_sensitivity_of_rounded_generators(factorization, strategy):
    """The recursion has the column norms of the dense C, in either precision."""
    g = factorization(strategy, 70).generators
    for dtype in (np.dtype("float32"), np.dtype("float64")):
        parts = (part.astype(dtype).astype(float) for part in (g.decays, g.inputs, g.outputs, g.diagonal))
        c = dense_from(Generators(*parts))
        norm = float(np.sqrt((c * c).sum(axis=0).max()))
        assert norm <= rounded_sensitivity(g, dtype) <= norm * (1 + 1e-11)


@pytest.mark.parametrize("strategy", ["streaming:1", "streaming:4", "blt:2", "blt-normalized:3", "banded"])
def test_rounding_makes_no_entry_of_c_larger(factorization, strategy):
    """So that the noise need not be larger, for whatever participations it was calibrated."""
    found = factorization(strategy, 70)
    form = found.generators or Bands(found.band_matrix)
    lower = rounded_down(form, np.dtype("float32"))
    for field in fields(form):
        ours, theirs = getattr(lower, field.name), getattr(form, field.name)
        assert ours.dtype == np.float32
        assert (ours <= theirs).all()
        assert (ours >= theirs * (1 - 2.0**-22)).all()
    if found.generators is not None:
        assert (dense_from(cast(lower, np.float64)) <= dense_from(form) * (1 + 1e-13)).all()
    noises = [
        NoiseStream(factors, sigma=3, dim=9, on="sums", dtype="float32", seed=1) for factors in (found, lower)
    ]
    for ours, theirs in zip(*noises, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=3e-7)


def steep(slope):
    """A workload whose inverse grows like the powers of ``slope``: 1 on the diagonal, ``slope`` below it."""
    return factorize(matrix_workload(np.tril(np.full((8, 8), float(slope)), -1) + np.eye(8)))


@pytest.mark.parametrize("name", ["B", "C_inv"])
@pytest.mark.parametrize("slope", [1, 3, 7])
def test_rounding_a_matrix_is_paid_for(slope, name):
    """In float32 it is that of another C, whose sensitivity the noise must have: by an exact inverse."""
    found = steep(slope)
    matrix = getattr(dense_factors(found, "float32"), name)
    a = found.workload.matrix if name == "B" else np.eye(8)
    c = mpmath.matrix(matrix.tolist()) ** -1 * mpmath.matrix(a.tolist())
    sensitivity = float(max(mpmath.norm(c[:, j]) for j in range(8)))
    on = "sums" if name == "B" else "increments"
    first = NoiseStream(found, sigma=3.0, dim=1, on=on, dtype="float32", normals=lambda *_: [1.0])
    paid = float(first.next_round()[0]) / (3.0 * float(matrix[0, 0]))
    assert sensitivity * (1 - 1e-7) <= paid <= max(1.0, sensitivity) * (1 + 3e-7)
    assert sensitivity > 1.0001 or (slope, name) != (7, "B")  # there it can be told from rounding


@pytest.mark.parametrize("name", ["B", "C_inv"])
def test_rounding_a_fixed_order_is_paid_for(name):
    """Columns that one client touches are no longer orthogonal: their sum is longer than before."""
    found = factorize(128, "fixed-order", participation=Participation(64, 2))
    matrix, more = noise_matrix(found, name, "float32")
    exact = matrix.astype(float)
    c = np.linalg.solve(exact, np.tri(128) if name == "B" else np.eye(128))
    x = c.T @ c
    ours = found.factor.T @ found.factor
    for of in (lambda x: np.abs(x).sum(), lambda x: np.linalg.eigvalsh(x)[-1]):
        grown = max(of(x[at::2, at::2]) for at in (0, 1)) / max(of(ours[at::2, at::2]) for at in (0, 1))
        assert np.sqrt(grown) <= more * (1 + 1e-10)
    assert more < 1 + 1e-5


@pytest.mark.parametrize(("slope", "dtype"), [(10, "float32"), (100, "float32"), (100, "float64")])
def test_too_ill_conditioned_for_a_precision(slope, dtype):
    """Noise that would need far more sensitivity than C has is refused, as its file is."""
    found = steep(slope)
    with pytest.raises(NoAnswerError, match=f"too ill-conditioned for {dtype}"):
        NoiseStream(found, sigma=1.0, dim=8, on="sums", dtype=dtype)
    NoiseStream(found, sigma=1.0, dim=8, on="increments", dtype=dtype)


def test_rounding_learning_rates_is_paid_for():
    """B of sums at rates that float32 rounds down is that of a C with columns longer by half its last bit."""
    rates = np.array([1.0, 1.0 + 2.0**-24, 0.1])
    found = factorize(schedule_workload(rates), strategy_named("streaming:2"))

    def first(sigma, on):  # at rate 1 the noise on sums and on increments
        one = {"dtype": "float32", "normals": lambda *_: [1.0]}
        return NoiseStream(found, sigma=sigma, dim=1, on=on, **one).next_round()[0]

    larger = [first(sigma, "sums") > first(sigma, "increments") for sigma in np.linspace(1.0, 1.1, 40)]
    assert sum(larger) > 5  # in the others the next float32 is above both
