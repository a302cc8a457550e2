"""Verification by the oracle: it passes what is right and catches a float64 path that is not."""

import dataclasses
import math
from dataclasses import replace

import pytest

from csgm_cli.core import (
    account,
    bounds,
    calibrate,
    contour_oracle,
    conversion,
    curves,
    gaussian,
    log_moment,
    loss_event,
    loss_far,
    loss_line,
    loss_mixture,
    oracle,
    profile,
    renyi_noise,
    tight,
    tilt_oracle,
)
from csgm_cli.core.bounds import Spent
from csgm_cli.core.verify import verify_delta, verify_epsilon
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.model.mechanism import Accountant, Bound, Geometry, Mechanism, Target

SPARSE = Mechanism("l2-csgm", 0.01, Geometry(156.25), 3)
TARGET = Target(2.0, 1e-7)
GOOD = [
    (SPARSE, Accountant.RDP, Bound.RDP),
    (SPARSE, Accountant.PAPER, Bound.PAPER),
    (dataclasses.replace(SPARSE, adjacency="replace-one"), Accountant.AUTO, Bound.RDP),
    (dataclasses.replace(SPARSE, adjacency="replace-one"), Accountant.RDP, Bound.RDP),
    (Mechanism("l2-csgm", 0.9999, Geometry(2.0)), Accountant.AUTO, Bound.MASK_REVEALED),
    (Mechanism("linf-csgm", 0.01, Geometry(10.0, dim=300)), Accountant.RDP, Bound.RDP),
    (Mechanism("gaussian"), Accountant.AUTO, Bound.EXACT),
    (Mechanism("gaussian"), Accountant.PAPER, Bound.PAPER),
]


@pytest.mark.parametrize(("mechanism", "accountant", "bound"), GOOD)
def test_good_answers_pass(mechanism, accountant, bound):
    """Every bound, in calibrate and in both directions of account, to far better than asked."""
    answer = calibrate.calibrate(mechanism, TARGET, accountant, verify=True)
    epsilon = account_epsilon(mechanism, answer.sigma, [1e-4, 1e-11], accountant, verify=True)
    delta = account_delta(mechanism, answer.sigma, 1.0, accountant, verify=True)
    for guarantee in (answer.guarantee, *epsilon.guarantees, *delta.guarantees):
        assert guarantee.bound is bound
        assert guarantee.verified.digits == 50
        assert 0 <= guarantee.verified.relative_difference < 1e-10


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "epsilon", "delta"),
    [
        (0.0312, 614.0, 1, 2.0, 1e-6),
        (0.05, 300.0, 10, 4.0, 1e-7),
        (0.04, 305.59, 10, 4.0, 1e-7),
        (0.01, 1000.0, 1, 5.0, 1e-8),
        (0.03, 90.0, 100, 7.5, 1e-5),
        (0.1, 200.0, 30, 1.0, 1e-9),
        (0.2, 60.0, 3, 3.0, 1e-6),
        (0.005, 700.0, 3, 0.7, 1e-7),
    ],
)
def test_bounds_of_the_profile_have_the_digits_of_their_integrals(gamma, ratio, rounds, epsilon, delta):
    """The float64 integral is that of 30 digits, next to a pole of the test function too."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    answer = calibrate.calibrate(mechanism, Target(epsilon, delta), verify=True)
    assert answer.guarantee.bound in (Bound.TIGHT_ADD, Bound.TIGHT_REMOVE)
    assert answer.guarantee.verified.digits == 30
    assert answer.guarantee.verified.relative_difference < 5e-11


def test_zeros_and_floors_pass():
    """Epsilon 0, delta at the floor and delta 1 are right answers too."""
    assert account_epsilon(SPARSE, 10.0, [0.5], verify=True).guarantees[0].epsilon == 0.0
    assert account_delta(SPARSE, 10.0, 1e3, verify=True).guarantees[0].delta == 1e-300
    assert account_delta(SPARSE, 1e-6, 0.1, verify=True).guarantees[0].delta == 1.0


def test_nothing_is_verified_without_being_asked(monkeypatch):
    """The oracle costs time and is left alone."""
    monkeypatch.setattr(oracle, "epsilon", lambda *arguments: pytest.fail("the oracle was asked"))
    assert calibrate.calibrate(SPARSE, TARGET).guarantee.verified is None


@pytest.mark.parametrize("factor", [1 - 1e-15, 1 - 1e-6, 0.5, 1 + 1e-8, 2.0, math.nan, 0.0])
def test_wrong_numbers_are_refused(factor):
    """Anything below the oracle's value, anything 1e-9 above it, and NaN."""
    exact = float(oracle.epsilon(SPARSE, 0.02, 1e-7, 6.0, Bound.RDP))
    exact_delta = float(oracle.delta(SPARSE, 0.02, 2.0, 6.0, Bound.RDP))
    for call, value in (
        (lambda spent: verify_epsilon(SPARSE, 0.02, 1e-7, spent), exact),
        (lambda spent: verify_delta(SPARSE, 0.02, 2.0, spent), exact_delta),
    ):
        with pytest.raises(NoAnswerError) as caught:
            call(Spent(value * factor, 6.0, Bound.RDP))
        assert caught.value.slug == "verification-failed"
        assert caught.value.exit_status == 3
        assert call(Spent(value * (1 + 1e-12), 6.0, Bound.RDP)).digits == 50


