"""Monte Carlo error of the mean estimate, from the real client and server code, against the formulas."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization import factor_norms, parse_workload
from csgm_cli.factorization.norms import norms_of_arrays
from csgm_cli.jobs.utility import error_parts, error_weights
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import Plan, Rotation
from csgm_cli.mechanism.rotation import rotate_back
from csgm_cli.mechanism.server import Server
from csgm_cli.mechanism.wire import decode
from csgm_cli.model.factorization import Factorization
from csgm_cli.model.simulation import MeanSimulation, Prediction
from csgm_cli.ranges import check_range, check_type
from csgm_cli.simulation.intervals import mean_interval

if TYPE_CHECKING:
    from csgm_cli.mechanism.added_noise import Factors

Floats: TypeAlias = NDArray[np.float64]

#: Each of the three intervals misses a correct formula in one of a thousand simulations.
CONFIDENCE = 0.999
#: All coordinates of these vectors are sent, so the mask seed does not matter.
_UNUSED_SEED = bytes(16)


def simulate_mean(
    plan: Plan,
    vectors: ArrayLike | None = None,
    trials: int = 200,
    seed: int = 0,
    factors: Factors | None = None,
) -> MeanSimulation:
    """The error of ``trials`` simulated rounds, or with a factorization epochs, of ``plan``.

    ``vectors``: one row of ``plan.dim`` numbers for each of the planned n clients, with client sampling for
    each of the population; by default random, of norm ``l2_norm`` and with a common part. With a
    factorization every step has these vectors, from new clients. ``factors``: as in `Server`.

    The results are NOT PRIVATE: all randomness comes from ``seed``.

    Raises:
        UsageError: a value out of range, or vectors of another shape (slug ``wrong-shape``).
    """
    check_type("plan", plan, Plan)
    trials = int(check_range("trials", trials))
    seed = int(check_range("seed", seed))
    population = round(plan.cohort_size / plan.mechanism.sampling_rate)
    given = _synthetic(plan, population, seed) if vectors is None else _checked(plan, vectors, population)
    plan = _with_row_norms(plan, factors)
    total, squares = _sums_as_sent(plan, given)
    mean = rotate_back(plan, total) * (plan.mechanism.sampling_rate / plan.cohort_size)
    expected = np.arange(1, _rows(plan) + 1)[:, None] * mean
    errors = _errors(plan, given, expected, trials, seed, factors)
    parts = error_parts(plan.mechanism, plan.sigma)
    return MeanSimulation(
        trials=trials,
        confidence=CONFIDENCE,
        predictions=_predictions(errors, expected, _predicted_mse(plan, squares)),
        worst_case_mse=None if parts is None else sum(parts),
        encoding_error=_relative(mean, given.mean(axis=0)),
    )


def _rows(plan: Plan) -> int:
    """Releases in a trial."""
    factors = plan.mechanism.factorization
    return 1 if factors is None else factors.T


def _synthetic(plan: Plan, population: int, seed: int) -> Floats:
    """Random vectors of norm ``l2_norm``, half of whose energy is a common direction."""
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((population, plan.dim))
    common = generator.standard_normal(plan.dim)
    _scale_rows(vectors, 1.0)
    vectors += common / np.linalg.norm(common)
    _scale_rows(vectors, plan.mechanism.geometry.l2_norm)
    return vectors


def _scale_rows(vectors: Floats, norm: float) -> None:
    """Give each row this norm, in place: all vectors may take most of the memory."""
    vectors *= (norm / np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))[:, None]


def _checked(plan: Plan, vectors: ArrayLike, population: int) -> Floats:
    try:
        found = np.asarray(vectors)
    except ValueError:  # rows of different lengths
        found = np.empty(0)
    if found.shape != (population, plan.dim):
        raise UsageError(
            "wrong-shape",
            f"vectors must have shape ({population}, {plan.dim}), clients times dim, got {found.shape}",
        )
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise UsageError("not-finite", "vectors must be finite real numbers")
    return found.astype(np.float64, copy=False)


def _with_row_norms(plan: Plan, factors: Factors | None) -> Plan:
    """The plan with the norms of the rows of its factorization, which errors depend on."""
    planned = plan.mechanism.factorization
    if planned is None or factors is None:
        return plan
    if isinstance(factors, Factorization):
        rows = factor_norms(factors).rows
    else:
        rows = norms_of_arrays(parse_workload(planned.workload, planned.T), {"B": factors}).rows
    known = replace(planned, rows=rows)
    return replace(plan, mechanism=replace(plan.mechanism, factorization=known))


def _sums_as_sent(plan: Plan, vectors: Floats) -> tuple[Floats, Floats]:
    """Sums of the rotated vectors, and of their squares, as decoded if every coordinate were sent."""
    whole = replace(plan, mechanism=replace(plan.mechanism, gamma=1.0))
    total, squares = np.zeros(plan.length), np.zeros(plan.length)
    for vector in vectors:
        _, sent = decode(whole, encode(whole, vector, _UNUSED_SEED), _UNUSED_SEED)
        total += sent
        squares += sent**2
    return total, squares


def _errors(
    plan: Plan, vectors: Floats, expected: Floats, trials: int, seed: int, factors: Factors | None
) -> Iterable[Floats]:
    """The error of each trial, one row for each release."""
    # As many releases as trials: nothing here is private.
    endless = replace(plan.mechanism.with_releases(trials), disjoint_cohorts=False)
    plan = replace(plan, mechanism=endless)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = Server(plan, seed=seed, factors=factors)
        for _ in range(trials):
            yield np.array([_release(server, vectors, row) for row in range(len(expected))]) - expected


def _release(server: Server, vectors: Floats, row: int) -> Floats:
    clients: dict[Hashable, Floats] = {(row, i): vector for i, vector in enumerate(vectors)}
    cohort = server.draw(clients)
    for client in cohort.clients:
        payload = encode(server.plan, clients[client], cohort.seed_of(client))
        cohort.add(client, payload)
    return cohort.release()


def _predicted_mse(plan: Plan, squares: Floats) -> float:
    """E ||error||^2, averaged over the rows of a stream: the noise, and the random choice of what is sent.

    d sigma^2/(n gamma)^2 and, as coordinate j of a client is sent with probability q gamma,
    (1 - q gamma) q/(n^2 gamma) sum_j c_j sum_i x_ij^2, where c_j is the share of coordinate j that is left
    once the padding is dropped. ``squares``: sum_i x_ij^2 for each j.
    """
    n, gamma, q = plan.cohort_size, plan.gamma, plan.mechanism.sampling_rate
    noise, masks = error_weights(plan.mechanism)
    energy = float(_kept_shares(plan) @ squares)
    unsent = (1 - q * gamma) * q * energy / (n * n * gamma)
    return noise * plan.dim * (plan.sigma / (n * gamma)) ** 2 + masks * unsent


def _kept_shares(plan: Plan) -> Floats:
    """For each rotated coordinate, the share of its energy in the first ``dim`` of ``length`` numbers."""
    d, length = plan.dim, plan.length
    if plan.rotation is not Rotation.DCT or d == length:
        return np.full(length, d / length)
    # (2/L) sum over j < d of cos(pi (2j+1) k/(2L))^2, by the sum of cos((2j+1) theta); half of it for k = 0.
    theta = np.pi * np.arange(1, length) / length
    rest = (d + np.sin(2 * d * theta) / (2 * np.sin(theta))) / length
    return np.concatenate(([d / length], rest))


def _predictions(errors: Iterable[Floats], expected: Floats, mse: float) -> tuple[Prediction, ...]:
    """The MSE, the bias along the mean relative to it, and the squared norm of the bias.

    The last is the mean of scalar products of the errors of two trials, which are independent.
    """
    rows, energy = len(expected), float((expected**2).sum())
    squares, along, products = [], [], []
    previous = None
    for error in errors:
        squares.append(float((error**2).sum()) / rows)
        along.append(float((error * expected).sum()) / energy if energy else 0.0)
        if previous is not None:
            products.append(float((error * previous).sum()) / rows)
        previous = error if previous is None else None
    found = (("mse", mse, squares), ("relative_bias", 0.0, along), ("squared_bias", 0.0, products))
    return tuple(
        Prediction(name, predicted, *mean_interval(np.array(samples), CONFIDENCE))
        for name, predicted, samples in found
    )


def _relative(found: Floats, reference: Floats) -> float:
    """||found - reference|| / ||reference||; 0 for equal vectors."""
    distance = float(np.linalg.norm(found - reference))
    return distance / max(float(np.linalg.norm(reference)), math.ulp(0.0)) if distance else 0.0
