"""Bad and hostile input: one message that names source, value and range, the right exit code, and no more."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.cli import main

GOOD = {"--epsilon": "3", "--delta": "1e-6", "--gamma": "0.01", "--norm-ratio": "100"}

# option, value, what the message must say beside the option and the value
BAD_VALUES = [
    *[("--epsilon", value, "[1e-06, 10000]") for value in ("nan", "inf", "-inf", "-1", "0", "abc", "", " ")],
    *[
        ("--epsilon", value, "[1e-06, 10000]")
        for value in ("1e5", "9e-7", "1e999", "0x10", "1_0.5", "3,5", "٣")
    ],
    *[("--delta", value, "[1e-300, 1)") for value in ("0", "1", "nan", "-1e-9", "1e-301", "2")],
    *[("--gamma", value, "[1e-09, 1]") for value in ("0", "1.5", "nan", "-0.1", "1e-10")],
    *[("--compression", value, "[1, 1e+09]") for value in ("0", "0.5", "1e10", "inf")],
    *[("--norm-ratio", value, "[1, 1e+06]") for value in ("0.0064", "inf", "0", "-2", "1e7")],
    *[("--rounds", value, "an integer in [1, 1e+09]") for value in ("0", "1.5", "-1", "1e10", "nan", "1__0")],
    *[("--dim", value, "an integer in [1, 1e+12]") for value in ("0", "2.5", "1e13", "ten")],
    *[("--cohort-size", value, "an integer in [1, 1e+12]") for value in ("0", "1_00", "-3")],
    *[("--l2-norm", value, "[1e-30, 1e+30]") for value in ("0", "-1", "inf", "1e31")],
    *[("--linf-norm", value, "[1e-36, 1e+30]") for value in ("0", "nan")],
    *[("--value-bits", value, "an integer in [1, 64]") for value in ("0", "65", "1.1")],
    *[("--rounds", value, "must be an integer in [1, 1e+09]") for value in ("1e-400", "4M")],
    *[("--delta", value, "must be a number in [1e-300, 1)") for value in ("1e-400", "0." + "0" * 400 + "1")],
    ("--adjacency", "replace", "did you mean replace-one?"),
    ("--accountant", "rpd", "did you mean rdp?"),
    ("--mechanism", "l2csgm", "did you mean l2-csgm"),
    ("--format", "jsno", "did you mean json?"),
]


def command_line(**changes):
    """The words of a good calibrate, with options replaced or added."""
    return ["calibrate", *(word for pair in (GOOD | changes).items() for word in pair)]


@pytest.mark.parametrize(("option", "value", "said"), BAD_VALUES)
def test_bad_value(csgm, option, value, said):
    """A bad value is refused with one line that names the option, the value and what is allowed."""
    outcome = csgm(*command_line(**{option: value}))
    assert (outcome.status, outcome.stdout) == (2, "")
    first, *rest = outcome.stderr.splitlines()
    assert first.startswith("error[")
    assert all(part in first for part in (option, repr(value)[:60], said))
    assert all(line.startswith("  try: ") for line in rest)
    assert len(rest) <= 1


@pytest.mark.parametrize(("option", "value", "said"), [bad for bad in BAD_VALUES if bad[0] != "--format"])
def test_bad_value_in_json_mode(csgm, option, value, said):
    """In json mode the same message is an object on stdout, with the same exit code."""
    outcome = csgm(*command_line(**{option: value}), "--format", "json")
    assert outcome.status == 2
    assert outcome.document["schema"] == "csgm/error/1"
    assert outcome.document["error"].keys() == {"slug", "message", "hint"}
    assert said in outcome.document["error"]["message"]
    assert (
        f"error[{outcome.document['error']['slug']}]: {outcome.document['error']['message']}"
        in outcome.stderr
    )


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("calibrate --epsilon 3 --nosuch 1", "unknown-option"),
        ("calibrate --epsilom 3", "unknown-option"),
        ("calibrate -x", "unknown-option"),
        ("calibrate --verify=1", "usage"),
        ("calibrate --epsilon", "usage"),
        ("version 5", "usage"),
        ("calibrate", "missing-option"),
        ("calibrate --epsilon 3", "missing-option"),
        ("calibrate --epsilon 3 --delta 1e-6", "missing-option"),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1", "missing-norm-ratio"),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --dim 1e6", "missing-norm-ratio"),
        ("calibrate --epsilon 3 --epsilon 4", "repeated-option"),
        ("calibrate --epsilon 3 --delta 1e-6 --delta 1e-7", "repeated-option"),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --compression 10 --norm-ratio 9",
            "conflicting-options",
        ),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --linf-norm 5", "ratio-conflict"),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --mechanism gaussian", "gaussian-gamma"),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --mechanism linf-csgm",
            "linf-needs-dim",
        ),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --accountant exact",
            "no-exact-accountant",
        ),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --population 5", "missing-option"),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --rounds 2 --population 5",
            "conflicting-options",
        ),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --value --format csv",
            "conflicting-options",
        ),
        ("calibrat", "unknown-command"),
        ("--epsilon 3 calibrate", "unknown-option"),
        ("account --gamma 0.1 --norm-ratio 9 --delta 1e-6", "missing-option"),
        ("account --gamma 0.1 --norm-ratio 9 --sigma 1", "missing-option"),
        (
            "account --gamma 0.1 --norm-ratio 9 --sigma 1 --noise-multiplier 1 --delta 1e-6",
            "conflicting-options",
        ),
        ("account --gamma 0.1 --norm-ratio 9 --sigma 1 --epsilon 1 --delta 1e-6", "conflicting-options"),
        ("account --gamma 0.1 --norm-ratio 9 --sigma 1 --epsilon 1 --max-epsilon 2", "conflicting-options"),
        ("account --gamma 0.1 --norm-ratio 9 --sigma 1 --delta 1e-6 --delta 1e-7 --value", "no-single-value"),
        ("account --from no.json --sigma 1", "conflicting-options"),
        ("compare --epsilon 3 --delta 1e-6 --norm-ratio 9", "missing-option"),
        (
            "compare --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --at-equal-mse",
            "missing-utility-inputs",
        ),
        ("compare --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --value", "unknown-option"),
        (
            "compare --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --mechanism gaussian",
            "unknown-option",
        ),
        ("plan --epsilon 3 --delta 1e-6 --norm-ratio 9", "missing-option"),
        ("plan --epsilon 3 --delta 1e-6 --norm-ratio 9 --max-mse-overhead 0.1", "missing-utility-inputs"),
        ("plan --epsilon 3 --delta 1e-6 --max-noise-overhead 1 --max-mse-overhead 1", "conflicting-options"),
        (
            "plan --epsilon 3 --delta 1e-6 --norm-ratio 9 --max-noise-overhead 1 --mechanism gaussian",
            "unknown-choice",
        ),
        ("plan --epsilon 3 --delta 1e-6 --norm-ratio 9 --max-noise-overhead 1 --gamma 0.1", "unknown-option"),
        ("selftest --value", "unknown-option"),
        ("completion", "missing-option"),
        ("completion tcsh", "unknown-choice"),
    ],
)
def test_refused_line(csgm, line, slug):
    """A line that cannot be answered ends with exit code 2, its slug on stderr, and nothing on stdout."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("calibrate --norm-ratio 0.0064", "156.25"),
        ("calibrate --gamma 100", "--compression 100"),
        ("calibrate --compression 0.01", "--gamma 0.01"),
        ("calibrate --epsilom 3", "did you mean --epsilon?"),
        ("calibrate --norm-ratio 9 --norm-ratio 10", "csgm sweep --vary norm-ratio=A,B"),
        ("calibrate --norm-ratio", "try: csgm calibrate --help\n"),
        ("factorize --T 8 --T 16", "may be given once here\n"),
        ("calibrate --eps 3", "did you mean --epsilon?"),
        ("factorize --t 64", "did you mean --T or --tolerance?"),
        ("calibrate --hepl", "did you mean --help?"),
        ("cal --epsilon 3", "did you mean calibrate?"),
        ("calibrate --dim 4M", "write it as 4e6"),
        ("calibrate --rounds 1.5k", "write it as 1.5e3"),
        ("calibrate --gamma 1%", "write it as 0.01"),
        ("calibrate --gamma 10%", "write it as 0.1\n"),
        ("calibrate --gamma 0,05", "write it as 0.05\n"),
        ("calibrate --gamma 0,005", "write it as 0.005\n"),
        ("calibrate --gamma 1/20", "write it as 0.05\n"),
        ("calibrate --delta 10^-7", "write it as 1e-7\n"),
        ("calibrate --delta 5*10**-7", "write it as 5e-7\n"),
        ("calibrate --delta 1/0", "got '1/0'\n"),
        ("calibrate --delta 0", "try: delta 0 is pure differential privacy, which Gaussian noise never "),
        ("sweep --vary delta=0,1e-6", "which Gaussian noise never gives; choose one well below 1 / clients"),
        (
            "calibrate --epsilon 3,5",
            "try: write it as 3.5; for several values: csgm sweep --vary epsilon=3,5\n",
        ),
        ("calibrate --epsilon 1,2,3", "try: for several values: csgm sweep --vary epsilon=1,2,3\n"),
        ("account --sigma 1 --epsilon 0.5;3", "try: for several values: csgm sweep --vary epsilon=0.5,3\n"),
        ("calibrate --rounds 10,20", "try: for several values: csgm sweep --vary rounds=10,20\n"),
        ("calibrate --gamma 2,5", "try: for several values: csgm sweep --vary gamma=2,5\n"),
        ("calibrate --gamma 200%", "got '200%'\n"),
        ("calibrate --delta 10^-400", "got '10^-400'\n"),
        ("factorize --T 4,8", "got '4,8'\n"),
        (
            "compare --gamma 0.05,0.04",
            "--gamma takes one number each time, got '0.05,0.04'\n  try: repeat --gamma\n",
        ),
        ("compare --gamma 0,05", "write it as 0.05\n"),
        ("calibrate --gamma 5", "--compression 5 (gamma 0.2); for 5 %: --gamma 0.05\n"),
        (
            "calibrate 4 1e-7",
            "got an unexpected argument '4'\n  try: all values are options: csgm calibrate --",
        ),
        (
            "calibrate --epsilon 1e-7 --delta 4",
            "--epsilon must be a number in [1e-06, 10000], got '1e-7'\n"
            "  try: epsilon and delta seem to be swapped: epsilon 4, delta 1e-07\n",
        ),
        (
            "calibrate --delta 4 --epsilon 1e-5",
            "epsilon and delta seem to be swapped: epsilon 4, delta 1e-05\n",
        ),
        ("account --sigma 1 --max-epsilon 1e-7 --delta 4", "seem to be swapped: epsilon 4, delta 1e-07\n"),
        ("calibrate --epsilon 0.5 --delta 1", "--delta must be a number in [1e-300, 1), got '1'\n"),
        (
            "calibrate --epsilon 1e-7 --delta 1e-9",
            "--epsilon must be a number in [1e-06, 10000], got '1e-7'\n",
        ),
        ("calibrate --dim 4,000,000", "write it as 4000000"),
        ("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --dim 4e6", "needs --cohort-size beside --dim"),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --cohort-size 9",
            "needs --dim beside --cohort-size",
        ),
        ("calibrte", "did you mean calibrate?"),
        ("--format json version", "options follow the command"),
        ("completion bahs", "did you mean bash?"),
    ],
)
def test_helpful_message(csgm, line, said):
    """Where the mistake can be guessed, the message says what was probably meant."""
    assert said in csgm(line).stderr


