"""Banded factorizations beside restarts: the table of the reference, at equal privacy."""

import pytest

import csgm_cli as csgm
from csgm_cli.factorization import compare_participations
from csgm_cli.model.participation import Participation


def test_the_rows_of_the_reference(reference):
    """T = 512, 16 participations 32 steps apart: both errors of each scheme, and the bound of banded C."""
    expected = reference["banded"]["several_participations"]["512,16,32"]
    rows, notices = compare_participations(512, Participation(16, 32))
    found = {str(row.strategy): row for row in rows}
    names = {
        "banded": "banded optimal",
        "banded-toeplitz": "banded toeplitz",
        "optimal": "restart, best factor for the whole run",
        "tree": "tree restart",
        "identity": "identity",
    }
    for strategy, name in names.items():
        assert found[strategy].mean_squared_error == pytest.approx(expected[name][0], rel=1e-6)
        restarted = strategy in ("optimal", "tree")
        assert found[strategy].epochs == (16 if restarted else 1)
    assert found["optimal"].max_squared_error == pytest.approx(28.9734, rel=1e-5)
    assert found["fixed-order"].mean_squared_error < found["banded"].mean_squared_error
    assert len({row.lower_bound for row in rows}) == 2
    assert found["optimal"].gap == pytest.approx(17.414743 / 14.362305 - 1, rel=1e-5)
    assert all(row.sensitivity <= 1 for row in rows if row.strategy.name not in ("tree", "blt"))
    assert found["blt:3"].mean_squared_error == pytest.approx(16.68, rel=5e-4)
    assert found["blt:3"].gap == pytest.approx(16.685609 / 14.362305 - 1, rel=1e-5)
    assert [notice.slug for notice in notices] == ["sent-whole"]


def test_restarts_that_do_not_fit_are_said():
    """T = 20 takes three epochs of 8; with the max error the restarts still minimise the mean."""
    rows, notices = compare_participations(20, Participation(3, 8), objective="max")
    assert [notice.slug for notice in notices] == ["sent-whole", "restart-padded"]
    assert {row.objective for row in rows} == {"max"}
    assert min(rows, key=lambda row: row.max_squared_error).strategy.name == "banded"
    rates = csgm.schedule_workload([1.0, 0.5, 0.25, 0.2])
    rows, notices = compare_participations(rates, Participation(2, 2))
    assert [str(row.strategy) for row in rows] == ["fixed-order", "banded", "identity"]
    assert "learning rates" in " ".join(notice.message for notice in notices)
