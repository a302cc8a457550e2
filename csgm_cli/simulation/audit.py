"""An empirical lower bound on epsilon: a game in which an attacker guesses whether a client took part.

The attacker knows the mechanism, sees one release, and decides by the likelihood ratio at the worst-case
vector. An event of probability p with the client and p' without, or the other way round, proves
epsilon >= log((p - delta)/p'); Clopper-Pearson intervals bound both. Clients with disjoint coordinates play
independent games in one round.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import Plan, Rotation
from csgm_cli.mechanism.server import Server
from csgm_cli.model.simulation import Audit
from csgm_cli.ranges import check_range, check_type
from csgm_cli.simulation.intervals import clopper_pearson

Floats: TypeAlias = NDArray[np.float64]

CONFIDENCE = 0.999
#: Thresholds on the log-likelihood ratio, as multiples of the claimed epsilon. Each gives two events, and the
#: error probability is divided among all intervals, so that the best event may be chosen.
_THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4)


def audit_epsilon(
    plan: Plan,
    epsilon: float,
    delta: float,
    trials: int = 100_000,
    seed: int = 0,
    sigma: float | None = None,
) -> Audit:
    """A lower bound on the epsilon, at ``delta``, of one round of ``plan``.

    ``epsilon``: the claim, which sets the scale of the events. ``sigma``: of the noise that is actually
    added, to test the audit; the attacker assumes that of the plan. All randomness comes from ``seed``.

    Raises:
        UsageError: a value out of range, or a plan with a rotation, a factorization, client sampling or
            several rounds (slug ``cannot-audit``).
    """
    check_type("plan", plan, Plan)
    epsilon, delta = check_range("epsilon", epsilon), check_range("delta", delta)
    trials = int(check_range("trials", trials))
    _check(plan)
    vectors = worst_case_vectors(plan)
    rounds = -(-trials // len(vectors))
    budget = plan.mechanism.with_releases(2 * rounds)
    run = replace(plan, mechanism=budget, sigma=plan.sigma if sigma is None else sigma)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = Server(run, seed=seed)
        games = [
            [_play(server, vectors, present=present) for _ in range(rounds)] for present in (True, False)
        ]
    with_clients, without = (_ratios(plan, vectors, np.array(releases)) for releases in games)
    bound, threshold = max(_bounds(with_clients, without, epsilon, delta))
    return Audit(bound, delta, CONFIDENCE, rounds * len(vectors), threshold)


def _check(plan: Plan) -> None:
    mechanism = plan.mechanism
    plain = mechanism.factorization is None and mechanism.sampling_rate == 1.0 and mechanism.releases == 1
    if not plain or plan.rotation is not Rotation.NONE:
        raise UsageError(
            "cannot-audit",
            "only one round without rotation, factorization and client sampling can be audited",
        )


def worst_case_vectors(plan: Plan) -> Floats:
    """A vector for each game of a round: as many coordinates as possible at the L-inf clip, disjoint ones."""
    count = min(int(plan.mechanism.coordinates), plan.dim)
    games = min(plan.dim // count, plan.cohort_size)
    vectors = np.zeros((games, plan.dim))
    for game, vector in enumerate(vectors):
        vector[game * count : (game + 1) * count] = plan.linf_norm
    return vectors


def _play(server: Server, vectors: Floats, *, present: bool) -> Floats:
    cohort = server.draw(range(len(vectors)))
    for client, vector in enumerate(vectors if present else ()):
        cohort.add(client, encode(server.plan, vector, cohort.seed_of(client)))
    return cohort.release()


def _ratios(plan: Plan, vectors: Floats, releases: Floats) -> Floats:
    """The log-likelihood ratio of each game of each release."""
    factors = log_likelihood_ratios(plan, vectors.sum(axis=0), releases)
    return np.concatenate([factors[:, vector > 0].sum(axis=1) for vector in vectors])


def log_likelihood_ratios(plan: Plan, vector: Floats, releases: Floats) -> Floats:
    """By coordinate, the log of the density of a release with a client's ``vector`` over that without.

    log(1 - gamma + gamma exp((x y - x^2/2)/sigma^2)) with y = n gamma release.
    """
    y = releases * (plan.cohort_size * plan.gamma)
    exponents: Floats = (vector * y - vector**2 / 2) / plan.sigma**2
    if plan.gamma == 1.0:
        return exponents
    ratios: Floats = np.logaddexp(math.log1p(-plan.gamma), math.log(plan.gamma) + exponents)
    return ratios


def _bounds(
    with_clients: Floats, without: Floats, epsilon: float, delta: float
) -> Iterator[tuple[float, float]]:
    """The lower bound on epsilon of each event, and its threshold; 0 where an event proves nothing."""
    trials = len(with_clients)
    error = (1 - CONFIDENCE) / (2 * 2 * len(_THRESHOLDS))
    for multiple in _THRESHOLDS:
        threshold = multiple * epsilon
        for likely, unlikely in ((with_clients, without), (-without, -with_clients)):
            low, _ = clopper_pearson(int((likely >= threshold).sum()), trials, error)
            _, high = clopper_pearson(int((unlikely >= threshold).sum()), trials, error)
            yield (math.log((low - delta) / high) if low > delta else 0.0), threshold
