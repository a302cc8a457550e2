"""Estimates of tight bounds elsewhere, against the bounds in full."""

import pytest

from csgm_cli.core.certificate import Proof
from csgm_cli.core.composition import composition_of
from csgm_cli.core.mixed_tight import mixed_delta
from csgm_cli.core.retrace import profile_again
from csgm_cli.core.tight import kappa_profile, tight_delta, worst_law
from csgm_cli.model.mechanism import Geometry, Mechanism

#: (mechanism, sigma, epsilon), and what decides there
SETTINGS = [
    (Mechanism("l2-csgm", 0.04, Geometry(8.0)), 0.112, 5.0, Proof.ADD_CONE),
    (Mechanism("l2-csgm", 0.01, Geometry(3000.0)), 0.0114, 5.0, Proof.REMOVE_CONE),
    (Mechanism("l2-csgm", 0.04, Geometry(950.0)), 0.0463, 5.0, Proof.REMOVE_CONE),
    (Mechanism("l2-csgm", 0.2, Geometry(3000.0)), 0.231, 5.0, Proof.CONCAVE),
    (Mechanism("l2-csgm", 0.009, Geometry(170.0)), 0.0115, 5.0, Proof.RENYI_REMOVE),
    (Mechanism("linf-csgm", 0.05, Geometry(20.0, dim=400)), 0.06, 4.0, Proof.PROFILE),
]


@pytest.mark.parametrize(("mechanism", "sigma", "epsilon", "proof"), SETTINGS)
def test_estimates_go_on_as_the_bounds_do(mechanism, sigma, epsilon, proof):
    """Where they were made they are the bound; elsewhere no less than the least one, and little more."""
    found = tight_delta(mechanism, sigma, epsilon).decisive
    assert found.proof is proof
    assert found.again(epsilon) == pytest.approx(found.value, rel=1e-12)
    for noise in (0.998, 1.002):
        there = tight_delta(mechanism, sigma * noise**0.5, epsilon).decisive.value
        assert there * (1 - 1e-9) <= found.again(epsilon, noise) <= there * 1.01
    for other in (0.998, 1.002):
        there = tight_delta(mechanism, sigma, epsilon * other).decisive.value
        assert there * (1 - 1e-9) <= found.again(epsilon * other) <= there * 1.01


def test_rounds_go_on_too():
    """One round more than a thousand."""
    mechanism = Mechanism("l2-csgm", 0.04, Geometry(950.0), 1000)
    found = tight_delta(mechanism, 1.46, 5.0).decisive
    there = tight_delta(mechanism.with_releases(1001), 1.46, 5.0).decisive.value
    assert found.again(5.0, 1.0, 1.001) == pytest.approx(there, rel=1e-3)
    assert found.again(5.0, 1.0, 1.001) > found.value


@pytest.mark.parametrize(("mechanism", "sigma", "epsilon", "proof"), SETTINGS)
def test_the_profile_at_kappa_goes_on(mechanism, sigma, epsilon, proof):
    """From below, on the same contour, to many digits."""
    law = worst_law(mechanism, sigma)
    again = profile_again(kappa_profile(law, epsilon).contour, law, lower=True)
    there = kappa_profile(worst_law(mechanism, sigma * 1.001), epsilon).lower
    assert again(epsilon, 1.001**2) == pytest.approx(there, rel=1e-10)


@pytest.mark.parametrize(
    "releases",
    [
        [(SETTINGS[2][0], 0.07), (SETTINGS[3][0], 0.4)],
        [(SETTINGS[0][0], 0.2), (Mechanism("gaussian", rounds=3), 8.0)],
        [(SETTINGS[5][0], 0.1), (Mechanism("gaussian"), 3.0)],
    ],
)
def test_estimates_of_mixed_releases(releases):
    """In epsilon; but for the blur, which goes with epsilon and adds some 1e-5."""
    together = composition_of(releases)
    found = mixed_delta(together, 4.0, 1e-8).decisive
    assert found.again(4.0) == pytest.approx(found.value, rel=1e-12)
    there = mixed_delta(together, 4.01, 1e-8).decisive.value
    assert there * (1 - 3e-5) <= found.again(4.01) <= there * 1.01
