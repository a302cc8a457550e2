"""The shipped reference values: right, independent of this machine's libraries, and able to fail."""

import dataclasses
import math

import pytest

from csgm_cli.core import log_moment, oracle
from csgm_cli.core import selftest as module
from csgm_cli.core.selftest import selftest
from csgm_cli.model import SelftestCase


def test_every_case_holds_here():
    """All shipped values agree to far better than the tolerance."""
    cases = selftest()
    assert len(cases) == len(module._LOG_MOMENTS) + len(module._CALIBRATED)
    assert all(case.holds for case in cases)
    assert max(case.relative_difference for case in cases) < 1e-11


def test_names_are_unique_and_say_what_was_computed():
    """A mismatch can be reported by its name."""
    names = [case.name for case in selftest()]
    assert len(set(names)) == len(names)
    assert any(name.startswith("log-moment order=") for name in names)
    assert any("replace-one" in name for name in names)


def test_the_shipped_log_moments_are_right():
    """The oracle recomputes each constant to the last printed digit."""
    for order, gamma, t, expected in module._LOG_MOMENTS:
        assert float(oracle.log_moment(order, gamma, t)) == pytest.approx(expected, rel=1e-15)


def test_the_shipped_calibrations_are_the_reference_values(reference):
    """Each constant stands in the reference file under the same inputs."""
    rows = reference["accounting"]
    known = {float(row["noise_multiplier"]) for row in rows["gaussian"]}
    known |= {row["noise_multiplier"] for kind in ("paper", "rdp") for row in rows[kind]}
    known |= {row["effective"] * row["gamma"] for row in rows["replace_one"]}
    for case in module._CALIBRATED:
        assert any(math.isclose(case.noise_multiplier, value, rel_tol=1e-14) for value in known), case


@pytest.mark.parametrize("broken", [lambda value: value * (1 + 1e-6), lambda value: math.nan])
def test_a_broken_library_is_noticed(monkeypatch, broken):
    """A log-moment off by a millionth, or NaN, makes cases fail, not pass."""
    right = log_moment.log_moment

    def wrong(order, gamma, t):
        found = right(order, gamma, t)
        return dataclasses.replace(found, value=broken(found.value))

    monkeypatch.setattr(module, "log_moment", wrong)
    cases = selftest()
    failed = {case.name for case in cases if not case.holds}
    assert failed == {case.name for case in cases if case.name.startswith("log-moment")}


def test_a_broken_calibration_is_noticed(monkeypatch):
    """The same when only the curves see the broken log-moment."""
    right = log_moment.mixed_log_moments

    def wrong(order, coordinates):
        return [dataclasses.replace(m, value=m.value * (1 + 1e-6)) for m in right(order, coordinates)]

    monkeypatch.setattr(log_moment, "mixed_log_moments", wrong)
    failed = [case.name for case in selftest() if not case.holds]
    assert sum(name.startswith("calibrate rdp") for name in failed) >= 4
    assert sum(name.startswith("calibrate paper") for name in failed) >= 2
    assert not any("exact" in name for name in failed)


def test_nan_never_holds():
    """A comparison with NaN is a failure."""
    assert not SelftestCase("x", 1.0, math.nan, math.nan, 1e-9).holds
    assert SelftestCase("x", 1.0, 1.0, 0.0, 1e-9).holds
    assert not SelftestCase("x", 1.0, 1.1, 0.1, 1e-9).holds
