"""Accounting for clients that take part several times: against integrals over all transcripts."""

import math

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.factorization.participation.gram import gram_of
from csgm_cli.factorization.participation.sensitivity import repeated_participation
from csgm_cli.model.mechanism import FactorNorms
from csgm_cli.model.participation import Participation

GAMMA, SHIFT = 0.3, 1.5
EPSILONS = (0.2, 0.5, 1.0, 2.0)
#: Two releases of one coordinate, gamma 0.3 and clip 1.5 sigma: delta of adding and of removing the client.
TWO_ADD = (0.205803598, 0.153662596, 0.092702274, 0.030336675)
TWO_REMOVE = (0.148787292, 0.026088722, 0.0, 0.0)
#: Delta of adding a client whose two columns overlap by 0.46, relative to two releases.
OVERLAPPING_ADD = (1.13, 1.19, 1.33, 1.79)


def norms_of(c, k, b):
    sensitivity = math.sqrt((c**2).sum(axis=0).max())
    repeated = repeated_participation(gram_of(c, b), Participation(k, b))
    return FactorNorms(c.shape[1], "matrix", None, sensitivity, repeated=repeated)


def mechanism(c, k, b, name="l2-csgm", gamma=GAMMA, adjacency="add-remove", **geometry):
    geometry = csgm.Geometry(**({"dim": 1} | geometry))
    return csgm.Mechanism(name, gamma, geometry, adjacency=adjacency, factorization=norms_of(c, k, b))


def transcripts(c, steps, second, points=81, gamma=GAMMA):
    """Deltas of adding and of removing a client, by an integral over all rows of C G + Z.

    The client sends +SHIFT at the first of two ``steps`` and ``second(rows before the second step)`` at the
    second, each with probability ``gamma``.
    """
    axis = np.linspace(-5.5, 7.5, points)
    rows = np.meshgrid(*[axis] * len(c), indexing="ij", sparse=True)
    density = math.prod(np.exp(-(row**2) / 2) / math.sqrt(2 * math.pi) for row in rows)
    density = density * (axis[1] - axis[0]) ** len(c)
    values = (SHIFT, second(rows[: steps[1]]))
    ratio = 0.0
    for masks in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = math.prod(gamma if sent else 1 - gamma for sent in masks)
        moved = [
            sum(m * v * c[i, j] for m, v, j in zip(masks, values, steps, strict=True)) for i in range(len(c))
        ]
        log = sum(row * at - at**2 / 2 for row, at in zip(rows, moved, strict=True))
        ratio = ratio + weight * np.exp(log)
    add = [float((density * np.maximum(ratio - math.exp(e), 0)).sum()) for e in EPSILONS]
    remove = [float((density * np.maximum(1 - math.exp(e) * ratio, 0)).sum()) for e in EPSILONS]
    return add, remove


def proven(asked):
    """Delta at each epsilon, of noise 1 for a clip of SHIFT."""
    return [csgm.account_delta(asked, 1 / SHIFT, epsilon).guarantees[0].delta for epsilon in EPSILONS]


#: Columns of norm 1: of two bands; of columns that share rows but are orthogonal.
BANDS = np.array([[0.8, 0, 0], [0.6, 1.0, 0], [0, 0, 1.0]])
ORTHOGONAL = np.array([[0.6, 0, 0], [0.64, 0.6, 0], [-0.48, 0.8, 1.0]])

#: What a client sends the second time, by what was released before.
STRATEGIES = {
    "constant": lambda rows: SHIFT,
    "sign of the last row": lambda rows: SHIFT * np.sign(rows[-1] + 1e-9),
    "only after a small row": lambda rows: SHIFT * (rows[0] < 0.5),
    "graded": lambda rows: SHIFT * np.clip(rows[0] / 2, 0, 1),
}


def test_constant_vectors_attain_the_composition():
    """Two participations with orthogonal columns are exactly two releases."""
    for c, steps, b in ((BANDS, (0, 2), 2), (ORTHOGONAL, (0, 1), 1)):
        add, remove = transcripts(c, steps, STRATEGIES["constant"])
        assert add == pytest.approx(TWO_ADD, abs=2e-4), b
        assert remove == pytest.approx(TWO_REMOVE, abs=2e-4), b


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("c", "steps"), [(BANDS, (0, 2)), (ORTHOGONAL, (0, 1))], ids=["bands", "shared rows"]
)
def test_adaptive_clients_stay_below_two_releases(c, steps, strategy):
    add, remove = transcripts(c, steps, STRATEGIES[strategy])
    for found, limit in zip((*add, *remove), (*TWO_ADD, *TWO_REMOVE), strict=True):
        assert found <= limit + 2e-4


