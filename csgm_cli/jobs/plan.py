"""The strongest compression that stays within an overhead over the Gaussian mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs.calibrate import calibrate, shortfall
from csgm_cli.jobs.compare import common_accountant
from csgm_cli.jobs.utility import gaussian_like, require_error_inputs, sigma_at_equal_error
from csgm_cli.model.comparison import Plan
from csgm_cli.model.mechanism import (
    Accountant,
    AccountantLike,
    Adjacency,
    AdjacencyLike,
    FactorNorms,
    Mechanism,
    Target,
)
from csgm_cli.model.mechanism_table import Geometry, MechanismLike
from csgm_cli.model.result import Notice
from csgm_cli.ranges import RANGES, check_range, check_type
from csgm_cli.roots import narrow_bracket

#: Relative width of the bracket around the planned gamma.
_WIDTH = 1e-9
#: Ratio of neighbouring gammas that are tried from below.
_RATIO = 1.5
#: Relative margin that calibrate adds to sigma.
_ROOM = 2e-12


def plan(
    name: MechanismLike,
    geometry: Geometry,
    target: Target,
    *,
    gamma: float | None = None,
    max_mse_overhead: float | None = None,
    max_noise_overhead: float | None = None,
    rounds: int | None = None,
    adjacency: AdjacencyLike = Adjacency.ADD_REMOVE,
    accountant: AccountantLike = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
    factorization: FactorNorms | None = None,
    epochs: int | None = None,
    disjoint_cohorts: bool = False,
    sampling_rate: float = 1.0,
) -> Plan:
    """The smallest gamma found (rounded up) whose cost stays within the overhead.

    One of these is given: ``gamma``, whose cost is then computed, or an allowed overhead.

    ``max_mse_overhead`` x in [0, 1e6]: total MSE <= (1 + x) of the Gaussian's, needs dim and cohort_size.
    ``max_noise_overhead`` x in [0, 1e6]: sigma/gamma <= (1 + x) sigma_G. One accountant serves both sides.
    With a ``factorization`` it is SGMF beside the matrix mechanism, and the MSE the mean over the rows.
    With a ``sampling_rate`` both sides have it, ``rounds`` are all training rounds, and ``cohort_size`` is
    the expected one.

    Raises:
        UsageError: a value out of range, or not exactly one of these, or dim or cohort_size missing.
        NoAnswerError: not even gamma = 1 stays within the overhead.
    """
    check_type("geometry", geometry, Geometry)
    check_type("target", target, Target)
    check_type("verify", verify, bool)
    allowed = _checked_overhead(geometry, gamma, max_mse_overhead, max_noise_overhead)

    def at(gamma: float) -> Mechanism:
        return Mechanism(
            name, gamma, geometry, rounds, adjacency, factorization, epochs, disjoint_cohorts, sampling_rate
        )

    if gamma is not None:
        used = common_accountant([at(gamma)], accountant)
        given = calibrate(at(gamma), target, used, verify=verify, value_bits=value_bits)
        return Plan(gamma, 1 / gamma, given)
    lowest = max(RANGES["gamma"].low, 1 / geometry.dim if geometry.dim else 0.0)
    used = common_accountant([at(lowest)], accountant)
    plain = gaussian_like(at(lowest))
    baseline = least_sigma(plain, used, target.epsilon, target.delta).value

    def shortage(gamma: float) -> float:
        """At most 0 where the noise that the overhead allows is enough."""
        mechanism, sigma = at(gamma), allowed * baseline * gamma
        if max_mse_overhead is not None:
            sigma = sigma_at_equal_error(mechanism, plain, baseline, allowed)
        return _shortage(mechanism, used, sigma, target)

    found, notices = _smallest_gamma(shortage, lowest, geometry.dim)
    answer = calibrate(at(found), target, used, verify=verify, value_bits=value_bits)
    return Plan(found, 1 / found, answer, notices)


def _checked_overhead(
    geometry: Geometry, gamma: float | None, mse: float | None, noise: float | None
) -> float:
    if sum(value is not None for value in (gamma, mse, noise)) != 1:
        raise UsageError(
            "one-overhead",
            "exactly one of gamma, max_mse_overhead and max_noise_overhead is needed",
            "pass `max_mse_overhead` or `max_noise_overhead`",
        )
    if gamma is not None:
        return 1.0
    if mse is not None:
        allowed = 1 + check_range("max_mse_overhead", mse)
        require_error_inputs(geometry, "an MSE overhead")
        return allowed
    assert noise is not None
    return 1 + check_range("max_noise_overhead", noise)


def _shortage(mechanism: Mechanism, used: Accountant, sigma: float, target: Target) -> float:
    """At most 0 where ``sigma`` is positive and enough for the target."""
    if mechanism.is_gaussian:
        return least_sigma(mechanism, used, target.epsilon, target.delta).value - sigma
    return shortfall(mechanism, used, sigma * (1 - _ROOM), target) if sigma > 0.0 else math.inf


def _smallest_gamma(
    shortage: Callable[[float], float], lowest: float, dim: int | None
) -> tuple[float, tuple[Notice, ...]]:
    """The smallest gamma without a shortage: the first on a geometric grid from below, then narrowed.

    Under rdp the effective noise falls as gamma grows; under tight it can rise slightly (docs/theory.md), so
    a smaller gamma may fit where a larger one does not.
    """
    low = high = lowest
    at_low = at_high = shortage(lowest)
    if at_high <= 0.0:
        if dim is not None and lowest == 1 / dim:
            said = "even gamma = 1/dim fits: one coordinate per client is enough"
            return lowest, (Notice("one-coordinate", said),)
        return lowest, (Notice("gamma-floor", f"even the smallest gamma, {lowest:g}, fits"),)
    while at_high > 0.0:
        if high == 1.0:
            raise NoAnswerError(
                "no-gamma-fits", "not even gamma = 1 stays within the overhead", "allow a larger overhead"
            )
        low, at_low, high = high, at_high, min(1.0, high * _RATIO)
        at_high = shortage(high)

    def of_log(log_gamma: float) -> float:
        return shortage(min(1.0, math.exp(log_gamma)))

    found = math.exp(narrow_bracket(of_log, (math.log(low), at_low), (math.log(high), at_high), _WIDTH))
    return (1.0 if found > 1 - 10 * _WIDTH else found), ()
