"""The shipped reference values: right, independent of this machine's libraries, and able to fail."""

import dataclasses
import math

import mpmath
import pytest

from csgm_cli.jobs import selftest as module
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.jobs.selftest import selftest
from csgm_cli.model.comparison import SelftestCase
from csgm_cli.model.mechanism import Accountant, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.renyi import log_moment
from csgm_cli.verify.log_moment import log_moment as precise_log_moment


def test_every_case_holds_here():
    """All shipped values agree to far better than the tolerance."""
    cases = selftest()
    tables = (module._LOG_MOMENTS, module._SAMPLED, module._CALIBRATED, module._ACCOUNTED)
    assert len(cases) == sum(map(len, tables)) + 1  # and a sensitivity
    assert all(case.holds for case in cases)
    tight = [case for case in cases if case.name.startswith("account tight")]
    sampled = [case for case in cases if case.name.startswith("calibrate") and " q=" in case.name]
    others = [case for case in cases if case not in (*tight, *sampled)]
    assert max(case.relative_difference for case in others) < 1e-11
    # the margin in epsilon with client sampling is 1e-10
    assert max(case.relative_difference for case in sampled) < 1e-10
    # a contour's own error is added to its delta, and the reference profiles have ten digits
    assert max(case.relative_difference for case in tight) < 5e-10


def test_names_are_unique_and_say_what_was_computed():
    """A mismatch can be reported by its name."""
    names = [case.name for case in selftest()]
    assert len(set(names)) == len(names)
    assert any(name.startswith("log-moment order=") for name in names)
    assert any("replace-one" in name for name in names)


def test_the_shipped_log_moments_are_right():
    """The oracle recomputes each constant to the last printed digit."""
    for order, gamma, t, expected in module._LOG_MOMENTS:
        assert float(precise_log_moment(order, gamma, t)) == pytest.approx(expected, rel=1e-15)


def test_the_shipped_log_moments_with_client_sampling_are_the_reference_values(reference):
    """Each constant stands in the reference file under the same inputs."""
    names = ("order", "q", "gamma", "k", "sigma_over_D2", "log_moment")
    known = {tuple(row[name] for name in names) for row in reference["client_sampling"]["rdp"]}
    assert set(module._SAMPLED) <= known


def test_the_shipped_calibrations_are_the_reference_values(reference):
    """Each constant stands in the reference file under the same inputs."""
    rows = reference["accounting"]
    known = {float(row["noise_multiplier"]) for row in rows["gaussian"]}
    known |= {row["noise_multiplier"] for kind in ("paper", "rdp") for row in rows[kind]}
    known |= {row["effective"] * row["gamma"] for row in rows["replace_one"]}
    known |= {2 * float(row["noise_multiplier"]) for row in rows["gaussian"]}  # twice the sensitivity
    known |= {row["kappa_star"] for row in reference["client_sampling"]["noise_multipliers"] if row["g"] == 1}
    for case in module._CALIBRATED:
        assert any(math.isclose(case.noise_multiplier, value, rel_tol=1e-14) for value in known), case


def test_the_shipped_deltas_are_right(reference):
    """Closed forms in 50 digits for one coordinate; the larger direction of the reference profiles else."""
    profiles = {
        (row["epsilon"], row["gamma"], row["k"], row["sigma_over_dinf"], row["rounds"]): row
        for row in reference["profile"]
    }
    with mpmath.workdps(50):
        for case in module._ACCOUNTED:
            if case.k > 1:
                row = profiles[case.epsilon, case.gamma, case.k, case.noise, case.rounds]
                assert case.delta == max(row["delta_add"], row["delta_remove"])
                continue
            epsilon = mpmath.log(1 + mpmath.expm1(case.epsilon) / case.gamma)
            mu = mpmath.sqrt(case.rounds) / case.noise
            tails = [mpmath.ncdf(side * mu / 2 - epsilon / mu) for side in (1, -1)]
            truth = case.gamma * (tails[0] - mpmath.exp(epsilon) * tails[1])
            assert case.gamma == 1 or case.rounds == 1
            assert case.delta == pytest.approx(float(truth), rel=4e-16)


def test_every_kind_of_bound_is_recomputed():
    """Exact, both Renyi bounds, revealed masks, the profile and its lower bound, both adjacencies."""
    names = " ".join(case.name for case in selftest())
    for accountant in Accountant:
        assert f" {accountant} " in names
    revealed = next(case for case in module._CALIBRATED if case.accountant is Accountant.AUTO)
    mechanism = Mechanism("l2-csgm", revealed.gamma, Geometry(10.0), adjacency="replace-one")
    assert calibrate(mechanism, Target(1, 1e-5)).guarantee.bound is Bound.MASK_REVEALED
    sparse = [case for case in module._ACCOUNTED if case.gamma < 1]
    assert {case.k == int(case.k) for case in sparse} == {True, False}


def test_a_broken_account_is_noticed(monkeypatch):
    """Deltas off by a millionth fail, one by one."""
    right = module.account_delta

    def wrong(*arguments):
        found = right(*arguments)
        [one] = found.guarantees
        low = one.lower_bound and one.lower_bound * (1 + 1e-6)
        return dataclasses.replace(
            found, guarantees=(dataclasses.replace(one, delta=one.delta * (1 + 1e-6), lower_bound=low),)
        )

    monkeypatch.setattr(module, "account_delta", wrong)
    failed = {case.name for case in selftest() if not case.holds}
    assert failed == {case.name for case in module._ACCOUNTED}


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
    assert failed == {case.name for case in cases if " t=" in case.name and "log-moment" in case.name}


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