def test_delta_0_in_a_file(csgm):
    """What --delta 0 would be told, a config and a budget are told too."""
    never = "try: delta 0 is pure differential privacy, which Gaussian noise never gives"
    Path("csgm.toml").write_text("[tool.csgm]\ndelta = 0\n", encoding="utf-8")
    assert never in csgm("calibrate --epsilon 3 --mechanism gaussian").stderr
    Path("csgm.toml").unlink()
    Path("budget.toml").write_text("[population.all]\nepsilon = 3\ndelta = 0.0\n", encoding="utf-8")
    assert never in csgm("check budget.toml").stderr


def test_a_comma_in_a_list_of_a_variable(csgm, monkeypatch):
    """In a variable commas separate values, and a list of gammas is right there."""
    monkeypatch.setenv("CSGM_GAMMA", "0.05,0.04")
    assert csgm("compare --epsilon 3 --delta 1e-6 --norm-ratio 9 --accountant rdp").status == 0


def test_help_beside_a_stray_word(csgm):
    """Whoever asks for help gets it."""
    assert csgm("calibrate 4 --help").status == 0


def test_long_value_is_cut_in_the_message(csgm):
    """A megabyte of nonsense does not come back as a megabyte of message."""
    outcome = csgm("calibrate", "--epsilon", "9" * 10**6)
    assert outcome.status == 2
    assert len(outcome.stderr) < 300