# ---------------------------------------------------------------- mutations of the float64 path


def every_answer():
    """Calls that each must fail under a mutation: calibrate, epsilon and delta."""
    return (
        lambda: calibrate.calibrate(SPARSE, TARGET, Accountant.RDP, verify=True),
        lambda: account_epsilon(SPARSE, 0.02, [1e-7], Accountant.RDP, verify=True),
        lambda: account_delta(SPARSE, 0.02, 2.0, Accountant.RDP, verify=True),
    )


def assert_caught(calls, slug="verification-failed"):
    """Every call ends in no answer, for the named reason."""
    for call in calls:
        with pytest.raises(NoAnswerError) as caught:
            call()
        assert caught.value.slug == slug


@pytest.mark.parametrize("factor", [1 - 1e-6, 1 + 1e-6])
def test_a_log_moment_off_by_a_millionth_is_caught(monkeypatch, factor):
    """Below it would be unsafe, above it is wrong all the same."""
    right = log_moment.mixed_log_moments

    def wrong(order, coordinates):
        return [dataclasses.replace(found, value=found.value * factor) for found in right(order, coordinates)]

    monkeypatch.setattr(log_moment, "mixed_log_moments", wrong)
    assert_caught(every_answer())


def test_a_dropped_term_of_the_conversion_is_caught(monkeypatch):
    """Without log(1 - 1/a) both directions are wrong, and the search finds the wrong order's wrong value."""
    monkeypatch.setattr(conversion, "log_shrink", lambda order: 0.0)
    assert_caught(every_answer())


def test_a_flipped_sign_in_the_conversion_is_caught(monkeypatch):
    """The same with the term added where it is subtracted."""
    right = conversion.log_shrink
    monkeypatch.setattr(conversion, "log_shrink", lambda order: -right(order))
    assert_caught(every_answer()[:2])


def test_a_search_that_returns_too_little_noise_is_caught(monkeypatch):
    """The achieved epsilon is above the target: refused without any verification."""
    right = renyi_noise.least_safe
    monkeypatch.setattr(renyi_noise, "least_safe", lambda is_safe, near: right(is_safe, near) * 0.999)
    assert_caught([lambda: calibrate.calibrate(SPARSE, TARGET, Accountant.RDP)], "not-certified")


