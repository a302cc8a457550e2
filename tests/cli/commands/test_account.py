"""``csgm account`` end to end: the ways to say the noise, what it costs, and limits."""

import re

import pytest

from tests.cli.questions import ACCOUNT, CALIBRATE


def test_sigma_and_noise_multiplier_are_one_thing(csgm):
    """account takes either, and resolves the noise multiplier."""
    by_sigma = csgm("account --sigma 8 --l2-norm 2 --mechanism gaussian --delta 1e-6 --format json").document
    by_multiplier = csgm(
        "account --noise-multiplier 4 --mechanism gaussian --delta 1e-6 --format json"
    ).document
    assert by_sigma["result"]["epsilon"] == by_multiplier["result"]["epsilon"]
    assert by_sigma["inputs"]["noise_multiplier"] == 4.0


def test_all_three_ways_to_say_the_noise(csgm):
    """account shows multiplier, effective multiplier and sigma, in JSON and in text, whichever was given."""
    common = "account --l2-norm 2 --gamma 0.01 --norm-ratio 1000 --delta 1e-8"
    for given in ("--sigma 0.0244", "--noise-multiplier 0.0122"):
        inputs = csgm(f"{common} {given} --format json").document["inputs"]
        assert inputs["noise_multiplier"] == pytest.approx(0.0122, rel=1e-15)
        assert inputs["effective_noise_multiplier"] == pytest.approx(1.22, rel=1e-15)
        assert inputs["sigma"] == pytest.approx(0.0244, rel=1e-15)
        for several in ("", "--delta 1e-6"):
            shown = {
                line[:18].strip(): line[18:].split("  ")[0]
                for line in csgm(f"{common} {given} {several}").stdout.splitlines()
            }
            assert shown["noise multiplier"] == "0.0122"
            assert shown["effective"] == "1.22"
            assert shown["sigma"] == "0.0244"


def test_a_given_multiplier_is_kept_as_it_is(csgm):
    """Through sigma and back a multiplier can lose its last bit; the one given is shown."""
    for multiplier, l2_norm in ((0.0122, 3.0), (0.1, 7.0), (1.1, 0.3), (0.7, 1e-3)):
        line = (
            f"account --noise-multiplier {multiplier} --l2-norm {l2_norm} --mechanism gaussian --delta 1e-6"
        )
        assert csgm(f"{line} --format json").document["inputs"]["noise_multiplier"] == multiplier


def test_account_shows_what_the_noise_costs(csgm):
    """The same numbers as where calibrate found that noise, for one delta or several; none without sizes."""
    sizes = "--gamma 0.01 --dim 1e6 --cohort-size 1000 --l2-norm 2 --accountant rdp"
    calibrated = csgm(f"calibrate --epsilon 5 --delta 1e-8 {sizes} --format json").document["result"]
    line = f"account --sigma {calibrated['sigma']!r} {sizes} --delta 1e-8"
    for several in ("", "--delta 1e-6"):
        result = csgm(f"{line} {several} --format json").document["result"]
        for row in result.get("rows", [result]):
            assert row["mean_noise_std"] == calibrated["mean_noise_std"]
            assert row["mse"] == {
                key: calibrated["mse"][key] for key in ("privacy", "sparsification", "total")
            }
        text = csgm(f"{line} {several}").stdout
        noise = re.search(r"^mean noise std +(\S+) +left on the mean estimate$", text, re.MULTILINE)
        error = re.search(r"^MSE +(\S+) +privacy \S+ \+ sparsification 0.396$", text, re.MULTILINE)
        assert float(noise[1]) == pytest.approx(calibrated["sigma"] / (1000 * 0.01), rel=1e-5)
        assert float(error[1]) == pytest.approx(calibrated["mse"]["total"], rel=1e-5)
    without = csgm(f"{ACCOUNT} --delta 1e-8 --dim 1e6 --format json").document["result"]
    assert (without["mean_noise_std"], without["mse"]) == (None, None)
    assert "mean noise" not in csgm(f"{ACCOUNT} --delta 1e-8 --dim 1e6").stdout


