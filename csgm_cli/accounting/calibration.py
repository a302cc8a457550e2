"""The smallest noise of a release with which it and others together meet (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from csgm_cli import gaussian
from csgm_cli.accounting.accountants import (
    LARGEST_TARGET_DELTA,
    LOOSE,
    Answer,
    bounds_of,
    by_certificates,
    closed_delta,
    law_of,
    renyi_method,
    uses_profile,
    with_exact_lower,
    with_lower,
)
from csgm_cli.bounds.worst_case import Release, total_mu, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism

#: Relative margins of calibrate in epsilon and in sigma, for rounding and the bracket width of account.
_EPSILON_ROOM, _SIGMA_ROOM = 2.5e-13, 1e-13
#: Larger margins: in epsilon under replace-one, where the e1 of the triangle is less accurate; in sigma if an
#: order is searched, and if the bound comes from a certified grid, whose step depends on epsilon.
_TRIANGLE_ROOM, _ORDER_ROOM, _GRID_ROOM = 1e-9, 5e-13, 5e-6
#: In epsilon with client sampling, where account may stop at another order.
_SAMPLED_ROOM = 1e-10


def least_sigma(
    mechanism: Mechanism,
    accountant: Accountant,
    epsilon: float,
    delta: float,
    others: Sequence[Release] = (),
) -> Answer:
    """The smallest sigma of one release with which it and the ``others`` together meet (epsilon, delta).

    A small margin ensures that account at this sigma, or at a rounded-up sigma, gives at most epsilon.

    Raises:
        NoAnswerError: no noise in range meets the target.
    """
    releases = [(mechanism, 1.0), *others]
    has_sampling = any(m.sampling_rate < 1.0 for m, _ in releases)
    inner = epsilon * (1 - (_SAMPLED_ROOM if has_sampling else _EPSILON_ROOM))
    given, delta = delta, min(delta, LARGEST_TARGET_DELTA)
    bounds = bounds_of(releases, accountant)

    def closed() -> _ClosedForm:
        found = [_closed_sigma(mechanism, bound, inner, delta, others) for bound in bounds]
        return min(found, key=lambda form: form.sigma)

    sampled = mechanism.adjacency is Adjacency.ADD_REMOVE and has_sampling
    by_profile = uses_profile(releases, accountant)
    # with client sampling the tight bound under add-remove includes the closed forms
    form = _ClosedForm(math.inf, Bound.RDP) if sampled and by_profile else closed()
    if not by_profile:
        proven = _proven(mechanism, form, epsilon, others)
        return with_exact_lower(proven, releases) if delta == given else proven
    from csgm_cli.accounting.paths import sigma_path
    from csgm_cli.accounting.solve import solve

    if mechanism.adjacency is Adjacency.REPLACE_ONE and not has_sampling:
        # The relative error is one of delta; at small epsilons delta depends little on epsilon.
        inner = epsilon * (1 - _TRIANGLE_ROOM * (1 + min(4 * delta / epsilon, 1e6)))
    path = sigma_path(mechanism, others, inner, math.log(delta))
    try:
        solved = solve(path, _near_sigma(mechanism, inner, delta, others))
    except NoAnswerError:
        form = closed() if sampled else form
        if math.isinf(form.sigma):
            raise
        return replace(_proven(mechanism, form, epsilon, others), fell_back=True)
    if math.exp(solved.proven) < form.sigma:
        on_grid = any(part.step for c in solved.certificates for part in (c, *c.parts))
        sigma = math.exp(solved.proven) * (1 + (_GRID_ROOM if on_grid else _ORDER_ROOM))
        best = by_certificates(sigma, solved.certificates)
        if sampled and best.bound is Bound.RDP:  # of few orders
            form = closed()
            best = _proven(mechanism, form, epsilon, others) if form.sigma < sigma else best
    else:
        best = _proven(mechanism, form, epsilon, others)
    return with_lower(best, releases, math.exp(solved.refuted) if delta == given else 0.0, 1 + LOOSE)


@dataclass(frozen=True)
class _ClosedForm:
    """The smallest sigma by one closed-form bound, infinite if there is none, and its Renyi order."""

    sigma: float
    bound: Bound
    order: float | None = None


def _proven(mechanism: Mechanism, form: _ClosedForm, epsilon: float, others: Sequence[Release]) -> Answer:
    if math.isinf(form.sigma):
        raise NoAnswerError("no-noise-in-range", "no noise in range meets the target")
    spent = closed_delta([(mechanism, form.sigma), *others], form.bound, epsilon, form.order)
    return replace(spent, value=form.sigma)


def _closed_sigma(
    mechanism: Mechanism, bound: Bound, epsilon: float, delta: float, others: Sequence[Release]
) -> _ClosedForm:
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        left = gaussian.mu_for(epsilon, delta) ** 2 - (total_mu(others) ** 2 if others else 0.0)
        sigma = total_mu([(mechanism, 1.0)]) / math.sqrt(left) if left > 0.0 else math.inf
        return _ClosedForm(sigma * (1 + _SIGMA_ROOM), bound)
    from csgm_cli.accounting.paths import sigma_path, solve_method

    path = sigma_path(mechanism, others, epsilon, math.log(delta))
    method = renyi_method([(mechanism, 1.0)], bound)
    try:
        x, certificate = solve_method(
            path, method, _near_sigma(mechanism, epsilon, delta, others), partial(law_of, bound)
        )
    except NoAnswerError:
        return _ClosedForm(math.inf, bound)
    return _ClosedForm(math.exp(x) * (1 + _ORDER_ROOM), bound, certificate.order)


def _near_sigma(mechanism: Mechanism, epsilon: float, delta: float, others: Sequence[Release]) -> float:
    """Initial guess at log sigma: variance at kappa* equal to that of a Gaussian that meets the target."""
    mu = gaussian.mu_for(epsilon, delta) / (2.0 if mechanism.adjacency is Adjacency.REPLACE_ONE else 1.0)
    spent = worst_case_law(others).spread_variance if others else 0.0
    left = max(mu * mu - spent, 1e-4 * mu * mu)
    if mechanism.is_gaussian:
        return math.log(mechanism.sensitivity) + math.log(mechanism.releases / left) / 2
    if mechanism.sampling_rate < 1.0:  # the subsampled Gaussian that spread vectors tend to
        v = math.log1p(left / (mechanism.releases * mechanism.sampling_rate**2))
        return math.log(mechanism.gamma * mechanism.sensitivity) - math.log(v) / 2
    t = math.log1p(left / (mechanism.gamma**2 * mechanism.coordinates * mechanism.releases))
    return math.log(mechanism.linf_sensitivity) - math.log(t) / 2
