"""``verify`` recomputes answers of every proof, and refuses certificates that claim too much."""

import math
from dataclasses import replace
from functools import cache

import pytest

from csgm_cli.accounting import calibration
from csgm_cli.accounting.accountants import spent_delta, spent_epsilon
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_delta, account_epsilon, verified_by
from csgm_cli.jobs.budget import check_population
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.budget import Population, Release
from csgm_cli.model.certificate import Proof
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

L2 = "l2-csgm"
PAPER, FEW = Geometry(1000.0), Geometry(1.0)

#: (mechanism, target, accountant, the proof that decides)
CASES = [
    (Mechanism("gaussian", rounds=3), Target(1.0, 1e-6), "auto", "exact"),
    (Mechanism("gaussian", adjacency="replace-one"), Target(1.0, 1e-6), "auto", "exact"),
    (Mechanism("gaussian"), Target(3.0, 1e-9), "rdp", "renyi"),
    (Mechanism(L2, 0.01, PAPER), Target(5.0, 1e-8), "rdp", "renyi"),
    (Mechanism(L2, 0.01, PAPER, 1, "replace-one"), Target(5.0, 1e-8), "rdp", "renyi"),
    (Mechanism(L2, 0.01, PAPER), Target(5.0, 1e-8), "paper", "renyi"),
    (Mechanism(L2, 0.1, Geometry(20.5), 3, "replace-one"), Target(2.0, 1e-6), "paper", "renyi"),
    (Mechanism(L2, 0.3, PAPER), Target(5.0, 1e-8), "auto", "gaussian-matched"),
    (Mechanism(L2, 0.05, Geometry(300.0), 40), Target(1.0, 1e-7), "auto", "gaussian-matched"),
    (Mechanism(L2, 0.002, PAPER), Target(5.0, 1e-8), "auto", "concentrated"),
    (Mechanism(L2, 0.01, PAPER), Target(5.0, 1e-8), "auto", "concentrated"),
    (Mechanism(L2, 0.02, Geometry(5.0), 100), Target(2.0, 1e-6), "auto", "concentrated"),
    (Mechanism(L2, 0.01, FEW), Target(5.0, 1e-8), "auto", "concentrated"),
    (Mechanism(L2, 0.1, Geometry(4.0, dim=16), 2), Target(2.0, 1e-6), "auto", "profile"),
    (Mechanism("linf-csgm", 0.05, Geometry(10.0, dim=5000)), Target(1.0, 1e-7), "auto", "profile"),
    (Mechanism("linf-csgm", 0.01, Geometry(1.0, dim=2)), Target(1.0, 1e-5), "auto", "profile"),
    (Mechanism(L2, 1 - 1e-9, Geometry(3.3), 2), Target(3.0, 1e-7), "auto", "mask-revealed"),
    (Mechanism(L2, 1 - 1e-9, Geometry(3.3), 2, "replace-one"), Target(3.0, 1e-7), "auto", "mask-revealed"),
    (Mechanism(L2, 0.1, PAPER, 1, "replace-one"), Target(5.0, 1e-8), "auto", "triangle"),
    (
        Mechanism("linf-csgm", 0.1, Geometry(3.0, dim=30), 2, "replace-one"),
        Target(2.0, 1e-6),
        "auto",
        "triangle",
    ),
]
IDS = [f"{proof}-{index}" for index, (*_, proof) in enumerate(CASES)]


@cache
def answer(mechanism, target, accountant):
    """The verified calibration, and what its noise spends at the target's epsilon, verified as well."""
    found = calibrate(mechanism, target, accountant, verify=True)
    spent = spent_delta([(mechanism, found.sigma)], Accountant(accountant), target.epsilon)
    verified_by([(mechanism, found.sigma)], spent, target.epsilon, spent.value)
    return found, spent


@pytest.mark.parametrize(("mechanism", "target", "accountant", "proof"), CASES, ids=IDS)
def test_calibrate_and_account_are_verified(mechanism, target, accountant, proof):
    """The answer's certificates agree with independent code, in every direction of the question."""
    found, _ = answer(mechanism, target, accountant)
    assert found.guarantee.proof == proof
    [epsilon] = account_epsilon(mechanism, found.sigma, [target.delta], accountant, verify=True).guarantees
    [delta] = account_delta(mechanism, found.sigma, target.epsilon, accountant, verify=True).guarantees
    for verified in (found.guarantee.verified, epsilon.verified, delta.verified):
        assert verified.relative_difference < (1e-9 if verified.digits > 4 else 1e-3)


def test_a_large_epsilon_is_verified():
    """Rounding errors of log u are relative to it, so that those of delta grow with epsilon."""
    found = calibrate(
        Mechanism(L2, 9e-8, Geometry(116814.63393775126), 5743), Target(1e4, 4e-47), verify=True
    )
    assert found.guarantee.verified.relative_difference < 1e-8


def test_a_triangle_with_the_closed_bound_of_the_remove_direction_is_verified():
    """That bound holds, and is above the supremum over vectors: the answer lies between both."""
    mechanism = Mechanism(L2, 0.1, Geometry(4.0, dim=32), 3, "replace-one")
    found = calibrate(mechanism, Target(2.0, 1e-5), "tight", verify=True)
    spent = spent_delta([(mechanism, found.sigma)], Accountant.TIGHT, 2.0)
    assert [part.proof for part in spent.decisive.parts] == ["concentrated", "renyi-remove"]
    for factor in (0.8, 1 + 1e-5):
        wrong = replace(spent, certificates=tuple(tampered(c, factor) for c in spent.certificates))
        with pytest.raises(NoAnswerError, match="does not agree"):
            verified_by([(mechanism, found.sigma)], wrong, 2.0, spent.value * factor)


