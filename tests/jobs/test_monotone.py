"""Harder targets and larger exposure never need less noise: property tests over the whole domain."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Geometry, Mechanism, Target
from csgm_cli.ranges import RANGES

#: The bracket of a calibration is this wide, with room: two answers may differ by it and no more.
SLACK = 3e-12


def logarithmic(low, high):
    """Floats in [low, high], even in the logarithm, ends included."""
    return st.one_of(
        st.floats(math.log(low), math.log(high)).map(lambda x: min(max(math.exp(x), low), high)),
        st.sampled_from([low, high]),
    )


EPSILON = logarithmic(1e-6, 1e4)
DELTA = st.one_of(logarithmic(1e-300, 0.99), logarithmic(1e-12, 0.99), st.sampled_from([1 - 1e-12, 0.999999]))
GAMMA = st.one_of(logarithmic(1e-9, 1.0), st.floats(0.01, 1.0))
RATIO = logarithmic(1.0, 1e6)
ROUNDS = st.one_of(st.integers(1, 30), logarithmic(1, 1e9).map(round))
CASE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["l2-csgm", "l2-csgm", "linf-csgm", "gaussian"]),
        "gamma": GAMMA,
        "norm_ratio": RATIO,
        "rounds": ROUNDS,
        "adjacency": st.sampled_from(Adjacency),
        "epsilon": EPSILON,
        "delta": DELTA,
        "accountant": st.sampled_from([Accountant.AUTO, Accountant.RDP, Accountant.PAPER]),
    }
)


def least_noise(case):
    """The calibration of a case; None where it rightly has none."""
    exact = case["name"] == "gaussian"
    dim = 10**12 if case["name"] == "linf-csgm" else None
    mechanism = Mechanism(
        case["name"],
        1.0 if exact else case["gamma"],
        Geometry(case["norm_ratio"], dim=dim),
        case["rounds"],
        case["adjacency"],
    )
    try:
        return calibrate(mechanism, Target(case["epsilon"], case["delta"]), case["accountant"])
    except NoAnswerError as error:
        if error.slug not in ("delta-covers-target", "no-noise-in-range"):
            raise
        return None


def check(case, parameter, other, harder):
    """Compare the case with itself at the other value of ``parameter``; ``harder`` picks the harder value."""
    pair = sorted([case[parameter], other])
    easy, hard = pair if harder is max else pair[::-1]
    less, more = (least_noise({**case, parameter: value}) for value in (easy, hard))
    if less is not None and more is not None:
        assert less.sigma <= more.sigma * (1 + SLACK)
        for found in (less, more):
            assert 0 < found.sigma < math.inf
            assert found.guarantee.epsilon <= case["epsilon"] or parameter == "epsilon"
    return less, more


def property_test(function):
    """The same 60 examples in every run."""
    return settings(max_examples=60, deadline=None, derandomize=True, database=None)(function)


@property_test
@given(CASE, EPSILON)
def test_a_smaller_epsilon_needs_no_less_noise(case, other):
    """Sigma does not increase in epsilon."""
    check(case, "epsilon", other, min)


@property_test
@given(CASE, DELTA)
def test_a_smaller_delta_needs_no_less_noise(case, other):
    """Sigma does not increase in delta."""
    check(case, "delta", other, min)


@property_test
@given(CASE, RATIO)
def test_a_smaller_ratio_needs_no_less_noise(case, other):
    """Sigma does not increase in norm_ratio: larger coordinates are easier to see."""
    check(case, "norm_ratio", other, min)


@property_test
@given(CASE, ROUNDS)
def test_more_rounds_need_no_less_noise(case, other):
    """Sigma does not decrease in rounds."""
    check(case, "rounds", other, max)


@property_test
@given(CASE, GAMMA)
def test_a_larger_gamma_needs_no_less_noise_but_no_more_effective_noise(case, other):
    """Sigma does not decrease in gamma, and sigma / gamma does not increase in it."""
    less, more = check(case, "gamma", other, max)
    if less is None or more is None:
        return
    if Accountant.TIGHT not in (less.accountant, more.accountant):  # the tight bounds have a corner
        assert more.effective_noise_multiplier <= less.effective_noise_multiplier * (1 + SLACK)


@property_test
@given(CASE, EPSILON, DELTA, ROUNDS)
def test_the_exact_accountant_is_monotone(case, epsilon, delta, rounds):
    """The same for exact, which only the gaussian mechanism has."""
    case = {**case, "name": "gaussian", "accountant": Accountant.EXACT}
    check(case, "epsilon", epsilon, min)
    check(case, "delta", delta, min)
    check(case, "rounds", rounds, max)


@property_test
@given(CASE)
def test_no_accountant_asks_for_less_than_a_sharper_one(case):
    """auto <= rdp <= paper, and replace-one needs no less than add-remove."""
    auto, rdp, paper = (
        least_noise({**case, "accountant": accountant})
        for accountant in (Accountant.AUTO, Accountant.RDP, Accountant.PAPER)
    )
    if auto is not None and rdp is not None and paper is not None:
        assert auto.sigma <= rdp.sigma * (1 + SLACK)
        assert rdp.sigma <= paper.sigma * (1 + SLACK)
    one, other = (least_noise({**case, "adjacency": adjacency}) for adjacency in Adjacency)
    if one is not None and other is not None:
        assert one.sigma <= other.sigma * (1 + SLACK)


@pytest.mark.parametrize("name", ["epsilon", "delta", "gamma", "norm_ratio", "rounds"])
def test_the_strategies_stay_inside_the_promised_ranges(name):
    """The examples above are all accepted input: the ends of every strategy are the promised ends."""
    low, high = {
        "epsilon": (1e-6, 1e4),
        "delta": (1e-300, 1 - 1e-12),
        "gamma": (1e-9, 1.0),
        "norm_ratio": (1.0, 1e6),
        "rounds": (1, 10**9),
    }[name]
    assert low in RANGES[name]
    assert high in RANGES[name]
    assert low == RANGES[name].low
    assert high >= RANGES[name].high * (1 - 1e-11)
