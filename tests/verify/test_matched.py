"""The Gaussian-matched conversion in high precision."""

import mpmath
import pytest

from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.verify.matched import matched_delta
from csgm_cli.verify.renyi import delta, gaussian_delta, total_log_moment, worst_case


def relative(value, expected):
    """Relative difference, computed with more digits than any of the two has."""
    with mpmath.workdps(100):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def worst(row, digits=50):
    """The worst-case coordinates of a reference row whose noise is printed in decimal."""
    ratio, rounds = mpmath.mpf(row["norm_ratio"]), row["rounds"]
    with mpmath.workdps(digits + 10):
        k, t = ratio**2, (ratio * mpmath.mpf(row["noise_multiplier"])) ** -2
        whole, gamma = int(k), mpmath.mpf(row["gamma"])
        rest = [(rounds, gamma, t * (k - whole))] if k > whole else []
        return [(rounds * whole, gamma, t), *rest]


def test_reference_values_are_met(reference):
    """Every row of theorem C is met in the digits that are printed."""
    for row in reference["matched"]["theorem_C"]:
        order = mpmath.mpf(row["order"])
        assert relative(total_log_moment(worst(row), 0, order, 20), row["K_sum"]) < 1e-15
        with mpmath.workdps(40):
            epsilon = mpmath.mpf(row["epsilon"])
        found = matched_delta(worst(row), 0, epsilon, order, row["direction"], 20)
        assert relative(found, row["delta_at_order"]) < 1e-14, row


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_gaussian_converges_to_its_profile_with_the_order(direction):
    """Of a Gaussian the bound falls to the exact profile as the order grows."""
    exact = gaussian_delta(0.7, 1.5)
    found = [matched_delta((), mpmath.mpf(0.7) ** 2, 1.5, order, direction, 30) for order in (30, 1e3, 1e6)]
    assert found[0] > found[1] > found[2] > exact
    assert relative(found[2], exact) < 1e-5


def test_bound_is_below_the_renyi_bound_of_the_same_order():
    """The first term alone is the Renyi conversion times a normal cdf."""
    release = (Mechanism("l2-csgm", 0.05, Geometry(12.5), 3), 0.11)
    for order in (2.5, 17, 60.25):
        renyi = delta([release], 2, order, "rdp", 30)
        assert matched_delta(*worst_case([release]), 2, order, "add", 30) < renyi


def test_mixed_releases_add_their_log_moments():
    """A Gaussian part and coordinates of two kinds enter through one sum."""
    parts, mu = [(40, 0.1, 0.05), (3, 0.5, 0.2)], mpmath.mpf("0.3")
    total = total_log_moment(parts, mu**2, 9.5, 40)
    single = [count * total_log_moment([(1, gamma, t)], 0, 9.5, 40) for count, gamma, t in parts]
    assert relative(total, sum(single) + mpmath.mpf(9.5) * 8.5 * mu**2 / 2) < 1e-14


def test_more_digits_confirm_the_digits_of_fewer():
    """The measured cancellation is enough, also where the terms almost cancel."""
    for direction, epsilon, order in (("add", 0.001, 3e4), ("remove", 8, 900.5), ("remove", 0.001, 1.5)):
        few, many = (
            matched_delta([(50, 0.02, 0.01)], 0.01, epsilon, order, direction, digits) for digits in (12, 35)
        )
        assert relative(few, many) < 1e-12