def test_an_effective_multiplier_in_the_wrong_place(csgm):
    """1.1429 is the effective multiplier of (5, 1e-8) at gamma 0.01; as the multiplier it is noticed."""
    common = "account --gamma 0.01 --norm-ratio 1000 --rounds 1 --delta 1e-8 --max-epsilon 5 --format json"
    mistaken = csgm(f"{common} --noise-multiplier 1.1429")
    assert mistaken.status == 0
    [warning] = mistaken.document["warnings"]
    assert warning["slug"] == "perhaps-effective"
    assert "pass 0.011429; epsilon is then 4.99, not" in warning["message"]
    for right in ("--noise-multiplier 0.011429", "--sigma 0.12", "--noise-multiplier 200"):
        assert csgm(f"{common} {right}").document["warnings"] == []
    assert csgm("account --mechanism gaussian --sigma 20 --rounds 1 --delta 1e-8").stderr == ""
    # one coordinate, DP-SGD: there 1 is a usual multiplier, and 0.01 would show what was sampled
    dp_sgd = "account --noise-multiplier 1 --gamma 0.01 --norm-ratio 1 --dim 1 --rounds 1 --delta 1e-5"
    assert csgm(dp_sgd).stderr == ""


@pytest.mark.parametrize("ratio", [10, 50])
def test_an_effective_multiplier_is_noticed_however_large_its_epsilon(csgm, ratio):
    """At a small norm ratio 0.022 proves nothing useful."""
    line = f"account --noise-multiplier 1.1 --gamma 0.02 --norm-ratio {ratio} --rounds 10 --delta 1e-7"
    outcome = csgm(f"{line} --max-epsilon 8 --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == ["perhaps-effective"]


def test_a_large_delta_that_is_the_answer(csgm):
    """The warning says how to reduce a computed delta, and shows it rounded up as the report does."""
    outcome = csgm(f"{ACCOUNT} --epsilon 0 --rounds 1000 --accountant rdp")
    assert outcome.stdout.splitlines()[0].split()[:2] == ["delta", "1"]
    said = "warning[delta-large]: delta 1 is large; it should be well "
    [warning] = [line for line in outcome.stderr.splitlines() if "delta-large" in line]
    assert warning.startswith(said)
    assert warning.endswith("below 1 / number of clients: add noise or allow a larger epsilon")
    asked = csgm(f"{ACCOUNT} --delta 0.9999999 --accountant rdp").stderr
    assert "delta 0.9999999 is" in asked
    assert "well below 1 / number of clients: choose a smaller one" in asked


@pytest.mark.parametrize("accountant", ["auto", "rdp"])
def test_the_warning_quotes_what_account_answers(csgm, accountant):
    """Both epsilons are by the accountant that was asked for: who takes the advice sees the same number."""
    line = f"account --gamma 0.05 --norm-ratio 100 --rounds 1 --delta 1e-6 --accountant {accountant}"
    mistaken, right = (
        csgm(f"{line} --noise-multiplier {noise} --format json").document for noise in (0.9, 0.045)
    )
    said = "epsilon is then {:.3g}, not {:.3g}".format(
        right["result"]["epsilon"], mistaken["result"]["epsilon"]
    )
    assert mistaken["warnings"][0]["message"].endswith(said)


@pytest.mark.parametrize(("limit", "status"), [("4.8", 1), ("4.9", 0), ("0", 1)])
@pytest.mark.parametrize("kind", ["text", "json", "csv", "markdown"])
def test_max_epsilon(csgm, limit, status, kind):
    """The answer (4.898...) is printed either way; the exit code says whether the limit holds."""
    outcome = csgm(
        f"{ACCOUNT} --accountant rdp --rounds 1 --delta 1e-8 --max-epsilon {limit} --format {kind}"
    )
    assert outcome.status == status
    assert "4.898" in outcome.stdout
    assert outcome.stderr.startswith("failed: epsilon 4.898") == (status == 1)


def test_max_epsilon_for_several_deltas(csgm):
    """One epsilon above the limit is enough to fail."""
    line = "account --sigma 4 --mechanism gaussian --delta 1e-6 --delta 1e-8 --max-epsilon"
    assert csgm(f"{line} 1.2").status == 1  # 1.06 and 1.29
    assert csgm(f"{line} 1.3").status == 0


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("", "--rounds"),
        ("--rounds 1", None),
        ("--rounds 20", None),
        ("--population 100 --cohort-size 10 --training-rounds 20", None),
        ("--factorization tree:4", "--epochs"),
        ("--factorization tree:4 --epochs 1", None),
    ],
)
def test_rounds_left_at_the_default_are_warned_about(csgm, monkeypatch, options, flag):
    line = "account --noise-multiplier 0.21 --gamma 0.05 --norm-ratio 305 --delta 1e-7 --accountant rdp"
    line = f"{line} {options} --max-epsilon 40 --value"
    said = f"warning[one-round]: {str(flag)[2:]} not given; pass {flag} (use {flag} 1 if each client takes"
    assert (said in csgm(line).stderr) == (flag is not None)
    monkeypatch.setenv("CSGM_EPOCHS" if "factor" in options else "CSGM_ROUNDS", "1")
    assert "one-round" not in csgm(line).stderr


