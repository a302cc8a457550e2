"""Lines with any numbers: a known exit code, one document, and noise that account confirms."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.cli import main

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
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(-3, 2.5), st.floats(-60, -1), st.floats(-4, 0), st.floats(0, 5.5))
def test_accepted_target(place, capsys, rounds, epsilon, delta, gamma, ratio):
    """An accepted target gets positive finite noise with which account meets it, and 1e-5 less does not."""
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
        assert main(["account", "--noise-multiplier", repr(float(noise) * (1 - 1e-5)), *setting]) == 0
        assert float(capsys.readouterr().out) > target