def test_a_shifted_gaussian_profile_is_caught(monkeypatch):
    """delta and epsilon of the exact accountant, and of revealed masks, come from the same pair of logs."""
    right = gaussian._log_pair

    def wrong(mu, epsilon):
        log_d, log_rest, u1, u2 = right(mu, epsilon)
        return log_d - 1e-6, log_rest, u1, u2

    monkeypatch.setattr(gaussian, "_log_pair", wrong)
    dense, revealed = Mechanism("gaussian"), Mechanism("l2-csgm", 0.9999, Geometry(2.0))
    for mechanism in (dense, revealed):
        assert_caught(
            [
                lambda mechanism=mechanism: calibrate.calibrate(mechanism, TARGET, verify=True),
                lambda mechanism=mechanism: account_epsilon(mechanism, 2.0, [1e-7], verify=True),
                lambda mechanism=mechanism: account_delta(mechanism, 2.0, 2.0, verify=True),
            ]
        )


def test_a_wrong_count_of_coordinates_is_caught(monkeypatch):
    """A curve that forgets one of the rounds disagrees with the oracle's own reading of the mechanism."""
    right = curves.renyi_curve
    fewer = dataclasses.replace(SPARSE, rounds=2)
    for module in (curves, renyi_noise):
        monkeypatch.setattr(module, "renyi_curve", lambda mechanism, bound: right(fewer, bound))
    assert_caught(every_answer())


def test_a_smaller_candidate_that_is_no_bound_is_caught(monkeypatch):
    """Whatever number wins the comparison of bounds is the one that is verified."""
    for name in ("least_epsilon", "least_delta"):
        right = getattr(bounds, name)
        wrong = lambda *a, right=right, **k: dataclasses.replace(right(*a, **k), value=1e-9)
        monkeypatch.setattr(account, name, wrong)
    assert_caught(every_answer())


# ---------------------------------------------------------------- where contours do not converge

CORNER = Mechanism("l2-csgm", 0.02, Geometry(1.5))  # few mask bits are ever set
ALL_AT_THE_CLIP = Mechanism("l2-csgm", 0.02, Geometry(1.0, dim=1), 3)
#: (mechanism, sigma, epsilon) and what decides there
BRACKETS = [((CORNER, 0.45, 5.0), Bound.TIGHT_ADD), ((ALL_AT_THE_CLIP, 0.7, 4.0), Bound.PROFILE)]


@pytest.mark.parametrize(("setting", "bound"), BRACKETS)
def test_brackets_are_recomputed(setting, bound):
    """What the float64 bracket proves is what high precision finds, to within its slack."""
    guarantee = account_delta(*setting, verify=True).guarantees[0]
    assert guarantee.bound is bound
    assert guarantee.verified.digits == 8
    assert 0 < guarantee.verified.relative_difference < 1e-4


@pytest.mark.parametrize(
    ("setting", "factor"),
    [(BRACKETS[0][0], 1 - 2e-4), (BRACKETS[0][0], 1 + 1e-3), (BRACKETS[1][0], 1 - 2e-4)],
)
def test_a_bracket_that_is_off_is_caught(monkeypatch, setting, factor):
    """The chance that some loss is far, and the transform of the others, off by little."""
    right_sum, right_far = loss_line.Transform.integral, loss_far._far

    def wrong_sum(self, *arguments, **options):
        value, error = right_sum(self, *arguments, **options)
        return value * factor, error

    def wrong_far(*arguments):
        far = right_far(*arguments)
        return dataclasses.replace(far, p=far.p * factor, log_q=far.log_q + math.log(factor))

    def forget():
        events = (loss_event.add_event, loss_mixture.convex_event, loss_mixture.power_event)
        for cached in (tight.tight_delta, profile.profile, *events, loss_mixture._mixture_event):
            cached.cache_clear()

    monkeypatch.setattr(loss_line.Transform, "integral", wrong_sum)
    monkeypatch.setattr(loss_far, "_far", wrong_far)
    forget()
    try:
        assert_caught([lambda: account_delta(*setting, verify=True)])
    finally:
        forget()


