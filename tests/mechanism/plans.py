"""Plans and runs that the tests of the server share."""

from __future__ import annotations

import numpy as np

import csgm_cli as csgm
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import Plan, Rotation

DIM = 8
#: Noise that is far below every tolerance: what is left is the mask.
QUIET = 1e-9


def plan_with(sigma=QUIET, name="gaussian", gamma=1.0, dim=DIM, cohort_size=4, ratio=1.0, **rest):
    """A plan without rotation; all else as given, the clip norms 1 and 1/ratio."""
    rotation = rest.pop("rotation", Rotation.NONE)
    geometry = csgm.Geometry(ratio, 1.0, dim=dim, cohort_size=cohort_size)
    if "factorization" not in rest:
        rest.setdefault("rounds", 3)
    return Plan(csgm.Mechanism(name, gamma, geometry, **rest), sigma, rotation)


def reply(cohort, vectors):
    """Let each client of the cohort send its vector."""
    for client in cohort.clients:
        cohort.add(client, encode(cohort.plan, vectors[client], cohort.seed_of(client)))


def released(server, clients, vectors):
    """One round in which all who take part reply."""
    cohort = server.draw(clients)
    reply(cohort, vectors)
    return cohort.release()


def unit_vectors(clients, dim=DIM, seed=0):
    """A vector of norm 1/2 for each client."""
    draws = np.random.default_rng(seed).standard_normal((len(clients), dim))
    return {c: v / np.linalg.norm(v) / 2 for c, v in zip(clients, draws, strict=True)}
