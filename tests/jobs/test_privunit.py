"""Rows of privunit-shuffle in a comparison: values, refusals, rows without an answer."""

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.jobs import privunit as module
from csgm_cli.jobs.compare import compare
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import FactorNorms, Target
from csgm_cli.model.mechanism_table import Geometry

TARGET = Target(1.0, 1e-6)
FULL = resolve_geometry(l2_norm=2.0, dim=10**6, cohort_size=1000)[0]
FACTORIZATION = FactorNorms(4, "prefix-sum", None, 1.0)
OPTIONS = {"gammas": [0.01], "rounds": 1, "adjacency": "replace-one", "with_privunit_shuffle": True}


@pytest.fixture(scope="module")
def found():
    """A comparison with every number of messages."""
    return compare(FULL, TARGET, **OPTIONS)


def test_rows_beside_the_reference(found, reference):
    """Errors are below those of the staircases, by at most 2 %, and scale with the norm squared."""
    (row,) = (r for r in reference["privunit"]["shuffle"] if (r["n"], r["eps"]) == (1000, 1.0))
    clones, single, *several = found.privunit_rows
    assert [r.messages for r in found.privunit_rows] == [1, 1, 8, 64, 512, 4096]
    assert [r.bound for r in found.privunit_rows] == ["shuffle-clones", *["privunit-blanket"] * 5]
    assert 0.98 * row["mse_clones"] <= clones.mse.total / 4 <= row["mse_clones"]
    assert 0.98 * row["mse_blanket"] <= single.mse.total / 4 <= row["mse_blanket"]
    assert single.mse.gaussian_total / 4 == pytest.approx(row["mse_gaussian_replace"], rel=1e-9)
    errors = [r.mse.total for r in (single, *several)]
    assert errors == sorted(errors, reverse=True)
    # Many messages: pi/2 times the Gaussian's error in the limit of large n (here 1.71).
    assert 1.5 < several[-1].mse.ratio < 2.0


def test_every_row_is_relative_to_the_gaussian_mechanism_beside_it(found):
    """One reference, at the same adjacency; the sphere is slightly better; bits are seeds."""
    gaussian = found.rows[0].calibration.mse.total
    for row in found.privunit_rows:
        assert row.mse.total == row.mse.privacy
        assert row.mse.ratio == pytest.approx(row.mse.total / gaussian, rel=1e-15)
        assert (1 - 1e-5) * row.mse.total < row.sphere_total < row.mse.total
        assert row.bits_per_client == 128 * row.messages
        assert row.server_epsilon == row.messages * row.local_epsilon
        assert row.assumptions == ("trusted-shuffler", "prg-computational", "no-trusted-server")
        assert (row.epsilon, row.delta) == (TARGET.epsilon, TARGET.delta)
        assert "replacing one client's vector" in row.statement


def test_only_one_message_is_called_proven(found):
    """What rests on floating-point transforms or on a cited bound is labelled numerical."""
    proofs = {(row.messages == 1, row.bound): row.proof for row in found.privunit_rows}
    assert proofs == {
        (True, "privunit-blanket"): "privacy-blanket",
        (True, "shuffle-clones"): "shuffle-clones-numerical",
        (False, "privunit-blanket"): "privacy-blanket-numerical",
    }


def test_other_rows_are_those_without_it(found):
    """Asking for more rows changes none of the others."""
    without = compare(FULL, TARGET, **{**OPTIONS, "with_privunit_shuffle": False})
    assert without.privunit_rows == ()
    assert (without.rows, without.notices) == (found.rows, found.notices)
    assert "<Comparison rows=9 " in repr(found)
    assert "privunit-shuffle, 8 messages" in found._repr_html_()


@pytest.mark.parametrize(
    ("changed", "slug"),
    [
        ({"adjacency": "add-remove"}, "privunit-adjacency"),
        ({"rounds": 2}, "privunit-rounds"),
        ({"rounds": 9, "sampling_rate": 0.5}, "privunit-sampling"),
        ({"rounds": None, "factorization": FACTORIZATION}, "privunit-factorization"),
        ({"with_privunit_shuffle": "yes"}, "invalid-type"),
    ],
)
def test_refusals(changed, slug):
    """Other settings than the rows' own are refused before anything is computed."""
    with pytest.raises(UsageError) as caught:
        compare(FULL, TARGET, **{**OPTIONS, **changed})
    assert caught.value.slug == slug


@pytest.mark.parametrize("geometry", [Geometry(2.0), Geometry(2.0, dim=9), Geometry(2.0, cohort_size=9)])
def test_sizes_are_needed(geometry):
    """Without them there is no error to compare."""
    with pytest.raises(UsageError) as caught:
        compare(geometry, TARGET, **OPTIONS)
    assert caught.value.slug == "missing-utility-inputs"


def test_rows_out_of_reach_are_left_out(monkeypatch):
    """At a large epsilon only the other mechanisms have an answer, and a notice says why."""
    monkeypatch.setattr(module, "_ROWS", module._ROWS[1:3])
    found = compare(FULL, Target(60.0, 1e-6), **OPTIONS)
    assert found.privunit_rows == ()
    assert [notice.slug for notice in found.notices] == ["privunit-left-out"] * 2
    assert "1 message " in found.notices[0].message
    assert "8 messages " in found.notices[1].message


def test_one_dimension_and_verification(found, monkeypatch):
    """No sphere in one dimension; a notice says that --verify leaves these rows out."""
    monkeypatch.setattr(module, "_ROWS", module._ROWS[1:2])
    geometry, gaussian = Geometry(1.0, dim=1, cohort_size=50), found.rows[0].calibration
    (row,), notices = module.privunit_rows(geometry, TARGET, gaussian, verify=True)
    assert row.sphere_total is None
    assert [notice.slug for notice in notices] == ["privunit-not-verified"]
