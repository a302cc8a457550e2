"""Good sets of several releases, against the oracle's exponents."""

import math

import pytest

from csgm_cli.core.good_sets import (
    exponents_below,
    first_small,
    log_outside_all,
    log_outside_all_below,
    narrowest,
    widest,
)
from csgm_cli.core.profile_oracle import admissible_exponent, concave_exponent
from csgm_cli.profile.contour import Law


@pytest.mark.parametrize("gamma", [1e-6, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9, 0.999])
def test_the_widest_set_just_admits_its_exponent(gamma, share):
    """And a wider one does not."""
    exponent = share * (1 - gamma) / (2 * gamma)
    z = widest(gamma, exponent)
    assert admissible_exponent(gamma, z) >= exponent * (1 - 1e-12)
    assert admissible_exponent(gamma, z * 1.001 + 1e-9) < exponent


def test_no_set_admits_more_than_the_smallest():
    """(1-g)/(2g) is the end."""
    assert widest(0.1, 4.5001) == -math.inf


@pytest.mark.parametrize(("gamma", "exponent"), [(0.01, 100.0), (0.3, 2.0), (0.9, 0.5)])
def test_the_concave_set_has_its_exponent(gamma, exponent):
    """1/(2 r_min) - 1/2 at that half width."""
    assert float(concave_exponent(gamma, narrowest(gamma, exponent))) == pytest.approx(exponent, rel=1e-12)


def test_what_is_outside_adds_up():
    """Of two laws it is the sum, infinite where one has no set that is wide enough."""
    laws = [Law(0.01, ((100.0, 0.01),)), Law(0.02, ((10.0, 0.02), (3.0, 0.001)))]
    for outside, exponent in ((log_outside_all, 10.0), (log_outside_all_below, 200.0)):
        apart = [math.exp(outside([law], exponent)) for law in laws]
        assert math.exp(outside(laws, exponent)) == pytest.approx(math.fsum(apart), rel=1e-12)
    assert log_outside_all([*laws, Law(0.4, ((1.0, 0.01),))], 10.0) == math.inf


def test_exponents_are_of_one_lattice():
    """From any largest downwards, and the first with a small error is found."""
    assert exponents_below(7.0)[0] <= 7.0 < exponents_below(7.0)[0] * 2 ** (1 / 32)
    assert set(exponents_below(7.0)[:100]) <= set(exponents_below(9.0))
    exponents = exponents_below(100.0)
    found = first_small(exponents, lambda b: b - 60.0 + math.log(1e-9), 1e-6)
    assert exponents[found] <= 60.0 < exponents[found - 1]