def test_what_would_take_too_long_is_refused_at_once(monkeypatch):
    """Before anything is summed: the number of steps is known beforehand."""
    monkeypatch.setattr(tilt_oracle, "exponential_sums", lambda *arguments: pytest.fail("a sum was begun"))
    monkeypatch.setattr(contour_oracle, "_MUCH", replace(contour_oracle._MUCH, turns=1000))
    assert_caught([lambda: account_delta(*BRACKETS[0][0], verify=True)], "oracle-not-converged")


L2, LINF = "l2-csgm", "linf-csgm"
#: (mechanism, epsilon, delta) with few mask bits, each of little or of much weight.
FEW_BITS = [
    (Mechanism(L2, 0.0048235, Geometry(47.06)), 0.59, 2.249e-6),
    (Mechanism(L2, 1.3736e-4, Geometry(26**0.5, dim=26), 4110), 0.14836, 1.166e-9),
    (Mechanism(L2, 2.1974e-4, Geometry(4.852), 14), 0.15624, 7.878e-10),
    (Mechanism(LINF, 0.0032917, Geometry(1.346, dim=2), 32), 1.2453, 9.492e-11),
    (Mechanism(LINF, 0.0029443, Geometry(1.7, dim=3), 929), 0.05426, 5.69e-10),
    (Mechanism(L2, 1.7765e-4, Geometry(1.46323), 2552), 0.5371, 7.891e-7),
    (Mechanism(LINF, 0.00384, Geometry(1.2385, dim=2), 1143), 0.59803, 1.165e-5),
    (Mechanism(L2, 0.0057855, Geometry(1.81115), 18), 0.54756, 2.907e-7),
    (Mechanism(L2, 4.7653e-4, Geometry(2.0055), 4), 1.0405, 2.555e-8),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), FEW_BITS)
def test_few_mask_bits_are_verified(mechanism, epsilon, delta):
    """Where a characteristic function falls slowly, and where it falls long before a blur would."""
    answer = calibrate.calibrate(mechanism, Target(epsilon, delta), verify=True)
    assert answer.guarantee.bound in (Bound.TIGHT_ADD, Bound.TIGHT_REMOVE, Bound.PROFILE)
    assert answer.guarantee.verified.relative_difference < 1e-4


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta", "off"),
    [
        (Mechanism(L2, 1e-6, Geometry(3162.0)), 1e-3, 1e-6, 1e-4),
        (Mechanism(L2, 0.3, Geometry(1.0)), 0.1, 1e-5, 1e-4),
        (Mechanism(L2, 1e-8, Geometry(1e6), 10**6), 0.01, 1e-10, 1e-11),
        (Mechanism(L2, 1e-9, Geometry(2962.818, dim=846_000_000), 10**9), 0.37, 8e-9, 1e-11),
    ],
)
def test_large_exponents_are_verified(mechanism, epsilon, delta, off):
    """Of test functions on brackets and on contours; those of a million touch within 1e-15 of a strike."""
    answer = calibrate.calibrate(mechanism, Target(epsilon, delta), verify=True)
    found = tight.tight_delta(mechanism, answer.sigma, epsilon)
    assert answer.guarantee.bound is Bound.TIGHT_ADD
    assert found.add.exponent > 0.5
    assert answer.guarantee.verified.relative_difference < off


def test_a_far_saddle_of_the_remove_direction_is_verified():
    """At order -1000 the nodes lie where losses that fall are likely, and not 1000 deviations out."""
    mechanism = Mechanism(L2, 1.1369e-4, Geometry(26**0.5, dim=26), 61)
    guarantee = account_epsilon(mechanism, 0.1973, [1.7708e-5], verify=True).guarantees[0]
    assert guarantee.verified.relative_difference < 1e-4
