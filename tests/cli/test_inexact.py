"""What is said where the exact profile is known in a bracket only, or nothing is known below the answer."""

import pytest

from csgm_cli.core import profile

DP_SGD = "--norm-ratio 1 --dim 1 --gamma 0.01"
RARE = "--mechanism linf-csgm --gamma 0.0067 --dim 4 --norm-ratio 2 --rounds 2"
#: Noise so small, or a delta so large, that only simple bounds are known.
NOTHING_BELOW = [
    "account --noise-multiplier 1e-5 --gamma 0.03 --norm-ratio 10 --rounds 100 --delta 1e-6",
    "calibrate --epsilon 1 --delta 0.99995 --gamma 0.5 --norm-ratio 10",
]


def slugs(found):
    """The slugs of a document's warnings."""
    return [warning["slug"] for warning in found.document["warnings"]]


@pytest.mark.parametrize(
    ("line", "raised", "is_bracketed"),
    [
        (f"{RARE} --noise-multiplier 0.0081 --epsilon 2080", 0.0, True),
        (f"{DP_SGD} --noise-multiplier 0.78 --rounds 10 --epsilon 1", 1e-5, False),
        (f"{DP_SGD} --noise-multiplier 1.4 --rounds 1000 --epsilon 1", 0.0, False),
        (f"{DP_SGD} --noise-multiplier 0.7 --epsilon 1", 0.0, False),
        ("--norm-ratio 30 --dim 900 --gamma 0.1 --noise-multiplier 0.2 --epsilon 1", 0.0, False),
    ],
)
def test_an_exact_profile_says_how_exact_it_is(csgm, line, raised, is_bracketed):
    """Delta and its lower bound are the ends of the bracket: without a warning they are one number.

    But for 1e-5 of it, by which brackets that are narrow are raised.
    """
    found = csgm(f"account {line} --format json")
    result = found.document["result"]
    assert result["bound"] == "profile"
    apart = result["delta"] / result["lower_bound"] / (1 + raised) - 1
    if not is_bracketed:
        assert slugs(found) == []
        assert abs(apart) <= 1e-8
        return
    assert slugs(found) == ["profile-bracketed"]
    said = found.document["warnings"][0]["message"]
    assert float(said.partition("known to ")[2].split()[0]) == pytest.approx(apart, rel=0.5)
    assert 1e-8 < apart < 1e-3


def test_a_profile_at_a_smaller_epsilon_is_said_to_be_that(csgm, monkeypatch):
    """How far it is above the profile at this epsilon is not known, and neither is anything below."""
    known = profile._known
    monkeypatch.setattr(profile, "_known", lambda *given: known(*given) if given[2] < 1.0 else None)
    found = csgm(f"account {DP_SGD} --noise-multiplier 0.7654321 --rounds 7 --epsilon 1.5 --format json")
    assert found.document["result"]["bound"] == "profile"
    assert slugs(found) == ["profile-bracketed", "no-lower-bound"]
    assert "a smaller epsilon proves" in found.document["warnings"][0]["message"]


@pytest.mark.parametrize("line", NOTHING_BELOW)
def test_a_lower_bound_of_nothing_is_said_to_be_that(csgm, line):
    """The answer stands, but nothing shows how good it is; the text does not claim that 0 does."""
    found = csgm(f"{line} --format json")
    assert found.status == 0
    assert found.document["result"]["lower_bound"] == 0.0
    assert "no-lower-bound" in slugs(found)
    shown = csgm(line)
    assert "no analysis can show a smaller" not in shown.stdout
    assert shown.stderr.count("warning[no-lower-bound]: ") == 1
    assert all(said.startswith("warning[") for said in shown.stderr.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        "account --noise-multiplier 1e6 --gamma 0.01 --norm-ratio 10 --delta 1e-5",
        "account --noise-multiplier 1 --gamma 0.01 --norm-ratio 10 --delta 0.009",
        "account --noise-multiplier 1e6 --gamma 0.01 --norm-ratio 10 --delta 1e-5 --accountant tight",
    ],
)
def test_nothing_is_below_an_epsilon_of_nothing(csgm, line):
    """Epsilon 0 is the least there is, so that its lower bound is exact."""
    found = csgm(line)
    assert found.stderr == ""
    assert "no analysis can show a smaller epsilon" in found.stdout
    assert "not computed" not in found.stdout
    result = csgm(f"{line} --format json").document["result"]
    assert result["epsilon"] == result["lower_bound"] == 0.0


def test_what_does_not_look_at_the_profile_says_nothing_of_it(csgm):
    """By rdp and under replace-one there is no lower bound to be missed; a delta at its floor says enough."""
    line = NOTHING_BELOW[0]
    assert csgm(f"{line} --accountant rdp").stderr == ""
    assert csgm(f"{line} --adjacency replace-one").stderr == ""
    floor = csgm(
        "account --noise-multiplier 3.6 --gamma 1e-9 --norm-ratio 1 --dim 1 --epsilon 1 --format json"
    )
    assert slugs(floor) == ["delta-floor"]


def test_rows_carry_the_slugs(csgm):
    """In a sweep the rows of which it is true, and in a comparison each kind of sentence once."""
    swept = csgm(f"sweep {RARE} --noise-multiplier 0.0081 --vary epsilon=2500,2080 --format json")
    rows = swept.document["result"]["rows"]
    assert [row["warnings"] for row in rows] == [[], ["profile-bracketed"]]
    assert slugs(swept) == ["profile-bracketed"]
    deep = csgm(f"compare {NOTHING_BELOW[-1].removeprefix('calibrate ')} --gamma 0.4 --dim 200 --format json")
    assert slugs(deep).count("no-lower-bound") == 1


def test_a_check_warns_and_passes(csgm, place):
    """What spends within its limit passes, however well it is known; GitHub shows it as a warning."""
    (place / "budget.toml").write_text(
        "[population.phones]\nepsilon = 2100\ndelta = 0.00131\n"
        '[population.phones.release.usage]\nmechanism = "linf-csgm"\nnoise-multiplier = 0.0081\n'
        "gamma = 0.0067\nnorm-ratio = 2\ndim = 4\nrounds = 2\n"
    )
    found = csgm("check budget.toml --format github")
    assert found.status == 0
    assert "::warning title=profile-bracketed::" in found.stdout
