"""Calibrate and account agree where the profile methods are promised."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.accounting.accountants import spent_delta
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target

#: Less noise than this misses the target; and where a grid decides.
LESS, LESS_ON_GRID = 1e-8, 1e-5
#: By how much two answers may be out of order: the width of their brackets.
BRACKET = 3e-9


def logarithmic(low, high):
    """Floats even in the logarithm, with all their digits."""
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(max(math.exp(x), low), high))


def case(adjacency, least_gamma=1e-4):
    return st.fixed_dictionaries(
        {
            "name": st.sampled_from(["l2-csgm", "l2-csgm", "linf-csgm"]),
            "gamma": logarithmic(least_gamma, 0.999),
            "norm_ratio": logarithmic(1.0, 3000.0),
            "rounds": logarithmic(1.0, 1e4).map(round),
            "dim": logarithmic(1.0, 4.0),
            "adjacency": st.just(adjacency),
            "epsilon": logarithmic(1e-2, 20.0),
            "delta": logarithmic(1e-25, 1e-2),
        }
    )


def solved(setting):
    """The mechanism, target and calibration of a case; None where delta alone covers it.

    Under l2-csgm a small ``dim`` (in units of norm_ratio^2) leaves it unknown.
    """
    dim = math.ceil(setting["dim"] * setting["norm_ratio"] ** 2)
    known = dim if setting["name"] == "linf-csgm" or setting["dim"] > 2.0 else None
    geometry, _ = resolve_geometry(norm_ratio=setting["norm_ratio"], dim=known)
    mechanism = Mechanism(
        setting["name"], setting["gamma"], geometry, setting["rounds"], setting["adjacency"]
    )
    target = Target(setting["epsilon"], setting["delta"])
    try:
        return mechanism, target, calibrate(mechanism, target)
    except NoAnswerError as error:
        if error.slug != "delta-covers-target":
            raise
        return None


def is_on_a_grid(mechanism, sigma, epsilon):
    """Whether a certified grid, not a contour or a closed form, decides."""
    spent = spent_delta([(mechanism, sigma)], Accountant.AUTO, epsilon)
    return any(part.step is not None for c in spent.certificates for part in (c, *c.parts))


def check_least(setting):
    found = solved(setting)
    if found is None:
        return
    mechanism, target, answer = found
    [at] = account_epsilon(mechanism, answer.sigma, [target.delta]).guarantees
    assert at.epsilon <= target.epsilon
    assert 0.0 <= (answer.guarantee.lower_bound or 0.0) <= answer.noise_multiplier
    less = LESS_ON_GRID if is_on_a_grid(mechanism, answer.sigma, target.epsilon) else LESS
    [below] = account_epsilon(mechanism, answer.sigma * (1 - less), [target.delta]).guarantees
    assert below.epsilon > target.epsilon


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(case(Adjacency.ADD_REMOVE))
def test_account_confirms_the_answer_and_not_with_less_noise(setting):
    """At calibrate's sigma account gives at most the target, and at sigma (1 - 1e-8) more."""
    check_least(setting)


@settings(max_examples=1, deadline=None, derandomize=True, database=None)
@given(case(Adjacency.REPLACE_ONE, 0.02))
def test_account_confirms_the_answer_under_replace_one(setting):
    """The same of the triangle."""
    check_least(setting)


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "target"),
    [
        (0.1, 5.0, 1, Target(1.0, 1e-6)),
        (0.01, 3.3, 20, Target(2.0, 1e-7)),
        (0.3, 30.0, 7, Target(5.0, 1e-8)),
        (0.9, 2.5, 3, Target(0.5, 1e-5)),
    ],
)
def test_noise_grows_with_the_dimension_up_to_an_unknown_one(gamma, ratio, rounds, target):
    """Between dim = norm_ratio^2, where the profile is exact, and dim unknown."""
    dims = [math.ceil(ratio**2 * factor) for factor in (1.0, 1.2, 2.0, 10.0, 1e6)]
    sigmas = []
    for dim in (*dims, None):
        geometry, _ = resolve_geometry(norm_ratio=ratio, dim=dim)
        sigmas.append(calibrate(Mechanism("l2-csgm", gamma, geometry, rounds), target).sigma)
    for before, after in itertools.pairwise(sigmas):
        assert before <= after * (1 + BRACKET)


#: With all their digits, as a script computes them.
FULL_DIGITS = [0.1 + 0.2, math.pi, 7 / 9 * 10]


@pytest.mark.parametrize(
    ("epsilon", "adjacency", "accountant"),
    [
        *((e, a, by) for e in FULL_DIGITS for a in Adjacency for by in (Accountant.RDP, Accountant.PAPER)),
        *((e, Adjacency.ADD_REMOVE, Accountant.AUTO) for e in FULL_DIGITS),
        (math.pi, Adjacency.REPLACE_ONE, Accountant.AUTO),
    ],
)
def test_epsilons_of_all_digits_are_confirmed(epsilon, adjacency, accountant):
    """No rounding of epsilon on the way makes account answer more than was asked for."""
    mechanism = Mechanism("l2-csgm", 1 / 7, resolve_geometry(norm_ratio=31.7)[0], 3, adjacency)
    sigma = calibrate(mechanism, Target(epsilon, 1e-7), accountant).sigma
    [at] = account_epsilon(mechanism, sigma, [1e-7], accountant).guarantees
    [less] = account_epsilon(mechanism, sigma * (1 - LESS), [1e-7], accountant).guarantees
    assert at.epsilon <= epsilon < less.epsilon