def test_a_limit_without_a_delta(csgm):
    """--max-epsilon alone is told what it needs."""
    outcome = csgm(f"{ACCOUNT} --max-epsilon 4")
    assert outcome.status == 2
    assert outcome.stderr.splitlines() == [
        "error[missing-option]: --max-epsilon checks an epsilon, which needs a delta",
        "  try: pass --delta",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            "--noise-multiplier 0.21 --gamma 0.05",
            {"noise multiplier": "0.21", "effective": "4.2"},
        ),
        (
            "--noise-multiplier 0.21 --l2-norm 3e-2 --gamma 0.03",  # 0.21 * 0.03, and 0.21 / 0.03
            {"noise multiplier": "0.21", "effective": "7", "sigma": "0.0063"},
        ),
        (
            "--sigma 0.7 --l2-norm 3 --gamma 0.03",  # 7 / 30 and 70 / 9, rounded up
            {"noise multiplier": "0.233334", "effective": "7.77778", "sigma": "0.7"},
        ),
        ("--sigma 0.123456789 --gamma 0.5", {"noise multiplier": "0.123456789"}),
    ],
)
def test_derived_noise_is_rounded_up(csgm, options, lines):
    """account shows the noise that was given in full, and what follows from it in six digits."""
    text = csgm(f"account {options} --norm-ratio 305 --delta 1e-7 --accountant rdp").stdout
    for name, number in lines.items():
        [found] = re.findall(rf"^{name}(?: noise multiplier)? +(\S+) ", text, re.MULTILINE)
        assert found == number


def test_limit_that_is_met_exactly(csgm):
    """What calibrate prints passes the check at the target it was asked for."""
    noise = csgm(f"{CALIBRATE} --value").stdout.strip()
    line = f"account --noise-multiplier {noise} --gamma 0.01 --norm-ratio 1000 --delta 1e-8 --max-epsilon 5"
    assert csgm(line).status == 0


def test_a_failed_check_comes_before_warnings(csgm):
    line = "account --noise-multiplier 1 --mechanism gaussian --delta 1e-6 --max-epsilon 1"
    failed, warning = csgm(line).stderr.splitlines()
    assert failed.startswith("failed: epsilon 4.88")
    assert warning.startswith("warning[one-round]: ")


def test_quiet_leaves_failures_and_errors(csgm):
    line = "account --noise-multiplier 1 --mechanism gaussian --delta 1e-6 --quiet"
    assert csgm(line).stderr == ""
    assert csgm(f"{line} --max-epsilon 1").stderr.startswith("failed: ")
    assert csgm(f"{line} --max-epsilon -1").stderr.startswith("error[")
    assert "warning[one-round]" in csgm(line.removesuffix(" --quiet")).stderr