@pytest.mark.parametrize(
    "words",
    [
        ["calibrate", "--" + "x" * 10**5],
        ["y" * 10**5],
        ["calibrate", "z" * 10**5],
        ["version", "--output", "o" * 10**5],
        ["version", "--config", "c" * 10**5],
        ["account", "--from", "f" * 10**5],
        ["calibrate", "--accountant", "a" * 10**5],
        ["version", "--show-inputs", "--output", "s/" * 10**4 + "s"],
    ],
    ids=lambda words: words[-1][:3],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_message_is_of_a_length_to_read(csgm, monkeypatch, words, form):
    """Whatever is long in a line, a message keeps its beginning and the reason at its end."""
    monkeypatch.setenv("CSGM_FORMAT", form)
    outcome = csgm(*words)
    assert outcome.status in (2, 4)
    assert max(map(len, outcome.stderr.splitlines())) < 1100
    assert len(outcome.stdout) < 1500
    if outcome.status == 4:
        assert "too long" in outcome.stderr


CONTROL = "a\x1b]0;title\x07\nb\u202ec\x9b31m"


@pytest.mark.parametrize(
    "words",
    [
        ["version", f"--{CONTROL}"],
        [CONTROL],
        ["version", "--output", f"{CONTROL}/x"],
        ["version", "--config", CONTROL],
        ["version", "--show-inputs", "--output", CONTROL],
        ["account", "--from", CONTROL],
        ["account", "--from", f"kept{CONTROL}"],
        ["calibrate", "--epsilon", CONTROL],
        ["calibrate", "--mechanism", CONTROL],
    ],
)
def test_nothing_quoted_steers_the_terminal(csgm, place, monkeypatch, words):
    """What a message quotes, be it an error, a note or a warning, is shown with its controls escaped."""
    saved = csgm("calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --format json").stdout
    (place / f"kept{CONTROL}").write_text(saved)
    monkeypatch.setenv(f"CSGM_{CONTROL}", "1")
    shown = csgm(*words).stderr.replace("\n", "")
    assert "\\x1b" in shown
    assert shown.isprintable()


@pytest.mark.parametrize("source", ["flag", "variable", "key"])
def test_a_number_that_reads_as_zero_is_refused(csgm, place, monkeypatch, source):
    """A limit of 1e-400 must not become a limit of 0, which is allowed, wherever it is written."""
    line = "account --sigma 9 --mechanism gaussian --delta 1e-6"
    assert csgm(f"{line} --max-epsilon 0e5").status == 1
    if source == "key":
        (place / "csgm.toml").write_text("[tool.csgm]\nmax-epsilon = 1e-400\n")
    if source == "variable":
        monkeypatch.setenv("CSGM_MAX_EPSILON", "1e-400")
    outcome = csgm(f"{line} --max-epsilon -1e-400" if source == "flag" else line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "1e-400', which float64 cannot tell from 0" in outcome.stderr


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("CSGM_DETLA", "; did you mean CSGM_DELTA?"),
        ("CSGM_ADJACENCYY", "; did you mean CSGM_ADJACENCY?"),
        ("CSGM_COHORTSIZE", "; did you mean CSGM_COHORT_SIZE?"),
        ("CSGM_QQQ", " is the variable of no option"),
    ],
)
@pytest.mark.parametrize("line", ["calibrate", "version --format json"])
def test_misspelt_variable(csgm, monkeypatch, line, variable, said):
    """A variable that sets nothing is named before an error that it may explain; stdout is the same."""
    plain = csgm(line)
    monkeypatch.setenv(variable, "replace-one")
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (plain.status, plain.stdout)
    first, rest = outcome.stderr.split("\n", 1)
    assert first.startswith(f"warning[unknown-variable]: {variable} is")
    assert first.endswith(said)
    assert rest == plain.stderr


