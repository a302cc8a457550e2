"""``norms_of_file``: what a file says, held against what its arrays are."""

from dataclasses import replace
from zipfile import ZipFile

import pytest

import csgm_cli as csgm
from csgm_cli.storage.factorizations import file_of


@pytest.fixture
def momentum(tmp_path):
    """A factorization of another workload than prefix sums, and a file of it."""
    found = csgm.factorize(csgm.parse_workload("momentum=0.9", 6))
    held = file_of(found, csgm.dense_factors(found), ("B", "C"))
    csgm.write_arrays(tmp_path / "m.npz", held)
    return found, held, tmp_path


def test_norms_of_a_file(momentum):
    """Workload and strategy are those of the file, the norms those of the factorization in memory."""
    found, _, folder = momentum
    norms, expected = csgm.norms_of_file(folder / "m.npz"), csgm.factor_norms(found)
    assert (norms.workload, norms.strategy, norms.T) == ("momentum=0.9", "optimal", 6)
    assert norms.sensitivity == pytest.approx(expected.sensitivity, rel=1e-12)
    assert norms.rows.largest == pytest.approx(expected.rows.largest, rel=1e-9)
    assert norms.sha256 == csgm.read_arrays(folder / "m.npz").recorded_hash
    mechanism = csgm.Mechanism("gaussian", factorization=norms, epochs=2)
    answer = csgm.calibrate(mechanism, csgm.Target(3, 1e-6))
    twice = csgm.calibrate(csgm.Mechanism("gaussian", rounds=2), csgm.Target(3, 1e-6))
    assert answer.sigma == pytest.approx(twice.sigma * norms.sensitivity, rel=1e-9)


def test_claims_and_hash_of_a_file(momentum):
    """Scaled arrays, arrays of another workload and a file without its hash's content are refused."""
    _, held, folder = momentum
    larger = {**held.arrays, "B": held.arrays["B"] / 2, "C": held.arrays["C"] * 2}
    csgm.write_arrays(folder / "larger.npz", replace(held, arrays=larger))
    sums = replace(held, metadata={**held.metadata, "workload": "prefix-sum"})
    csgm.write_arrays(folder / "sums.npz", sums)
    files = (ZipFile(folder / "m.npz"), ZipFile(folder / "larger.npz"), ZipFile(folder / "edited.npz", "w"))
    with files[0] as saved, files[1] as other, files[2] as edited:
        edited.comment = saved.comment
        for name in saved.namelist():
            edited.writestr(name, (other if name == "C.npy" else saved).read(name))
    for name, slug in (("larger", "claim-failed"), ("sums", "claim-failed"), ("edited", "hash-mismatch")):
        with pytest.raises(csgm.UsageError) as refused:
            csgm.norms_of_file(folder / f"{name}.npz")
        assert refused.value.slug == slug
        assert f"{name}.npz" in refused.value.message


def test_files_that_are_not_there(tmp_path):
    """Reading is an error of storage; what is no path at all, of use."""
    with pytest.raises(csgm.StorageError):
        csgm.norms_of_file(tmp_path / "none.npz")
    with pytest.raises(csgm.UsageError):
        csgm.norms_of_file(5)