@pytest.mark.parametrize(
    ("mechanism", "accountant", "proof"),
    [
        (Mechanism(L2, 0.1, Geometry(30.0), 50, sampling_rate=0.1), "rdp", "renyi"),
        (Mechanism(L2, 0.1, Geometry(30.0), 50, sampling_rate=0.1), "auto", "concentrated"),
        (Mechanism(L2, 0.1, PAPER, 10, sampling_rate=0.5), "auto", "gaussian-matched"),
        (Mechanism(L2, 0.1, PAPER, 9, "replace-one", sampling_rate=0.5), "auto", "triangle"),
    ],
)
def test_client_sampling_is_verified(mechanism, accountant, proof):
    """On a grid of its own where rounds are discretised; both directions, at noise that is rounded up."""
    found = calibrate(mechanism, Target(5.0, 1e-6), accountant, verify=True)
    assert found.guarantee.proof == proof
    verified = found.guarantee.verified
    assert verified.relative_difference < (1e-9 if verified.digits > 4 else 5e-3)


MIXED = (
    Release("counts", Mechanism("gaussian", rounds=30), 12.5),
    Release("model", Mechanism(L2, 0.05, Geometry(100.0, l2_norm=2.0), 400), 1.8),
    Release("wide", Mechanism("linf-csgm", 0.1, Geometry(5.0, dim=60), 3), 4.0),
)


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.RDP, Accountant.PAPER])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_mixed_population_is_verified(accountant, adjacency):
    """A population of several mechanisms under either neighbouring relation."""
    releases = tuple(replace(r, mechanism=replace(r.mechanism, adjacency=adjacency)) for r in MIXED)
    people = Population("people", Target(30.0, 1e-6), adjacency, releases)
    verified = check_population(people, accountant, verify=True).guarantee.verified
    assert verified.relative_difference < (1e-9 if verified.digits > 4 else 1e-3)


def tampered(certificate, factor):
    """The certificate, or all its parts too, with a delta that is ``factor`` times what it was."""
    return replace(
        certificate,
        log_delta=certificate.log_delta + math.log(factor),
        parts=tuple(tampered(part, factor) for part in certificate.parts),
    )


@pytest.mark.parametrize(("mechanism", "target", "accountant", "proof"), CASES, ids=IDS)
@pytest.mark.parametrize("factor", [1 - 1e-6, 1 + 1e-5])
def test_a_delta_that_is_not_proven_is_refused(mechanism, target, accountant, proof, factor):
    """Too small by a millionth, or too large by more than what is agreement; on a grid by a hundredth."""
    found, spent = answer(mechanism, target, accountant)
    sigma = found.sigma
    assert spent.decisive.log_delta < 0.0
    if any(part.step is not None for c in spent.certificates for part in (c, *c.parts)):
        factor = 1 + 1e4 * (factor - 1)
    wrong = replace(spent, certificates=tuple(tampered(c, factor) for c in spent.certificates))
    with pytest.raises(NoAnswerError, match="does not agree") as caught:
        verified_by([(mechanism, sigma)], wrong, target.epsilon, min(1.0, spent.value * factor))
    assert caught.value.slug == "verification-failed"


@pytest.mark.parametrize("exponent", [20.0, 1e3])
def test_an_exponent_that_is_not_proven_is_refused(exponent):
    """No vector but kappa* need be worse for such a function."""
    releases = [(Mechanism(L2, 0.1, Geometry(30.0), 10), 1.0)]
    spent = spent_delta(releases, Accountant.AUTO, 1.0)
    forged = replace(spent.decisive, proof=Proof.CONCENTRATED, exponent=exponent, log_ratio=1.0, order=None)
    wrong = replace(
        spent, certificates=tuple(forged if c is spent.decisive else c for c in spent.certificates)
    )
    with pytest.raises(NoAnswerError, match="not admissible"):
        verified_by(releases, wrong, 1.0, spent.value)


def test_a_direction_without_a_certificate_is_refused():
    """Adding and removing a client both have to be bounded."""
    releases = [(Mechanism(L2, 0.1, Geometry(30.0), 10), 1.0)]
    spent = spent_delta(releases, Accountant.AUTO, 1.0)
    [one, _] = spent.certificates
    with pytest.raises(NoAnswerError, match="both directions"):
        verified_by(releases, replace(spent, certificates=(one,)), 1.0, spent.value)


def test_an_epsilon_that_is_not_proven_is_refused(monkeypatch):
    """An answer by less epsilon than its certificates are for is not given."""
    releases = [(r.mechanism, r.sigma) for r in MIXED]
    spent = spent_epsilon(releases, Accountant.AUTO, 1e-6)
    with pytest.raises(NoAnswerError, match="exceeds the reported one"):
        verified_by(releases, spent, spent.value * (1 - 1e-9), 1e-6)
    right = calibration.least_sigma

    def wrong(*arguments):
        found = right(*arguments)
        return replace(found, value=found.value * 0.99)

    monkeypatch.setattr("csgm_cli.jobs.calibrate.least_sigma", wrong)
    with pytest.raises(NoAnswerError, match="does not agree"):
        calibrate(Mechanism(L2, 0.3, PAPER), Target(5.0, 1e-8), verify=True)


@pytest.mark.parametrize("name", ["gaussian", L2])
@pytest.mark.parametrize("delta", [0.5, 1e-5, 4e-17])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_an_epsilon_of_zero_is_verified(name, delta, adjacency):
    """Its certificate claims the delta at epsilon 0, which is far below the given one."""
    mechanism = Mechanism(name, *(() if name == "gaussian" else (0.01, Geometry(10.0))), adjacency=adjacency)
    [found] = account_epsilon(mechanism, 1e18, [delta], verify=True).guarantees
    assert found.epsilon == 0.0
    assert found.verified is not None