def test_known_variables_are_not_warned_of(csgm, monkeypatch):
    """Every option's variable is known, whichever command is run, and so is CSGM_DEBUG."""
    for name in ("CSGM_DEBUG", "CSGM_CONFIG", "CSGM_MAX_MSE_OVERHEAD", "CSGM_FROM", "CSGMX", "XCSGM_Y"):
        monkeypatch.setenv(name, "")
    assert csgm("version").stderr == ""


@pytest.mark.parametrize("output", ["new/", "new/.", "new/..", "deep/new/", "", ".", "..", "/", "a\0b"])
def test_output_that_names_no_file(csgm, place, output):
    """A name that means a folder is refused, whether the folder is there or not, and nothing is written."""
    outcome = csgm("version", "--output", output)
    assert (outcome.status, outcome.stdout) == (4, "")
    assert outcome.stderr.startswith(f"error[cannot-write]: cannot write {output!r}: ")
    assert [path.name for path in place.iterdir()] == [".git"]


@pytest.mark.parametrize("mechanism", ["linf-csgm", "l2-csgm"])
def test_the_accountant_is_refused_before_the_target(csgm, mechanism):
    """A question that cannot be asked is exit code 2, also where its target would have no answer."""
    line = f"calibrate --epsilon 3 --delta 0.9 --gamma 0.5 --dim 1 --norm-ratio 1 --mechanism {mechanism}"
    assert csgm(line).status == 3
    assert csgm(f"{line} --accountant exact").status == 2


