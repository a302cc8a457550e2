"""The search for the least noise of a Renyi bound."""

import math

import pytest

from csgm_cli.core import renyi_noise
from csgm_cli.core.curves import renyi_curve
from csgm_cli.core.first_guess import first_guess
from csgm_cli.model import Bound, Geometry, Mechanism, Target


def test_the_joint_search_finds_what_the_nested_one_finds(reference):
    """Newton on noise and order at once ends at the root of the search that is safe in a bracket."""
    settled = 0
    for row in reference["accounting"]["rdp"]:
        mechanism = Mechanism("l2-csgm", row["gamma"], Geometry(math.sqrt(row["k"])), row["rounds"])
        target = Target(row["epsilon"], row["delta"])
        curve = renyi_curve(mechanism, Bound.RDP)
        guess = first_guess(curve, target)
        sigma, order = renyi_noise._nested_newton(curve, target, guess)
        quick = renyi_noise._joint_newton(curve, target, guess)
        if quick is not None:
            settled += 1
            assert quick[0] == pytest.approx(sigma, rel=1e-11), row
            assert quick[1] == pytest.approx(order, rel=1e-5), row
    assert settled >= 4
