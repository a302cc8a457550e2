"""The strongest compression that stays within an overhead over the Gaussian mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

from csgm_cli.core.calibrate import calibrate, sufficient_sigma
from csgm_cli.core.compare import common_accountant
from csgm_cli.core.search import descend
from csgm_cli.core.utility import error_parts
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model import (
    RANGES,
    Accountant,
    Adjacency,
    Geometry,
    Mechanism,
    MechanismName,
    Notice,
    Plan,
    Target,
    check_range,
)

#: Relative width of the bracket around the planned gamma.
_WIDTH = 1e-10


def plan(
    name: MechanismName,
    geometry: Geometry,
    target: Target,
    *,
    max_mse_overhead: float | None = None,
    max_noise_overhead: float | None = None,
    rounds: int = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    accountant: Accountant = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
) -> Plan:
    """The smallest gamma (rounded up) whose cost stays within the overhead; one of the two is given.

    ``max_mse_overhead`` x: total MSE <= (1 + x) of the Gaussian's, needs dim and cohort_size.
    ``max_noise_overhead`` x: sigma/gamma <= (1 + x) sigma_G. One accountant serves both sides.

    Raises:
        UsageError: a value out of range, or not exactly one overhead, or dim or cohort_size missing.
        NoAnswerError: not even gamma = 1 stays within the overhead.
    """
    allowed = _checked_overhead(geometry, max_mse_overhead, max_noise_overhead)

    def at(gamma: float) -> Mechanism:
        return Mechanism(name, gamma, geometry, rounds, adjacency)

    lowest = max(RANGES["gamma"].low, 1 / geometry.dim if geometry.dim else 0.0)
    used = common_accountant([at(lowest)], accountant)
    plain = Mechanism(MechanismName.GAUSSIAN, 1.0, geometry, rounds, adjacency)
    baseline = sufficient_sigma(plain, used, target)

    def excess(gamma: float) -> float:
        """Log of the cost over what is allowed."""
        sigma = sufficient_sigma(at(gamma), used, target)
        if max_mse_overhead is None:
            return math.log(sigma / gamma / (allowed * baseline))
        cost, most = error_parts(geometry, gamma, sigma), error_parts(geometry, 1.0, baseline)
        assert cost is not None  # dim and cohort_size were checked
        assert most is not None
        return math.log(sum(cost) / (allowed * sum(most)))

    gamma, notices = _smallest_gamma(excess, lowest, geometry.dim)
    answer = calibrate(at(gamma), target, used, verify=verify, value_bits=value_bits)
    return Plan(gamma, 1 / gamma, answer, notices)


def _checked_overhead(geometry: Geometry, mse: float | None, noise: float | None) -> float:
    if (mse is None) == (noise is None):
        raise UsageError(
            "one-overhead",
            "exactly one of max_mse_overhead and max_noise_overhead is needed",
            "give --max-mse-overhead or --max-noise-overhead",
        )
    if mse is not None:
        check_range("max_mse_overhead", mse)
        if geometry.dim is None or geometry.cohort_size is None:
            raise UsageError(
                "missing-utility-inputs",
                "an MSE overhead needs dim and cohort_size",
                "give --dim and --cohort-size",
            )
        return 1 + mse
    assert noise is not None
    check_range("max_noise_overhead", noise)
    return 1 + noise


def _smallest_gamma(
    excess: Callable[[float], float], lowest: float, dim: int | None
) -> tuple[float, tuple[Notice, ...]]:
    """The gamma from which on ``excess`` is at most 0: both overheads fall as gamma grows."""
    if excess(lowest) <= 0.0:
        if dim is not None and lowest == 1 / dim:
            said = "even gamma = 1/dim fits: one coordinate per client is enough"
            return lowest, (Notice("one-coordinate", said),)
        return lowest, (Notice("gamma-floor", f"even the smallest gamma, {lowest:g}, fits"),)
    if excess(1.0) > 0.0:
        raise NoAnswerError(
            "no-gamma-fits", "not even gamma = 1 stays within the overhead", "allow a larger overhead"
        )
    log_gamma = descend(lambda x: excess(math.exp(x)), 0.0, -math.inf, width=_WIDTH)
    return math.exp(log_gamma), ()
