"""Bad input: one message that names source, value and range, the right exit code, and no more."""

import pytest

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
    assert outcome.document["error"].keys() == {"slug", "message", "hint", "file", "line"}
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
        (
            "plan --epsilon 3 --delta 1e-6 --norm-ratio 9 --max-noise-overhead 1 --gamma 0.1",
            "conflicting-options",
        ),
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


@pytest.mark.parametrize("source", ["flag", "variable", "key"])
def test_a_number_that_reads_as_zero_is_refused(csgm, configured, monkeypatch, source):
    """A limit of 1e-400 must not become a limit of 0, which is allowed, wherever it is written."""
    line = "account --sigma 9 --mechanism gaussian --delta 1e-6"
    assert csgm(f"{line} --max-epsilon 0e5").status == 1
    if source == "key":
        configured("[tool.csgm]\nmax-epsilon = 1e-400\n")
    if source == "variable":
        monkeypatch.setenv("CSGM_MAX_EPSILON", "1e-400")
    outcome = csgm(f"{line} --max-epsilon -1e-400" if source == "flag" else line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "1e-400', which float64 cannot tell from 0" in outcome.stderr


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


def test_target_that_delta_covers(csgm):
    """A target that needs no noise has no answer: exit code 3, with the reason."""
    outcome = csgm("calibrate --epsilon 3 --delta 0.9 --gamma 1e-9 --dim 100 --cohort-size 10")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert outcome.stderr.splitlines()[-2].startswith("error[delta-covers-target]")


def test_annotations_are_for_check_alone(csgm):
    """No other command has the format github, so that none writes its error in it."""
    outcome = csgm("calibrate --format github")
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("error[unknown-choice]")
    assert csgm("check --format github nowhere.toml").stdout.startswith("::error ")
