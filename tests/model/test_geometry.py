"""From what a user knows to norm_ratio and rounds."""

import math
from fractions import Fraction

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.model.geometry import resolve_geometry, rotation_linf_norm, rounds_from_participation
from csgm_cli.model.mechanism_table import Geometry


def slugs(notices):
    """The names of the notices, in order."""
    return [notice.slug for notice in notices]


def refused(**arguments):
    """The usage error that these arguments end in."""
    with pytest.raises(UsageError) as caught:
        resolve_geometry(**arguments)
    return caught.value


# ---------------------------------------------------------------- the three sources


@pytest.mark.parametrize(("dim", "expected"), [(10**6, 6.4e-3), (4 * 10**6, 3.3e-3)])
def test_rotation_rule_prints_the_papers_figures(dim, expected):
    """Delta_inf/Delta_2 = sqrt(2 ln(d n)/d): the two figures of section 6, natural logarithm."""
    assert float(f"{rotation_linf_norm(1.0, dim, 1000):.1e}") == expected
    geometry, notices = resolve_geometry(dim=dim, cohort_size=1000)
    assert float(f"{1 / geometry.norm_ratio:.1e}") == expected
    assert slugs(notices) == ["rotation-rule"]


def test_rotation_rule_scales_with_the_l2_norm():
    """Delta_inf is in the units of Delta_2, the ratio has none."""
    assert rotation_linf_norm(5.0, 10**6, 1000) == pytest.approx(
        5 * rotation_linf_norm(1.0, 10**6, 1000), rel=1e-15
    )
    one, other = (resolve_geometry(l2_norm=l2, dim=10**6, cohort_size=1000)[0] for l2 in (1.0, 5.0))
    assert one.norm_ratio == pytest.approx(other.norm_ratio, rel=1e-15)


@pytest.mark.parametrize(("dim", "cohort_size"), [(1, 1), (2, 1000), (10, 10**9), (1, 10**12)])
def test_rotation_rule_is_capped_at_ratio_one(dim, cohort_size):
    """In few dimensions the rule gives Delta_inf above Delta_2 (or 0 at d n = 1): ratio 1, with a notice."""
    geometry, notices = resolve_geometry(dim=dim, cohort_size=cohort_size)
    assert geometry.norm_ratio == 1.0
    assert slugs(notices) == ["rotation-rule", "linf-norm-capped"]


def test_an_explicit_ratio_wins_and_needs_no_notice():
    """dim and cohort_size may always be given for the MSE."""
    geometry, notices = resolve_geometry(norm_ratio=156.25, dim=10**6, cohort_size=1000)
    assert geometry == Geometry(156.25, 1.0, 10**6, 1000)
    assert notices == ()


def test_linf_norm_is_in_the_units_of_the_l2_norm():
    """Delta_2 = 5, Delta_inf = 0.02: ratio 250."""
    geometry, notices = resolve_geometry(linf_norm=0.02, l2_norm=5.0)
    assert geometry.norm_ratio == pytest.approx(250, rel=1e-15)
    assert geometry.linf_norm == pytest.approx(0.02, rel=1e-15)
    assert notices == ()


def test_linf_norm_above_the_l2_norm_is_capped():
    """Clipping at more than Delta_2 does nothing: ratio 1, with a notice."""
    geometry, notices = resolve_geometry(linf_norm=3.0, l2_norm=2.0)
    assert geometry.norm_ratio == 1.0
    assert slugs(notices) == ["linf-norm-capped"]
    assert "linf_norm 3 exceeds l2_norm 2, so that norm_ratio is 1: were they swapped?" in notices[0].message
    assert resolve_geometry(linf_norm=2.0, l2_norm=2.0) == (Geometry(1.0, 2.0), ())


def test_two_sources_that_agree_are_fine_and_two_that_do_not_are_refused():
    """Agreement is to what a user types, 1e-6."""
    geometry, _ = resolve_geometry(norm_ratio=3.0, linf_norm=0.33333333, l2_norm=1.0)
    assert geometry.norm_ratio == 3.0
    error = refused(norm_ratio=3.0, linf_norm=0.3333, l2_norm=1.0)
    assert error.slug == "ratio-conflict"
    assert error.exit_status == 2


@pytest.mark.parametrize(
    "arguments", [{}, {"l2_norm": 2.0}, {"dim": 10}, {"cohort_size": 10}, {"dim": 10, "l2_norm": 2.0}]
)
def test_no_source_is_refused_with_a_way_out(arguments):
    """The hint names all three sources."""
    error = refused(**arguments)
    assert error.slug == "missing-norm-ratio"
    for name in ("`norm_ratio`", "`linf_norm`", "`dim`"):  # which the command line shows as flags
        assert name in error.hint


@pytest.mark.parametrize(("given", "missing"), [("dim", "cohort_size"), ("cohort_size", "dim")])
def test_half_of_the_rotation_rule_says_which_half_is_missing(given, missing):
    """One of dim and cohort_size alone gives no ratio: the message names the other."""
    assert f"needs {missing} beside" in refused(**{given: 10}).message


def test_the_inverse_ratio_is_recognised():
    """0.0064 is refused and 156.25 suggested."""
    error = refused(norm_ratio=0.0064)
    assert error.slug == "out-of-range"
    assert "156.25" in error.hint


# ---------------------------------------------------------------- caps by the dimension