def test_delta_next_to_one_is_not_shown_as_one(csgm):
    """The message says which delta it speaks of."""
    line = "calibrate --epsilon 3 --delta 0.9999999999999999 --gamma 0.5 --dim 1 --norm-ratio 1"
    assert "delta 0.9999999999999999 alone" in csgm(line).stderr


def test_target_that_delta_covers(csgm):
    """A target that needs no noise has no answer: exit code 3, with the reason."""
    outcome = csgm("calibrate --epsilon 3 --delta 0.9 --gamma 1e-9 --dim 100 --cohort-size 10")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert outcome.stderr.splitlines()[-2].startswith("error[delta-covers-target]")


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.floats(-400, 10).map(lambda exponent: f"1e{exponent:.0f}"),
    st.sampled_from(
        ["0", "-0", "1", "1e6", "1_000", "nan", "1e-300", "abc", "", "--", "=", "\x00", "\ud800"]
    ),
)
OPTIONS = [
    "--epsilon",
    "--delta",
    "--gamma",
    "--compression",
    "--norm-ratio",
    "--linf-norm",
    "--l2-norm",
    "--rounds",
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["calibrate", "account", "compare", "plan"]),
    st.dictionaries(
        st.sampled_from([*OPTIONS, "--sigma", "--max-noise-overhead", "--nosuch"]), numbers, max_size=9
    ),
)
def test_any_line(place, capsys, command, options):
    """Whatever the values: a known exit code, no traceback, and a result or an error but never both."""
    status = main([command, *(word for pair in options.items() for word in pair), "--format", "json"])
    captured = capsys.readouterr()
    document = json.loads(
        captured.out, parse_constant=lambda literal: pytest.fail(f"{literal} in the output")
    )
    assert status in (0, 2, 3)
    assert "Traceback" not in captured.err
    assert (document["schema"] == "csgm/error/1") == (status != 0)


@pytest.mark.parametrize("rounds", [1, 10, 10**8])
@settings(max_examples=34, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(-3, 2.5), st.floats(-60, -1), st.floats(-5, 0), st.floats(0, 5.5))
def test_accepted_target(place, capsys, rounds, epsilon, delta, gamma, ratio):
    """An accepted target gets positive finite noise with which account meets it, and just less does not."""
    target = 10**epsilon
    setting = ["--gamma", repr(10**gamma), "--norm-ratio", repr(10**ratio), "--rounds", str(rounds)]
    setting += ["--delta", repr(10**delta), "--value"]
    status = main(["calibrate", "--epsilon", repr(target), *setting])
    noise = capsys.readouterr().out
    assert status in (0, 3)
    if status == 0:
        assert 0 < float(noise) < math.inf
        assert main(["account", "--noise-multiplier", noise.strip(), *setting]) == 0
        assert float(capsys.readouterr().out) <= target
        assert main(["account", "--noise-multiplier", repr(float(noise) * (1 - 1e-8)), *setting]) == 0
        assert float(capsys.readouterr().out) > target


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("calibrate --sigma 3", "--sigma is an option of csgm account and sweep; csgm calibrate --help"),
        ("plan --gamma 0.1", "--gamma is an option of csgm calibrate, account, compare and sweep; csgm plan"),
        ("calibrate --T 32", "--T is an option of csgm factorize; here: --factorization STRATEGY:T"),
        ("plan --strategy tree", "--strategy is an option of csgm factorize; here: --factorization"),
        ("inspect --strategy tree", "--strategy is an option of csgm factorize; csgm inspect --help"),
        ("calibrate --jobs 2", "--jobs is an option of csgm sweep; csgm calibrate --help"),
        ("calibrate --zzz 3", "csgm calibrate --help"),
    ],
)
def test_an_option_of_another_command_is_sent_there(csgm, line, hint):
    """No option that is spelled a little like it is suggested instead."""
    first, second = csgm(line).stderr.splitlines()
    assert first == f"error[unknown-option]: no such option: {line.split()[1]}"
    assert second.startswith(f"  try: {hint}")


def test_a_missing_ratio_names_what_gives_it(csgm):
    """The message says what is missing, and the hint every flag that would do."""
    first, second = csgm("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1").stderr.splitlines()
    assert first.startswith("error[missing-norm-ratio]: norm_ratio is missing")
    for flag in ("--norm-ratio", "--linf-norm", "--l2-norm", "--dim", "--cohort-size"):
        assert flag in second


def test_annotations_are_for_check_alone(csgm):
    """No other command has the format github, so that none writes its error in it."""
    outcome = csgm("calibrate --format github")
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("error[unknown-choice]")
    assert csgm("check --format github nowhere.toml").stdout.startswith("::error ")
