"""Harder targets and larger exposure never need less noise, by every accountant."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

#: Relative tolerances: closed forms over the whole domain, the profile by a contour, and by a certified grid.
CLOSED_FORM, CONTOUR, GRID = 3e-12, 1e-9, 1e-5


# ---------------------------------------------------------------- closed forms, over the whole domain


def logarithmic(low, high):
    """Floats in [low, high], even in the logarithm, ends included."""
    return st.one_of(
        st.floats(math.log(low), math.log(high)).map(lambda x: min(max(math.exp(x), low), high)),
        st.sampled_from([low, high]),
    )


VALUES = {
    "epsilon": logarithmic(1e-6, 1e4),
    "delta": st.one_of(
        logarithmic(1e-300, 0.99), logarithmic(1e-12, 0.99), st.sampled_from([1 - 1e-12, 0.999999])
    ),
    "gamma": st.one_of(logarithmic(1e-9, 1.0), st.floats(0.01, 1.0)),
    "norm_ratio": logarithmic(1.0, 1e6),
    "rounds": st.one_of(st.integers(1, 30), logarithmic(1, 1e9).map(round)),
}
#: Of two values, the one that needs more noise.
HARDER = {"epsilon": min, "delta": min, "gamma": max, "norm_ratio": min, "rounds": max}
CASE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["l2-csgm", "l2-csgm", "linf-csgm"]),
        "adjacency": st.sampled_from(Adjacency),
        "accountant": st.sampled_from([Accountant.RDP, Accountant.PAPER]),
        **VALUES,
    }
)


LARGE_DELTAS = st.one_of(st.floats(0.5, 1.0, exclude_max=True), st.sampled_from([0.9, 1 - 1e-6, 1 - 2**-53]))


def property_test(function):
    """The same examples in every run."""
    return settings(max_examples=25, deadline=None, derandomize=True, database=None)(function)


def answer(case):
    """The calibration of a case; None if it has none."""
    gaussian = case["name"] == "gaussian"
    geometry = Geometry(case["norm_ratio"], dim=10**12 if case["name"] == "linf-csgm" else None)
    gamma = 1.0 if gaussian else case["gamma"]
    mechanism = Mechanism(case["name"], gamma, geometry, case["rounds"], case["adjacency"])
    try:
        return calibrate(mechanism, Target(case["epsilon"], case["delta"]), case["accountant"])
    except NoAnswerError as error:
        if error.slug not in ("delta-covers-target", "no-noise-in-range"):
            raise
        return None


def check_order(case, name, other):
    """The answers with the easier and the harder value of ``name``, after a check that they are in order."""
    harder = HARDER[name](case[name], other)
    easier = other if harder == case[name] else case[name]
    less, more = (answer({**case, name: value}) for value in (easier, harder))
    if less is not None and more is not None:
        assert 0.0 < less.sigma <= more.sigma * (1 + CLOSED_FORM) < math.inf
    return less, more


@pytest.mark.parametrize("name", ["epsilon", "delta", "norm_ratio", "rounds"])
def test_noise_of_closed_forms_grows_with_each_value_that_makes_it_harder(name):
    """By rdp and paper, under both neighbouring relations."""

    @property_test
    @given(CASE, VALUES[name])
    def check(case, other):
        check_order(case, name, other)

    check()


@property_test
@given(CASE, VALUES["gamma"])
def test_noise_grows_and_effective_noise_falls_with_gamma(case, other):
    """By rdp and paper, sigma does not decrease, and sigma/gamma does not increase."""
    less, more = check_order(case, "gamma", other)
    if less is not None and more is not None:
        assert more.effective_noise_multiplier <= less.effective_noise_multiplier * (1 + CLOSED_FORM)


@pytest.mark.parametrize("name", ["epsilon", "delta", "rounds"])
def test_noise_of_the_gaussian_mechanism_grows_with_each_value_that_makes_it_harder(name):
    """By the exact accountant."""

    @property_test
    @given(CASE, VALUES[name])
    def check(case, other):
        check_order({**case, "name": "gaussian", "accountant": Accountant.EXACT}, name, other)

    check()


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.RDP, Accountant.PAPER])
def test_noise_grows_with_gamma_up_to_one_at_large_deltas(accountant):
    """By every accountant, up to the Gaussian mechanism, for any delta below 1."""

    @property_test
    @given(CASE, LARGE_DELTAS)
    def check(case, delta):
        fixed = {
            "name": "l2-csgm",
            "adjacency": Adjacency.ADD_REMOVE,
            "accountant": accountant,
            "delta": delta,
        }
        epsilon = max(case["epsilon"], 1e-3)
        check_order({**case, **fixed, "epsilon": epsilon}, "gamma", 1.0)

    check()


@pytest.mark.parametrize(
    ("accountant", "gamma"), [(Accountant.AUTO, 0.3), (Accountant.AUTO, 1.0), (Accountant.EXACT, 1.0)]
)
@pytest.mark.parametrize("delta", [0.95, 1 - 1e-6, 1 - 2**-53])
def test_deltas_above_nine_tenths_count_as_nine_tenths(accountant, gamma, delta):
    """The same noise and epsilon, and no lower bound, which would be one at the smaller delta only."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(9.0))
    capped, at_cap = (calibrate(mechanism, Target(0.5, d), accountant) for d in (delta, 0.9))
    assert capped.sigma == at_cap.sigma
    assert capped.guarantee.lower_bound is None
    assert at_cap.guarantee.lower_bound is not None
    spent = account_epsilon(mechanism, 0.1, [delta, 0.9], accountant).guarantees
    assert spent[0].epsilon == spent[1].epsilon
    assert spent[0].delta == delta