def test_orthogonal_columns_count_as_releases():
    """What is proven is the delta of two releases, not more."""
    asked = mechanism(BANDS, 2, 2)
    assert asked.releases == 2
    assert proven(asked) == pytest.approx(TWO_ADD, rel=1e-5)
    found = csgm.account_delta(asked, 1 / SHIFT, 1.0).guarantees[0]
    assert found.lower_bound == pytest.approx(found.delta, rel=2e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_overlapping_columns_cost_more_than_releases(strategy):
    """The count of participations alone would be too low; the bound for overlapping columns holds."""
    r = 0.46
    c = np.array([[math.sqrt(1 - r * r), 0], [r, 1]])
    add, remove = transcripts(c, (0, 1), STRATEGIES[strategy], points=301)
    limits = proven(mechanism(c, 2, 1))
    assert all(found <= limit + 1e-5 for found, limit in zip(add, limits, strict=True))
    assert all(found <= limit + 1e-5 for found, limit in zip(remove, limits, strict=True))
    if strategy == "constant":
        ratios = [found / naive for found, naive in zip(add, TWO_ADD, strict=True)]
        assert ratios == pytest.approx(OVERLAPPING_ADD, abs=6e-3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_adaptive_vectors_that_are_sent_whole(strategy):
    """No strategy exceeds the Gaussian mechanism of the joint sensitivity, which constant vectors attain."""
    r = 0.46
    c = np.array([[math.sqrt(1 - r * r), 0], [r, 1]])
    found = transcripts(c, (0, 1), STRATEGIES[strategy], points=301, gamma=1.0)
    limits = proven(mechanism(c, 2, 1, "gaussian", 1.0))
    for deltas in found:
        assert all(delta <= limit + 1e-5 for delta, limit in zip(deltas, limits, strict=True))
        if strategy == "constant":
            assert deltas == pytest.approx(limits, abs=1e-4)


def test_overlapping_columns_have_no_lower_bound():
    """Of masked vectors nobody knows how far the bound is from the truth."""
    c = np.array([[0.8, 0], [0.6, 1]])
    masked = csgm.calibrate(mechanism(c, 2, 1), csgm.Target(1.0, 1e-5))
    assert masked.guarantee.lower_bound is None
    whole = csgm.calibrate(mechanism(c, 2, 1, "gaussian", 1.0), csgm.Target(1.0, 1e-5))
    assert whole.guarantee.lower_bound == whole.noise_multiplier


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_whole_vectors_have_the_joint_sensitivity(adjacency):
    """Overlap 0.6 of two columns of norm 1: the Gaussian mechanism of sensitivity sqrt(2 + 1.2)."""
    c = np.array([[0.8, 0], [0.6, 1]])
    target = csgm.Target(1.0, 1e-5)
    plain = csgm.Mechanism("gaussian", adjacency=adjacency, rounds=1)
    for accountant in ("exact", "rdp"):
        single = csgm.calibrate(plain, target, accountant).sigma
        found = csgm.calibrate(
            mechanism(c, 2, 1, "gaussian", 1.0, adjacency), target, accountant, verify=True
        )
        assert found.sigma == pytest.approx(single * math.sqrt(3.2), rel=1e-9)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("name", "gamma", "accountant"),
    [
        ("l2-csgm", 0.1, "rdp"),
        ("l2-csgm", 0.1, "paper"),
        ("l2-csgm", 0.1, "tight"),
        ("linf-csgm", 0.1, "auto"),
        ("gaussian", 1.0, "exact"),
    ],
)
def test_orthogonal_columns_need_the_noise_of_rounds(name, gamma, accountant, adjacency):
    """k participations with columns of norm 1 are k rounds without a factorization, by every accountant."""
    target, geometry = csgm.Target(1.0, 1e-5), {"norm_ratio": 4.0, "dim": 16}
    asked = mechanism(np.eye(6), 3, 2, name, gamma, adjacency, **geometry)
    rounds = csgm.Mechanism(name, gamma, csgm.Geometry(**geometry), rounds=3, adjacency=adjacency)
    expected = csgm.calibrate(rounds, target, accountant).sigma
    assert csgm.calibrate(asked, target, accountant, verify=True).sigma == pytest.approx(expected, rel=1e-9)


def test_masks_never_cost_more_than_revealed():
    """As gamma grows to 1 the noise grows to that of whole vectors, also where columns overlap."""
    c = np.array([[0.8, 0, 0], [0.6, 0.8, 0], [0, 0.6, 1.0]])
    target = csgm.Target(1.0, 1e-5)
    noises = [
        csgm.calibrate(mechanism(c, 3, 1, gamma=gamma), target).sigma for gamma in (0.1, 0.5, 0.9, 0.99, 1.0)
    ]
    assert noises == sorted(noises)


@pytest.mark.parametrize(
    ("given", "slug"),
    [({"rounds": 3}, "rounds-with-factorization"), ({"epochs": 2}, "epochs-with-participations")],
)
def test_disagreeing_counts_are_refused(given, slug):
    with pytest.raises(csgm.UsageError) as caught:
        csgm.Mechanism("gaussian", factorization=norms_of(np.eye(4), 2, 2), **given)
    assert caught.value.slug == slug
    csgm.Mechanism("gaussian", factorization=norms_of(np.eye(4), 2, 2), rounds=2, epochs=1)
