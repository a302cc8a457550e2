"""Root finding along one parameter, log sigma or log epsilon; every bound on delta decreases in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from csgm_cli.bounds.by_order import ByOrder
from csgm_cli.bounds.worst_case import Release, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.renyi.conversion import (
    LEAST_LOG_EPSILON,
    MOST_LOG_EPSILON,
    allowed_moment,
    at_epsilon,
    typical_slope,
)
from csgm_cli.renyi.moment import combine
from csgm_cli.renyi.orders import adjacent_integers, extrapolated, extrapolated_best, initial_order
from csgm_cli.roots import smallest_nonpositive

if TYPE_CHECKING:
    from csgm_cli.bounds.by_order import Method
    from csgm_cli.model.certificate import Certificate
    from csgm_cli.model.mechanism import Mechanism
    from csgm_cli.renyi.law import Law
    from csgm_cli.renyi.moment import LogMoment

    #: Computes the law of releases, at their worst-case vector or in the paper's form.
    LawOf = Callable[[Sequence[Release]], Law]

#: The joint search for x and the order: maximal number of iterations, step below which it has converged, and
#: the smallest step from which a slope is estimated.
_MAX_ITERATIONS, _CONVERGED, _LEAST_MOVE = 8, 1e-3, 1e-4
#: Width of the first bracket where the order is searched at every x; the change in x after which the best
#: order there changes it by far less.
_ROUGH, _SETTLED = 0.01, 1e-8


@dataclass(frozen=True)
class SearchPath:
    """Releases and epsilon as functions of one parameter x; every bound on delta decreases in x.

    ``width``: of the final bracket in x. ``slope``: approximate -d log delta/dx.
    ``law``: the law of the releases if x is log epsilon and the law is fixed, else None.
    """

    at: Callable[[float], tuple[Sequence[Release], float]]
    log_delta: float
    slope: float
    width: float
    floor: float
    ceiling: float
    law: Law | None = None


def sigma_path(
    mechanism: Mechanism, others: Sequence[Release], epsilon: float, log_delta: float
) -> SearchPath:
    """The path with x = log sigma of one mechanism, together with ``others`` at fixed noise."""

    def at(x: float) -> tuple[Sequence[Release], float]:
        return [(mechanism, math.exp(x)), *others], epsilon

    scale = math.log(mechanism.geometry.l2_norm)
    return SearchPath(at, log_delta, typical_slope(log_delta), 3e-13, scale - 36.0, scale + 42.0)


def epsilon_path(releases: Sequence[Release], log_delta: float) -> SearchPath:
    """The path with x = log epsilon at fixed noise."""
    slope = typical_slope(log_delta)
    law = worst_case_law(releases)
    return SearchPath(
        lambda x: (releases, math.exp(x)), log_delta, slope, 1e-13, LEAST_LOG_EPSILON, MOST_LOG_EPSILON, law
    )


class Excess:
    """log(delta of a method / target delta) as a function of x along a path; values are cached."""

    def __init__(self, path: SearchPath, method: Method, law_of: LawOf = worst_case_law) -> None:
        self.path, self.law_of = path, law_of
        self.method = replace(method, goal=path.log_delta) if isinstance(method, ByOrder) else method
        self._seen: dict[float, Certificate | None] = {}
        self._hint: tuple[float, float] | None = None

    def __call__(self, x: float) -> float:
        """The excess at x; infinite if the method gives no bound there."""
        found = self.certificate(x)
        return math.inf if found is None else found.log_delta - self.path.log_delta

    def certificate(self, x: float) -> Certificate | None:
        """The certificate of the method at x; each search starts from the result of the previous one."""
        if x not in self._seen:
            releases, epsilon = self.path.at(x)
            law = self.law_of(releases)
            found = self.method(law, epsilon, self._near(law))
            if found is not None and found.log_delta < 0.0 and found.hint is not None:
                self._hint = found.hint, law.spread_variance
            self._seen[x] = found
        return self._seen[x]

    def _near(self, law: Law) -> float | None:
        """Where a method may start: the best (order - 1) is roughly proportional to 1/variance."""
        if self._hint is None or not isinstance(self.method, ByOrder):
            return self._hint and self._hint[0]
        order, variance = self._hint
        return max(1.0 + (order - 1.0) * variance / law.spread_variance, 1.0 + 2.0**-52)

    def remember(self, x: float, certificate: Certificate) -> None:
        """Cache a certificate at x that was computed elsewhere."""
        self._seen[x] = certificate


def solve_method(
    path: SearchPath, method: Method, near: float, law_of: LawOf = worst_case_law
) -> tuple[float, Certificate]:
    """The smallest x at which one method proves the target, and the certificate there; ``near``: a guess.

    Raises:
        NoAnswerError: the method proves the target at no x in range.
    """
    if law_of(path.at(near)[0]).sampled:
        if isinstance(method, ByOrder) and not method.integer_orders:
            return _alternating_search(path, method, near)
    elif isinstance(method, ByOrder):
        settled = _joint_search(path, method, law_of, near)
        found = _at_order(path, method, law_of, settled) if settled else None
        if found is not None:
            return found
    return _end_of(Excess(path, method, law_of), near, path.slope)


def _alternating_search(path: SearchPath, method: ByOrder, x: float) -> tuple[float, Certificate]:
    """`solve_method`: first with the best order at every x, then at the best order there, until x settles."""
    x, certificate = _end_of(Excess(replace(path, width=_ROUGH), method), x, path.slope)
    order = certificate.order
    for _ in range(_MAX_ITERATIONS):
        releases, epsilon = path.at(x)
        order = method.best_order(worst_case_law(releases), epsilon, order)
        before, (x, certificate) = x, _end_of(Excess(path, replace(method, order=order)), x, path.slope)
        if abs(x - before) <= max(_SETTLED, path.width):
            break
    return x, certificate


def _end_of(excess: Excess, near: float, slope: float) -> tuple[float, Certificate]:
    path = excess.path
    x = smallest_nonpositive(
        excess, near, slope=slope, width=path.width, floor=path.floor, ceiling=path.ceiling
    )
    found = excess.certificate(x)
    assert found is not None  # its excess is at most 0
    return x, found


def _at_order(
    path: SearchPath, method: ByOrder, law_of: LawOf, near: _Converged
) -> tuple[float, Certificate] | None:
    """The smallest x at which a method proves the target at a fixed order, and the certificate."""
    found = []
    for order in adjacent_integers(near.order) if method.integer_orders else [near.order]:
        with suppress(NoAnswerError):
            found.append(_end_of(Excess(path, replace(method, order=order), law_of), near.x, near.slope))
    return min(found, key=lambda pair: pair[0], default=None)


@dataclass(frozen=True)
class _Converged:
    """The approximate answer of a method, the best order there, and -d log delta/dx."""

    x: float
    order: float
    slope: float


def _joint_search(path: SearchPath, method: ByOrder, law_of: LawOf, x: float) -> _Converged | None:
    """The x and the order to which a joint search from x converges, None if it does not.

    log K is almost linear in x, so an extrapolated K gives the next order and the next x.
    """
    order, steepness = 0.0, 2.0
    before: tuple[float, Callable[[float], LogMoment]] | None = None
    for _ in range(_MAX_ITERATIONS):
        releases, epsilon = path.at(x)
        curve = method.curve(law_of(releases))
        order = order or initial_order(curve.law, epsilon)
        moment = curve.moment(order)
        if before is not None and abs(x - before[0]) > _LEAST_MOVE and 0.0 < moment.value < math.inf:
            steepness = max(1.0, math.log(before[1](order).value / moment.value) / (x - before[0]))
        step = _next_order(method, order, moment, epsilon, path.log_delta)
        if step is None:
            return None
        best, gap, elasticity = step
        before = x, extrapolated(order, moment)
        move = gap / steepness
        settled = abs(move) <= _CONVERGED and abs(math.log((best - 1) / (order - 1))) <= _CONVERGED
        x += max(-2.0, min(2.0, move))
        if settled:  # update the order for the last step in x
            ahead = combine([(math.exp(-steepness * move), moment)])
            _, order = extrapolated_best(order, ahead, at_epsilon(method.convert, epsilon))
            return _Converged(x, order, steepness * elasticity)
        x, order = min(max(x, path.floor), path.ceiling), best
    return None


def _next_order(
    method: ByOrder, order: float, moment: LogMoment, epsilon: float, log_delta: float
) -> tuple[float, float, float] | None:
    """The best order for an extrapolated K, log(K/allowed K) there, and d log delta/d log K."""
    if not 0.0 < moment.value < math.inf:
        return None
    least, best = extrapolated_best(order, moment, at_epsilon(method.convert, epsilon))
    there = extrapolated(order, moment)(best)
    if math.isinf(least) or not 0.0 < there.value < math.inf:
        return None
    allowed = allowed_moment(best, method.convert, epsilon, log_delta, there.value)
    if allowed == 0.0:
        return None
    more = replace(there, value=there.value * (1 + _LEAST_MOVE))
    elasticity = (method.convert(best, more, epsilon) - least) / _LEAST_MOVE
    return best, math.log(there.value / allowed), elasticity