@property_test
@given(CASE)
def test_rdp_needs_no_more_noise_than_paper_and_no_less_for_replacing(case):
    """The minimum over more orders, and a neighbouring relation that includes removal."""
    rdp, paper = (answer({**case, "accountant": by}) for by in (Accountant.RDP, Accountant.PAPER))
    if rdp is not None and paper is not None:
        assert rdp.sigma <= paper.sigma * (1 + CLOSED_FORM)
    add, replaced = (answer({**case, "adjacency": adjacency}) for adjacency in Adjacency)
    if add is not None and replaced is not None:
        assert add.sigma <= replaced.sigma * (1 + CLOSED_FORM)


# ---------------------------------------------------------------- the profile, in a few settings

SETTINGS = {
    "paper": (Mechanism("l2-csgm", 0.01, Geometry(1000.0)), Target(5.0, 1e-8)),
    "many rounds": (Mechanism("l2-csgm", 0.1, Geometry(30.0), 200), Target(2.0, 1e-6)),
    "few coordinates": (Mechanism("l2-csgm", 0.05, Geometry(2.5), 10), Target(1.0, 1e-5)),
    "dense": (Mechanism("l2-csgm", 0.8, Geometry(5.0), 3), Target(0.3, 1e-6)),
    "l-inf": (Mechanism("linf-csgm", 0.02, Geometry(20.0, dim=5000)), Target(3.0, 1e-7)),
}
#: What each value is multiplied by, from the easiest to the hardest.
FACTORS = {
    "epsilon": (2.0, 1.0, 0.999, 0.4),
    "delta": (100.0, 1.0, 0.99, 1e-4),
    "gamma": (0.3, 1.0, 1.001, 1.2),
    "norm_ratio": (3.0, 1.0, 0.999, 0.5),
    "rounds": (1, 2, 3, 50),
}


def changed(mechanism, target, name, factor):
    """The setting with one value multiplied."""
    if name in ("epsilon", "delta"):
        return mechanism, replace(target, **{name: getattr(target, name) * factor})
    if name == "norm_ratio":
        ratio = max(mechanism.geometry.norm_ratio * factor, 1.0)
        return replace(mechanism, geometry=replace(mechanism.geometry, norm_ratio=ratio)), target
    if name == "rounds":
        return mechanism.with_releases(mechanism.releases * factor), target
    return replace(mechanism, **{name: getattr(mechanism, name) * factor}), target


def by_auto(mechanism, target):
    """The smallest sigma by auto, and whether it comes from a certified grid."""
    found = least_sigma(mechanism, Accountant.AUTO, target.epsilon, target.delta)
    on_grid = any(part.step is not None for c in found.certificates for part in (c, *c.parts))
    return found.value, on_grid


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_noise_by_the_profile_grows_with_each_value_that_makes_it_harder(setting, name):
    found = [by_auto(*changed(*SETTINGS[setting], name, factor)) for factor in FACTORS[name]]
    for (before, one_on_grid), (after, other_on_grid) in itertools.pairwise(found):
        assert before <= after * (1 + (GRID if one_on_grid or other_on_grid else CONTOUR))


@pytest.mark.parametrize("setting", SETTINGS)
def test_auto_needs_no_more_noise_than_rdp(setting):
    mechanism, target = SETTINGS[setting]
    rdp = least_sigma(mechanism, Accountant.RDP, target.epsilon, target.delta).value
    assert by_auto(mechanism, target)[0] <= rdp * (1 + CONTOUR)
