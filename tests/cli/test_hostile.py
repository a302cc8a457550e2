"""Bad and hostile input: one message that names source, value and range, the right exit code, and no more."""

import json
import math

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
    assert all(part in first for part in (option, repr(value), said))
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
        ("calibrte", "did you mean calibrate?"),
        ("--format json version", "options follow the command"),
        ("completion bahs", "did you mean bash?"),
    ],
)
def test_helpful_message(csgm, line, said):
    """Where the mistake can be guessed, the message says what was probably meant."""
    assert said in csgm(line).stderr


def test_long_value_is_cut_in_the_message(csgm):
    """A megabyte of nonsense does not come back as a megabyte of message."""
    outcome = csgm("calibrate", "--epsilon", "9" * 10**6)
    assert outcome.status == 2
    assert len(outcome.stderr) < 300


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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(-3, 2.5),
    st.floats(-60, -1),
    st.floats(-5, 0),
    st.floats(0, 5.5),
    st.sampled_from([1, 10, 10**8]),
)
def test_accepted_target(place, capsys, epsilon, delta, gamma, ratio, rounds):
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
