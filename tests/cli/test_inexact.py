"""What is said where an answer may be loose, or nothing is known below it."""

import pytest

DP_SGD = "--norm-ratio 1 --dim 1 --gamma 0.01"
#: Beyond the epsilons for which privacy profiles are computed.
BEYOND = "--delta 1e-8 --gamma 0.1 --norm-ratio 10 --rounds 1"
#: Where only an upper bound is known.
NOTHING_BELOW = [
    "account --mechanism linf-csgm --gamma 0.0067 --dim 4 --norm-ratio 2 --rounds 2"
    " --noise-multiplier 0.0081 --epsilon 2080",
    "account --noise-multiplier 3.6 --gamma 1e-9 --norm-ratio 1 --dim 1 --epsilon 1 --rounds 1",
]


def slugs(found):
    """The slugs of a document's warnings."""
    return [warning["slug"] for warning in found.document["warnings"]]


@pytest.mark.parametrize(
    ("line", "tolerance"),
    [
        (f"{DP_SGD} --noise-multiplier 0.78 --rounds 10 --epsilon 1", 1e-3),
        (f"{DP_SGD} --noise-multiplier 1.4 --rounds 1000 --epsilon 1", 1e-9),
        (f"{DP_SGD} --noise-multiplier 0.7 --epsilon 1 --rounds 1", 1e-4),
        ("--norm-ratio 30 --dim 900 --gamma 0.1 --noise-multiplier 0.2 --epsilon 1 --rounds 1", 1e-9),
    ],
)
def test_an_exact_profile_is_close_to_its_lower_bound(csgm, line, tolerance):
    """Delta and its lower bound are one number, but for the error of a contour or of the grid."""
    found = csgm(f"account {line} --format json")
    result = found.document["result"]
    assert result["bound"] == result["proof"] == "profile"
    assert 0.0 <= result["delta"] / result["lower_bound"] - 1 <= tolerance
    assert slugs(found) == []


@pytest.mark.parametrize("accountant", ["auto", "tight"])
def test_a_profile_out_of_reach_is_said_to_be_that(csgm, accountant):
    """The closed form that answers is proven, and may be loose."""
    found = csgm(f"calibrate --epsilon 300 {BEYOND} --accountant {accountant} --format json")
    result = found.document["result"]
    assert found.status == 0
    assert slugs(found) == ["tight-fell-back"]
    assert result["noise_multiplier"] > 1.05 * result["lower_bound"]
    by_rdp = csgm(f"calibrate --epsilon 300 {BEYOND} --accountant rdp --value")
    assert result["noise_multiplier"] <= float(by_rdp.stdout) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("asked", "margin"),
    [
        ("--delta 1e-8", "5 % above the smallest valid value"),
        ("--epsilon 300", "5 times the smallest valid delta"),
    ],
)
def test_a_closed_form_bound_names_its_margin(csgm, asked, margin):
    """Relative for epsilon, a factor for delta."""
    line = f"account {asked} --gamma 0.1 --norm-ratio 10 --rounds 1 --noise-multiplier 0.022 --format json"
    [warning] = csgm(line).document["warnings"]
    assert warning["slug"] == "tight-fell-back"
    assert warning["message"].endswith(f"may be more than {margin}")


@pytest.mark.parametrize("line", NOTHING_BELOW)
def test_an_unknown_lower_bound_is_null(csgm, line):
    found = csgm(f"{line} --format json")
    assert found.status == 0
    assert found.document["result"]["lower_bound"] is None
    shown = csgm(line)
    assert "lower bound" not in shown.stdout
    assert all(said.startswith("warning[") for said in shown.stderr.splitlines())


@pytest.mark.parametrize("accountant", ["auto", "tight"])
def test_nothing_is_below_an_epsilon_of_nothing(csgm, accountant):
    """Epsilon 0 is the least there is, so that its lower bound is exact."""
    line = "account --noise-multiplier 1e6 --gamma 0.01 --norm-ratio 10 --rounds 1 --delta 1e-5"
    found = csgm(f"{line} --accountant {accountant}")
    assert found.stderr == ""
    assert "certified         optimal (lower bound 0)" in found.stdout
    result = csgm(f"{line} --format json").document["result"]
    assert result["epsilon"] == result["lower_bound"] == 0.0


def test_what_does_not_look_at_the_profile_says_nothing_of_it(csgm):
    """By rdp no lower bound is missed; a delta at its floor says enough."""
    found = csgm(f"{NOTHING_BELOW[1]} --accountant rdp --format json")
    assert found.document["result"]["lower_bound"] is None
    assert slugs(found) == []
    line = "account --noise-multiplier 30 --gamma 1e-9 --norm-ratio 1 --dim 1 --epsilon 1 --rounds 1"
    floor = csgm(f"{line} --format json")
    assert slugs(floor) == ["delta-floor"]


def test_rows_carry_the_slugs(csgm):
    """In a sweep the rows of which it is true, and in a comparison each kind of sentence once."""
    swept = csgm(f"sweep --vary epsilon=3,300 {BEYOND} --format json")
    assert [row["warnings"] for row in swept.document["result"]["rows"]] == [[], ["tight-fell-back"]]
    assert slugs(swept) == ["tight-fell-back"]
    compared = csgm(f"compare --epsilon 300 {BEYOND} --gamma 0.2 --format json")
    assert slugs(compared).count("tight-fell-back") == 1


def test_a_check_warns_and_passes(csgm, place):
    """What spends within its limit passes, however well it is known; GitHub shows it as a warning."""
    (place / "budget.toml").write_text(
        "[population.phones]\nepsilon = 400\ndelta = 1e-8\n"
        '[population.phones.release.usage]\nmechanism = "l2-csgm"\nnoise-multiplier = 0.022\n'
        "gamma = 0.1\nnorm-ratio = 10\nrounds = 1\n"
    )
    found = csgm("check budget.toml --format github")
    assert found.status == 0
    assert "::warning title=tight-fell-back::" in found.stdout
