"""Files of banded factorizations: what they say, what is refused, and what inspection finds."""

from dataclasses import replace

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.factorization import inspect_arrays
from csgm_cli.factorization.bands.measure import measured
from csgm_cli.model.factorization import Factorization, Objective, Strategy
from csgm_cli.model.participation import Participation
from csgm_cli.storage.factorizations import description_of, file_of

T, P = 12, 3


@pytest.fixture
def held(make_bands):
    """The file of a factorization with 3 bands, for 3 participations at least 4 steps apart."""
    bands = make_bands[0](np.random.default_rng(0), T, P)
    found = Factorization(
        csgm.Workload(T),
        Strategy("banded"),
        Objective.MEAN,
        *measured(csgm.Workload(T), bands),
        participation=Participation(3, 4),
        bands=P,
        band_matrix=bands,
    )
    return file_of(found, None, ("bands",))


def saved(held, path, **changed):
    """The file as read, with other metadata; None leaves one out."""
    metadata = {name: value for name, value in {**held.metadata, **changed}.items() if value is not None}
    csgm.write_arrays(path, replace(held, metadata=metadata), force=True)
    return csgm.read_arrays(path)


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_counts_of_a_file(held, tmp_path, suffix, make_bands):
    """How often, how far apart and how many bands; the sensitivity is the largest column norm of C."""
    path = tmp_path / f"banded.{suffix}"
    csgm.write_arrays(path, held)
    said = description_of(csgm.read_arrays(path))
    assert (said.participation, said.bands) == (Participation(3, 4), P)
    norms = csgm.norms_of_file(path)
    C = make_bands[1](held.arrays["bands"])
    assert norms.sensitivity == pytest.approx(np.sqrt((C**2).sum(axis=0).max()), rel=1e-14)
    rows = ((np.tri(T) @ np.linalg.inv(C)) ** 2).sum(axis=1)
    assert norms.rows.mean_squared == pytest.approx(rows.mean(), rel=1e-12)
    assert norms.rows.largest == pytest.approx(np.sqrt(rows.max()), rel=1e-12)


def test_files_without_counts_say_nothing_of_participations(tmp_path):
    """As written so far: one participation, then a restart."""
    found = csgm.factorize(4)
    csgm.write_arrays(tmp_path / "once.npz", file_of(found, csgm.dense_factors(found), ("C",)))
    read = csgm.read_arrays(tmp_path / "once.npz")
    assert not {"participations", "min_separation", "bands"} & read.metadata.keys()
    assert description_of(read).participation is None


@pytest.mark.parametrize(
    ("changed", "slug"),
    [
        ({"participations": 4}, "too-many-participations"),
        ({"min_separation": 13, "participations": 2}, "too-many-participations"),
        ({"min_separation": 2}, "too-many-bands"),
        ({"bands": 5}, "too-many-bands"),
        ({"participations": None}, "broken-file"),
        ({"min_separation": None}, "broken-file"),
        ({"participations": None, "min_separation": None}, "broken-file"),
        ({"bands": None}, "broken-file"),
        ({"strategy": "optimal"}, "broken-file"),
        ({"participations": 2.0}, "broken-file"),
        ({"participations": True}, "broken-file"),
        ({"participations": "3"}, "broken-file"),
        ({"participations": 0}, "out-of-range"),
        ({"min_separation": -4}, "out-of-range"),
        ({"min_separation": 10**400}, "out-of-range"),
        ({"bands": 0}, "out-of-range"),
    ],
)
def test_counts_that_cannot_be_are_refused(held, tmp_path, changed, slug):
    """Before any array is looked at, with exit code 2."""
    read = saved(held, tmp_path / "bad.npz", **changed)
    with pytest.raises(csgm.UsageError) as refused:
        description_of(read)
    assert (refused.value.slug, refused.value.exit_status) == (slug, 2)


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        (lambda bands: bands.T.copy(), "shape-mismatch"),
        (lambda bands: np.where(np.arange(T) == T - 1, 0.5, bands), "out-of-range"),
        (lambda bands: -bands, "out-of-range"),
        (lambda bands: bands * 1e200, "out-of-range"),
        (lambda bands: bands * np.nan, "not-finite"),
    ],
)
def test_bands_that_are_none_are_refused(make_bands, change, slug):
    """Transposed, reaching beyond T, with a negative diagonal, or numbers that have no square."""
    bands = make_bands[0](np.random.default_rng(0), T, P)
    with pytest.raises(csgm.UsageError) as refused:
        inspect_arrays(csgm.Workload(T), {"bands": change(bands)})
    assert refused.value.slug == slug


def test_small_files_that_stand_for_huge_matrices_are_refused(held, tmp_path):
    """A dual of a fixed order is a T x T matrix, however few numbers it has."""
    T = 10**6
    changed = {
        "strategy": "fixed-order",
        "fixed_order": True,
        "T": T,
        "min_separation": T,
        "participations": 1,
    }
    metadata = {**held.metadata, **changed}
    del metadata["bands"]
    csgm.write_arrays(tmp_path / "huge.npz", csgm.ArrayFile({"class_dual": np.ones((1, T))}, metadata))
    with pytest.raises(csgm.UsageError) as refused:
        csgm.norms_of_file(tmp_path / "huge.npz")
    assert refused.value.slug == "too-large"


def test_bands_stand_alone(make_bands):
    """Beside another factor nobody would know which one makes the noise."""
    bands = make_bands[0](np.random.default_rng(0), T, P)
    for name, other in (("C", np.eye(T)), ("v", np.ones(T))):
        with pytest.raises(csgm.UsageError) as refused:
            inspect_arrays(csgm.Workload(T), {"bands": bands, name: other})
        assert refused.value.slug == "conflicting-arrays"
    with pytest.raises(csgm.UsageError) as refused:
        inspect_arrays(csgm.parse_workload("momentum=0.9", T), {"bands": bands})
    assert refused.value.slug == "no-banded-form"


def test_inspection_finds_the_least_separation(held, tmp_path):
    """Columns as far apart as there are bands share no row; an all-zero band does not count."""
    from csgm_cli.factorization_file import inspect_described

    read = saved(held, tmp_path / "b.npz")
    found = inspect_described(read, description_of(read), None)
    claims = {claim.name: claim for claim in found.claims}
    assert found.holds
    assert (claims["min_separation"].claimed, claims["min_separation"].computed) == (4, P)
    assert (claims["participations"].claimed, claims["bands"].computed) == (3, P)
    narrow = {"bands": held.arrays["bands"] * np.array([[1.0], [1.0], [0.0]])}
    found = inspect_arrays(csgm.Workload(T), narrow, participation=Participation(4, 2))
    assert {claim.name: claim.computed for claim in found.claims} == {
        "participations": 4,
        "min_separation": 2,
    }
    assert not inspect_arrays(csgm.Workload(T), dict(held.arrays), participation=Participation(4, 2)).holds


def test_learning_rates_scale_the_columns(make_bands):
    """B = S diag(rates) C^-1, S prefix sums."""
    rates = np.linspace(1, 0.1, T)
    bands = make_bands[0](np.random.default_rng(3), T, P)
    found = inspect_arrays(csgm.schedule_workload(rates), {"bands": bands})
    C = make_bands[1](bands)
    squared = (C**2).sum(axis=0).max()
    rows = ((np.tri(T) * rates @ np.linalg.inv(C)) ** 2).sum(axis=1)
    assert found.mean_squared_error == pytest.approx(squared * rows.mean(), rel=1e-12)
    assert found.max_squared_error == pytest.approx(squared * rows.max(), rel=1e-12)
    assert found.lower_bound <= found.mean_squared_error
