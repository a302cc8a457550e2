"""Harder targets and larger exposure never need less noise, by every accountant."""

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest

from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

#: By how much answers may be out of order: closed forms, and where a certified grid may decide.
CLOSED_FORM, GRID = 1e-9, 1e-5
SETTINGS = {
    "paper": (Mechanism("l2-csgm", 0.01, Geometry(1000.0)), Target(5.0, 1e-8)),
    "many rounds": (Mechanism("l2-csgm", 0.1, Geometry(30.0), 200), Target(2.0, 1e-6)),
    "few coordinates": (Mechanism("l2-csgm", 0.05, Geometry(2.5), 10), Target(1.0, 1e-5)),
    "dense": (Mechanism("l2-csgm", 0.8, Geometry(5.0), 3), Target(0.3, 1e-6)),
    "l-inf": (Mechanism("linf-csgm", 0.02, Geometry(20.0, dim=5000)), Target(3.0, 1e-7)),
}
#: From the easiest to the hardest: what each value is multiplied by.
HARDER = {
    "epsilon": (2.0, 1.0, 0.999, 0.4),
    "delta": (100.0, 1.0, 0.99, 1e-4),
    "gamma": (0.3, 1.0, 1.001, 1.2),
    "norm_ratio": (3.0, 1.0, 0.999, 0.5),
    "rounds": (1, 2, 3, 50),
}


def harder(mechanism, target, name, factor):
    """The setting with one value multiplied."""
    if name in ("epsilon", "delta"):
        return mechanism, replace(target, **{name: getattr(target, name) * factor})
    if name == "norm_ratio":
        ratio = max(mechanism.geometry.norm_ratio * factor, 1.0)
        return replace(mechanism, geometry=replace(mechanism.geometry, norm_ratio=ratio)), target
    if name == "rounds":
        return mechanism.with_releases(mechanism.releases * factor), target
    return replace(mechanism, **{name: getattr(mechanism, name) * factor}), target


@cache
def sigma_of(mechanism, target, accountant):
    return calibrate(mechanism, target, accountant).sigma


def sigmas(setting, name, accountant, adjacency=Adjacency.ADD_REMOVE):
    mechanism, target = SETTINGS[setting]
    mechanism = replace(mechanism, adjacency=adjacency)
    for factor in HARDER[name]:
        yield sigma_of(*harder(mechanism, target, name, factor), accountant)


@pytest.mark.parametrize("name", HARDER)
@pytest.mark.parametrize("setting", SETTINGS)
def test_noise_grows_with_each_value_that_makes_it_harder(setting, name):
    """Along epsilon, delta, gamma, norm_ratio and rounds, by the profile."""
    for before, after in itertools.pairwise(sigmas(setting, name, Accountant.AUTO)):
        assert before <= after * (1 + GRID)


@pytest.mark.parametrize("name", HARDER)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER])
def test_noise_of_closed_forms_grows_with_each_value_that_makes_it_harder(accountant, adjacency, name):
    """Under both neighbouring relations."""
    for setting in SETTINGS if adjacency is Adjacency.ADD_REMOVE else ["paper", "few coordinates"]:
        for before, after in itertools.pairwise(sigmas(setting, name, accountant, adjacency)):
            assert 0.0 < before <= after * (1 + CLOSED_FORM) < math.inf


@pytest.mark.parametrize("name", ["epsilon", "delta", "rounds"])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_noise_of_the_gaussian_mechanism_grows_with_each_value_that_makes_it_harder(adjacency, name):
    """By the exact accountant, for the targets of all settings."""
    for _, target in SETTINGS.values():
        gaussian = Mechanism("gaussian", rounds=7, adjacency=adjacency)
        found = [
            sigma_of(*harder(gaussian, target, name, factor), Accountant.EXACT) for factor in HARDER[name]
        ]
        assert found == sorted(found)


@pytest.mark.parametrize("setting", SETTINGS)
def test_sharper_accountants_need_no_more_noise(setting):
    """auto <= rdp <= paper, and replacing a client takes no less than removing it."""
    mechanism, target = SETTINGS[setting]
    auto, rdp, paper = (
        sigma_of(mechanism, target, by) for by in (Accountant.AUTO, Accountant.RDP, Accountant.PAPER)
    )
    assert auto <= rdp * (1 + CLOSED_FORM)
    assert rdp <= paper * (1 + CLOSED_FORM)
    replaced = replace(mechanism, adjacency=Adjacency.REPLACE_ONE)
    assert rdp <= sigma_of(replaced, target, Accountant.RDP)
