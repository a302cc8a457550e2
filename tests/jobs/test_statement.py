"""What an answer says of itself."""

from dataclasses import replace

import pytest

from csgm_cli.jobs.statement import ASSUMPTIONS, assumptions_of, statement
from csgm_cli.model.mechanism import Adjacency, Bound, FactorNorms, Mechanism
from csgm_cli.model.mechanism_table import Geometry, MechanismName
from csgm_cli.model.result import Guarantee

ALWAYS = ("clipping-enforced", "one-participation-per-round", "trusted-server")


def paragraph(mechanism, bound=Bound.RDP, epsilon=1.0, delta=1e-6, sigma=0.5):
    """The statement of a made-up guarantee."""
    assumptions = assumptions_of(mechanism, bound)
    return statement(mechanism, sigma, Guarantee(epsilon, delta, None, bound, None, assumptions))


@pytest.mark.parametrize(
    ("mechanism", "bound", "extra"),
    [
        (Mechanism("l2-csgm", 0.1), Bound.RDP, ("masks-secret", "masks-bernoulli")),
        (Mechanism("l2-csgm", 0.1), Bound.PAPER, ("masks-secret", "masks-bernoulli")),
        (Mechanism("l2-csgm", 0.1), Bound.MASK_REVEALED, ()),
        (Mechanism("l2-csgm", 1.0), Bound.RDP, ()),
        (Mechanism("gaussian"), Bound.EXACT, ()),
    ],
)
def test_assumptions(mechanism, bound, extra):
    """Secret masks are assumed only where the proof needs them; each slug is explained."""
    assert assumptions_of(mechanism, bound) == ALWAYS + extra
    assert set(ALWAYS + extra) <= set(ASSUMPTIONS)


@pytest.mark.parametrize("mechanism", [Mechanism("gaussian", rounds=3), Mechanism("l2-csgm", 0.1, rounds=3)])
def test_schedule_of_the_rounds_is_assumed_where_it_gives_them(mechanism):
    """Rounds that somebody states assume nothing of the cohorts."""
    words = "disjoint cohorts in a fixed order"
    assert words not in paragraph(mechanism)
    scheduled = replace(mechanism, disjoint_cohorts=True)
    assert "disjoint-cohorts" in assumptions_of(scheduled, Bound.RDP)
    assert words in paragraph(scheduled)


SAMPLING = ("participation-poisson", "participation-secret", "fixed-denominator")


@pytest.mark.parametrize(
    ("mechanism", "bound", "masks"),
    [
        (Mechanism("l2-csgm", 0.1, rounds=2000, sampling_rate=0.001), Bound.RDP, True),
        (Mechanism("l2-csgm", 0.1, rounds=2000, sampling_rate=0.001), Bound.MASK_REVEALED, False),
        (Mechanism("l2-csgm", 1.0, rounds=2000, sampling_rate=0.001), Bound.RDP, False),
        (Mechanism("gaussian", rounds=2000, sampling_rate=0.001), Bound.PROFILE, False),
    ],
)
def test_assumptions_of_client_sampling(mechanism, bound, masks):
    """Who takes part is secret whether or not there are masks; the statement has the rate and all rounds."""
    secret = ("masks-secret", "masks-bernoulli") if masks else ()
    assert assumptions_of(mechanism, bound) == (*ALWAYS, *secret, *SAMPLING)
    text = paragraph(mechanism, bound)
    assert "over 2000 rounds, in each of which a client takes part with probability 0.001, where" in text
    for slug in SAMPLING:
        assert ASSUMPTIONS[slug] in text
    one = paragraph(replace(mechanism, rounds=1), bound)
    assert "over 1 round, in which a client takes part with probability 0.001, where" in one


@pytest.mark.parametrize("bound", list(Bound))
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("name", list(MechanismName))
def test_every_combination_has_a_statement(name, adjacency, bound):
    """No mechanism, adjacency or bound was forgotten, and every assumption is spelled out."""
    gamma = 1.0 if name is MechanismName.GAUSSIAN else 0.25
    mechanism = Mechanism(name, gamma, Geometry(4.0, 2.0, dim=100), 3, adjacency)
    text = paragraph(mechanism, bound)
    assert text.endswith(".")
    assert "\n" not in text
    assert "3 releases" in text
    assert ("replacing" in text) == (adjacency is Adjacency.REPLACE_ONE)
    assert ("probability 0.25" in text) == (gamma == 0.25)
    for slug in assumptions_of(mechanism, bound):
        assert ASSUMPTIONS[slug] in text


def test_numbers_are_rounded_to_the_side_that_is_true():
    """Noise that looks smaller, or an epsilon that looks smaller, would be a false claim."""
    text = paragraph(Mechanism("gaussian"), Bound.EXACT, epsilon=1.23456701, delta=1.00000001e-6)
    assert "(1.23457, 1.00001e-6)" in text
    assert "clipped to L2 norm 1.0" in text
    assert "1 release that" in text


def test_sigma_is_never_shown_smaller_than_it_is():
    """Ten digits, rounded up."""
    assert "deviation 0.1234567891 on" in paragraph(Mechanism("gaussian"), sigma=0.12345678901)


def test_the_linf_norm_is_never_shown_larger_than_it_is():
    """Clipping at a larger norm than was accounted for would void the guarantee."""
    geometry = Geometry(3.0, 2.0, dim=50)
    assert "L-infinity norm 0.666666," in paragraph(Mechanism("l2-csgm", 0.5, geometry))
    assert "L-infinity norm 0.666666 in 50 coordinates" in paragraph(Mechanism("linf-csgm", 0.5, geometry))


@pytest.mark.parametrize(
    ("name", "called"),
    [
        (
            "l2-csgm",
            "Sparsified Gaussian matrix factorization (SGMF) with client vectors clipped to L2 norm 2.0",
        ),
        ("linf-csgm", "L-infinity sparsified Gaussian matrix factorization with client vectors clipped to"),
        ("gaussian", "The matrix mechanism with client vectors clipped to L2 norm 2.0, and correlated noise"),
    ],
)
def test_factorized(name, called):
    """The workload, the strategy, T, the column norm rounded up, the noise and the epochs are said."""
    factors = FactorNorms(32, "prefix-sum", "tree", 2.44948974278317)
    gamma = 1.0 if name == "gaussian" else 0.25
    mechanism = Mechanism(name, gamma, Geometry(4.0, 2.0, dim=100), factorization=factors, epochs=3)
    text = paragraph(mechanism)
    assert text.startswith(called)
    for part in (
        "workload prefix-sum of T = 32 steps",
        "by the strategy tree",
        "norm at most 2.449489743,",
        "standard deviation 0.5 in each entry",
        "over 3 epochs, each with a fresh Z,",
        "a client contributes at most once to each epoch",
    ):
        assert part in text
    assert "counted round" not in text
    unknown = Mechanism("gaussian", factorization=FactorNorms(2, "matrix", None, 1.0))
    assert "factorized as B C" in paragraph(unknown)
    assert "over 1 epoch," in paragraph(unknown)
