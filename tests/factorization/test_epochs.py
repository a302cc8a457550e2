"""Factors for several epochs: the error over all of them, and the certificate for it."""

import math

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.factorization import inspect_arrays, over_epochs, rounded
from csgm_cli.factorization_file import inspect_described
from csgm_cli.storage.factorizations import description_of, file_of, load_checkpoint, save_checkpoint


def sums(T, epochs):
    """Prefix sums, restarted."""
    return over_epochs(csgm.Workload(T), epochs)


def restarted(B, epochs):
    """Mean and largest squared norm of the rows of B in all epochs: [B 0; 1 b B ...], b its last row."""
    T, nodes = B.shape
    whole = np.zeros((T * epochs, nodes * epochs))
    for epoch in range(epochs):
        for before in range(epoch):
            whole[epoch * T : (epoch + 1) * T, before * nodes : (before + 1) * nodes] = B[-1]
        whole[epoch * T : (epoch + 1) * T, epoch * nodes : (epoch + 1) * nodes] = B
    rows = (whole**2).sum(axis=1)
    return rows.mean(), rows.max()


@pytest.mark.parametrize("key", ["512,16,32", "1024,4,256"])
def test_restarts_of_the_reference(reference, key):
    """The factor for all epochs, the one for a single epoch, and the trees."""
    _, epochs, T = map(int, key.split(","))
    expected = reference["banded"]["several_participations"][key]
    best = csgm.factorize(sums(T, epochs))
    assert best.gap <= 1e-9
    mean, worst = expected["restart, best factor for the whole run"]
    assert best.mean_squared_error == pytest.approx(mean, rel=1e-8)
    assert best.max_squared_error == pytest.approx(worst, rel=1e-4)
    for strategy in ("tree", "honaker-online"):
        found = csgm.factorize(sums(T, epochs), strategy, optimum=best)
        mean, worst = expected[f"{strategy} restart"]
        assert found.mean_squared_error == pytest.approx(mean, rel=1e-12)
        assert found.max_squared_error == pytest.approx(worst, rel=1e-12)
    once = csgm.dense_factors(csgm.factorize(T))
    mean, worst = expected["restart, mean-optimal T=b factor"]
    found = inspect_arrays(sums(T, epochs), {"B": once.B, "C": once.C})
    assert found.mean_squared_error == pytest.approx(mean, rel=1e-4)
    assert found.max_squared_error == pytest.approx(worst, rel=1e-4)


@pytest.mark.parametrize("strategy", ["optimal", "streaming:2", "tree", "toeplitz-optimal", "identity"])
def test_errors_are_those_of_all_rows_written_out(strategy):
    """Of the whole block-triangular B."""
    found = csgm.factorize(sums(6, 4), strategy)
    factors = csgm.dense_factors(found)
    mean, worst = restarted(factors.B, 4)
    squared = factors.sensitivity**2
    assert found.mean_squared_error == pytest.approx(squared * mean, rel=1e-9)
    assert found.max_squared_error == pytest.approx(squared * worst, rel=1e-9)
    assert (factors.mean_squared_error, factors.max_squared_error) == pytest.approx(
        (squared * mean, squared * worst), rel=1e-12
    )


def test_the_best_toeplitz_factor_gains_from_the_epochs():
    """It is better over all epochs than the one for a single epoch."""
    one = csgm.dense_factors(csgm.factorize(16, "toeplitz-optimal"))
    mean, _ = restarted(one.B, 8)
    found = csgm.factorize(sums(16, 8), "toeplitz-optimal")
    assert found.mean_squared_error < 0.97 * one.sensitivity**2 * mean
    assert found.lower_bound <= found.mean_squared_error


@pytest.mark.parametrize(("T", "epochs"), [(1, 5), (2, 3), (40, 10**9)])
def test_extreme_epochs_are_solved(T, epochs):
    """Also where only the last row counts, whose squared norm is at least 1, and 1 for C = A."""
    found = csgm.factorize(sums(T, epochs))
    assert found.gap <= 1e-9
    assert found.mean_squared_error >= (epochs - 1) / 2
    if T == 1:
        assert found.mean_squared_error == pytest.approx((epochs + 1) / 2, rel=1e-12)
    if epochs == 10**9:
        assert found.mean_squared_error == pytest.approx((epochs - 1) / 2, rel=1e-3)


def test_learning_rates_and_momentum_restart_too():
    """Certified for every structured workload; a matrix says nothing of later epochs."""
    for workload in (
        csgm.schedule_workload(np.linspace(1, 0.1, 12)),
        csgm.parse_workload("momentum=0.9", 12),
    ):
        found = csgm.factorize(over_epochs(workload, 5))
        assert found.gap <= 1e-9
        mean, _ = restarted(csgm.dense_factors(found).B, 5)
        assert found.mean_squared_error == pytest.approx(mean, rel=1e-7)
    with pytest.raises(csgm.UsageError) as refused:
        over_epochs(csgm.matrix_workload(np.tri(3)), 2)
    assert refused.value.slug == "matrix-epochs"
    with pytest.raises(csgm.UsageError) as refused:
        csgm.factorize(sums(4, 2), objective="max")
    assert refused.value.slug == "epochs-objective"


def test_a_file_says_its_epochs(tmp_path):
    """Claims are those of all epochs, and hold; a checkpoint is of one number of epochs."""
    workload = sums(8, 16)
    found, factors = rounded(csgm.factorize(workload))
    csgm.write_arrays(tmp_path / "f.npz", file_of(found, factors, ("B", "C", "v")))
    saved = csgm.read_arrays(tmp_path / "f.npz")
    said = description_of(saved)
    assert said.epochs == 16
    inspected = inspect_described(saved, said, None)
    assert inspected.holds
    assert (inspected.workload.epochs, inspected.gap <= 1e-9) == (16, True)
    norms = csgm.norms_of_file(tmp_path / "f.npz")
    assert math.isclose(norms.rows.mean_squared, (factors.B**2).sum() / 8, rel_tol=1e-9)
    save_checkpoint(str(tmp_path / "c.npz"), workload, found.objective, found.dual)
    assert load_checkpoint(str(tmp_path / "c.npz"), workload, found.objective) is not None
    with pytest.raises(csgm.UsageError) as refused:
        load_checkpoint(str(tmp_path / "c.npz"), sums(8, 2), found.objective)
    assert refused.value.slug == "other-problem"


@pytest.mark.parametrize(
    ("epochs", "slug"),
    [(0, "out-of-range"), (2.5, "broken-file"), ("16", "broken-file"), (-1, "out-of-range")],
)
def test_epochs_that_cannot_be_are_refused(tmp_path, epochs, slug):
    """Of a file of anybody's."""
    found = csgm.factorize(4)
    held = file_of(found, csgm.dense_factors(found), ("C",))
    held.metadata["epochs"] = epochs
    csgm.write_arrays(tmp_path / "f.npz", held)
    with pytest.raises(csgm.UsageError) as refused:
        description_of(csgm.read_arrays(tmp_path / "f.npz"))
    assert refused.value.slug == slug