def test_more_coordinates_than_dimensions_are_capped():
    """No vector of norm Delta_2 in 100 dimensions stays below Delta_2/10: ratio 10, with a notice."""
    for arguments in ({"norm_ratio": 11.0}, {"linf_norm": 1 / 11.0}):
        geometry, notices = resolve_geometry(dim=100, **arguments)
        assert geometry.norm_ratio == 10.0
        assert geometry.k == 100.0
        assert slugs(notices) == ["ratio-capped"]
        # 1/11 in each of 100 coordinates has an L2 norm of 10/11
        assert (
            "no vector clipped at linf_norm has an L2 norm above linf_norm sqrt(dim) = 0.909091,"
            in notices[0].message
        )
        assert notices[0].message.endswith("so l2_norm could be reduced to that")


@pytest.mark.parametrize("dim", [2, 3, 7, 10**6, 10**12, 999_999_999_989])
def test_the_largest_possible_ratio_is_not_called_capped(dim):
    """sqrt(dim) itself is accepted in silence, whatever its rounding, and k is at most dim."""
    ratio = min(math.sqrt(dim), 1e6)
    for candidate in (ratio, min(math.nextafter(ratio, math.inf), 1e6)):
        geometry, notices = resolve_geometry(norm_ratio=candidate, dim=dim)
        assert notices == ()
        assert geometry.k <= dim
        assert geometry.k == pytest.approx(dim, rel=1e-11)


def test_a_geometry_built_by_hand_is_checked():
    """The dataclass refuses what resolve_geometry would have capped."""
    with pytest.raises(UsageError) as caught:
        Geometry(11.0, dim=100)
    assert caught.value.slug == "ratio-above-dim"


@pytest.mark.parametrize("name", ["norm_ratio", "linf_norm", "l2_norm", "dim", "cohort_size"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0, -1, 1e300])
def test_bad_numbers_are_refused_by_name(name, bad):
    """NaN, infinities, zero, negatives and the absurd."""
    error = refused(**({"norm_ratio": 2.0} | {name: bad}))
    assert error.exit_status == 2
    assert name in error.message


@pytest.mark.parametrize("name", ["dim", "cohort_size"])
def test_counts_are_integers(name):
    """Half a dimension is a mistake."""
    assert refused(**{"norm_ratio": 1.0, name: 1.5}).slug == "out-of-range"


def test_a_ratio_beyond_the_range_is_refused_from_every_source():
    """norm_ratio is at most 1e6, however it was given."""
    assert refused(norm_ratio=1.1e6).slug == "out-of-range"
    assert refused(linf_norm=1e-7).slug == "out-of-range"


# ---------------------------------------------------------------- participation


@pytest.mark.parametrize(
    ("population", "cohort", "training", "rounds"),
    [
        (1000, 100, 10, 1),
        (1000, 100, 11, 2),
        (1000, 1, 1, 1),
        (3000, 50, 4096, 69),
        (1, 1, 7, 7),
        (3, 2, 3, 2),
        (10**12, 10**12, 10**9, 10**9),
        (10**12 - 1, 10**12 - 2, 10**9, 10**9),
    ],
)
def test_rounds_are_the_ceiling_of_rn_over_n(population, cohort, training, rounds):
    """Disjoint cohorts that take turns; exact in integers."""
    found, notice = rounds_from_participation(population, cohort, training)
    assert found == rounds
    assert isinstance(found, int)
    assert notice.slug == "rounds-from-participation"
    assert "disjoint cohorts that take turns in a fixed order" in notice.message
    assert notice.message.endswith("pass rounds = all training rounds")


def test_no_assignment_of_disjoint_cohorts_does_worse():
    """Simulated turns: with cohorts of n that go round, the busiest client takes part that often."""
    for population, cohort, training in ((7, 3, 11), (10, 10, 4), (12, 4, 7), (9, 2, 30)):
        count = [0] * population
        for turn in range(training):
            for member in range(cohort):
                count[(turn * cohort + member) % population] += 1
        assert max(count) == rounds_from_participation(population, cohort, training)[0]


def test_a_cohort_above_the_population_is_refused():
    """Nobody takes part twice in one round."""
    with pytest.raises(UsageError) as caught:
        rounds_from_participation(10, 11, 5)
    assert caught.value.slug == "cohort-above-population"


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, 1e13])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_bad_counts_are_refused(position, bad):
    """Each of the three is an integer from 1 on."""
    arguments = [10, 5, 4]
    arguments[position] = bad
    with pytest.raises(UsageError) as caught:
        rounds_from_participation(*arguments)
    assert caught.value.exit_status == 2


def test_more_rounds_than_can_be_accounted_are_refused():
    """Above 1e9 the answer is out of range and says so."""
    with pytest.raises(UsageError) as caught:
        rounds_from_participation(1, 1, 10**9 + 1)
    assert "rounds" in caught.value.message


@pytest.mark.parametrize("ratio", [Fraction(1, 4), 0.25])
def test_an_inverse_ratio_of_any_kind_of_number_is_refused_with_its_inverse(ratio):
    """Fractions are numbers like any other, in the refusal too."""
    with pytest.raises(UsageError) as caught:
        resolve_geometry(norm_ratio=ratio)
    assert caught.value.hint == "norm_ratio is l2_norm / linf_norm; was the inverse meant, 4?"
