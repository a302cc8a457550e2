"""Grids, the paper's Figure 1, and the answer at one point."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.jobs.sweep import FIGURE_TARGET, MOST_POINTS, Grid, answer, check_question, figure_one
from csgm_cli.model.comparison import Question
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

MECHANISM = Mechanism("l2-csgm", 0.1, Geometry(9.0, 2.0, dim=1000, cohort_size=10), rounds=3)
axes = st.lists(st.lists(st.floats(1, 9), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)


@given(axes)
def test_grid_is_the_cartesian_product(values):
    """Points come in the order of itertools.product, each by its number."""
    names = "abcd"[: len(values)]
    grid = Grid(tuple(zip(names, values, strict=True)))
    expected = [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]
    assert list(grid) == expected
    assert [grid[i] for i in range(len(grid))] == expected
    assert grid[1:3] == expected[1:3]
    assert [list(point) for point in grid] == [list(names)] * len(grid)


def test_grid_has_an_end_and_a_limit():
    """Past the last point there is none, and a grid too large is refused before it is walked."""
    full = (("a", (1.0,) * MOST_POINTS),)
    assert len(Grid(full)) == MOST_POINTS
    with pytest.raises(IndexError):
        Grid((("a", (1.0,)),))[1]
    with pytest.raises(UsageError, match=f"{MOST_POINTS} x 2 = {2 * MOST_POINTS} points exceed"):
        Grid((*full, ("b", (1.0, 2.0))))


def test_figure_one_of_the_paper(reference):
    """Every reference point of both panels is a point of the preset."""
    points = {(p["gamma"], p["norm_ratio"]) for p in figure_one() if p["mechanism"] == "l2-csgm"}
    known = {(row["gamma"], row["norm_ratio"]) for row in reference["accounting"]["figure1"]}
    assert known <= points
    assert all(gamma == 0.01 or ratio == 1000.0 for gamma, ratio in points)
    assert {(row["epsilon"], row["delta"]) for row in reference["accounting"]["figure1"]} == {
        (FIGURE_TARGET.epsilon, FIGURE_TARGET.delta)
    }


@pytest.mark.parametrize(
    ("accountant", "curves", "levels"),
    [
        ("paper", ["paper"], ["paper", "exact"]),
        ("rdp", ["paper", "rdp"], ["paper", "rdp", "exact"]),
        ("tight", ["paper", "tight"], ["paper", "exact"]),
    ],
)
def test_accountants_of_figure_one(accountant, curves, levels):
    """Another accountant stands beside the paper's, and the Gaussian mechanism has a line for each kind."""
    points = figure_one(Accountant(accountant))
    by = lambda name: [p["accountant"] for p in points if p["mechanism"] == name]
    assert list(dict.fromkeys(by("l2-csgm"))) == curves
    assert by("gaussian") == levels
    assert len({tuple(point.items()) for point in points}) == len(points)


def test_figure_one_needs_a_bound():
    """No exact accountant exists for the curves."""
    with pytest.raises(UsageError, match="accountant exact"):
        figure_one(Accountant.EXACT)


def test_answer_is_what_calibrate_says():
    """Without noise the question is calibrate's, with all that it takes."""
    question = Question(MECHANISM, Accountant.RDP, 2.0, 1e-6, verify=True, value_bits=8)
    expected = calibrate(MECHANISM, Target(2.0, 1e-6), Accountant.RDP, verify=True, value_bits=8)
    assert answer(question) == expected
    assert expected.mse is not None


def test_answer_is_what_account_says():
    """With noise the question is account's; what the noise costs is there, but no MSE ratio."""
    asked = Question(MECHANISM, Accountant.RDP, None, 1e-6, (1.5, 3.0))
    found = answer(asked)
    assert (found.guarantee,) == account_epsilon(MECHANISM, 3.0, [1e-6], Accountant.RDP).guarantees
    assert (found.noise_multiplier, found.sigma, found.mse) == (1.5, 3.0, None)
    assert found.effective_noise_multiplier == pytest.approx(15.0)
    assert found.mean_noise_std == pytest.approx(3.0 / (10 * 0.1))
    delta = answer(replace(asked, epsilon=2.0, delta=None))
    assert (delta.guarantee,) == account_delta(MECHANISM, 3.0, 2.0, Accountant.RDP).guarantees


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"accountant": Accountant.EXACT}, "no-exact-accountant"),
        ({"epsilon": 0.0}, "out-of-range"),
        ({"delta": 1.0}, "out-of-range"),
    ],
)
def test_check_refuses_what_answer_refuses(change, slug):
    """A question that cannot be asked is refused by the check that searches nothing, as by the answer."""
    question = replace(Question(MECHANISM, Accountant.RDP, 2.0, 1e-6), **change)
    for refuse in (check_question, answer):
        with pytest.raises(UsageError) as caught:
            refuse(question)
        assert caught.value.slug == slug
