"""Remaining budget of each release: how many more rounds fit, and how much noise would make it fit.

For a few releases the accountant itself is used. For more, so that the cost stays linear in their number,
only closed forms at a few orders are used: at each order the target allows a total log-moment, which the
releases share (docs/theory.md, "Mixed releases").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from csgm_cli import gaussian
from csgm_cli.accounting.accountants import bounds_of, log_delta_of, uses_profile
from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.bounds.by_order import RENYI, ByOrder
from csgm_cli.bounds.worst_case import Release, is_replace_one, paper_law, total_mu, unit_mu, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Accountant, Bound
from csgm_cli.ranges import RANGES
from csgm_cli.renyi.conversion import allowed_moment, best_log_delta
from csgm_cli.renyi.law import Law, cache_log_moments
from csgm_cli.renyi.orders import best_order, initial_order
from csgm_cli.roots import smallest_nonpositive

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Target
    from csgm_cli.renyi.moment import LogMoment

#: Up to this number of releases the accountant itself is used.
FEW_RELEASES = 8
#: Orders to try: (order - 1) relative to the best order of all releases together at the limit.
_AROUND = (0.75, 1.0, 1.3)
#: Relative margins for rounding errors, of sums of log-moments and of numbers derived from sigma.
_MOMENT_ROOM, _SIGMA_ROOM = 1e-12, 4e-13
_MOST_ROUNDS = int(RANGES["rounds"].high)


@dataclass(frozen=True)
class Headroom:
    """The remaining budget of each of the ``releases`` of one population under a ``limit``."""

    releases: tuple[Release, ...]
    accountant: Accountant
    limit: Target

    def more_rounds(self, index: int) -> int | None:
        """The largest number of additional rounds (or epochs) of one release; at most 1e9 in all.

        None where a run without a restart fixes the participations.
        """
        if self.releases[index][0].repeated is not None:
            return None
        most = _MOST_ROUNDS - self.releases[index][0].releases
        found = min(most, max(rows.more_rounds(index) for rows in self._closed_forms))
        if len(self.releases) > FEW_RELEASES:
            return found
        return _largest_holding(lambda rounds: self._holds(self._with_rounds(index, rounds)), found, most)

    def needed_noise_multiplier(self, index: int) -> float | None:
        """The smallest noise multiplier of one release with which all meet the limit; None if none does."""
        mechanism, _ = self.releases[index]
        if len(self.releases) > FEW_RELEASES:
            sigma = min(rows.needed_sigma(index) for rows in self._closed_forms)
        else:
            others = [release for i, release in enumerate(self.releases) if i != index]
            try:
                limit = self.limit
                sigma = least_sigma(mechanism, self.accountant, limit.epsilon, limit.delta, others).value
            except NoAnswerError:
                return None
        noise = sigma / mechanism.geometry.l2_norm * (1 + _SIGMA_ROOM)
        return noise if noise in RANGES["noise_multiplier"] else None

    def _with_rounds(self, index: int, rounds: int) -> list[Release]:
        mechanism, sigma = self.releases[index]
        longer = (mechanism.with_releases(mechanism.releases + rounds), sigma)
        return [longer if i == index else release for i, release in enumerate(self.releases)]

    def _holds(self, releases: Sequence[Release]) -> bool:
        proven = log_delta_of(releases, self.accountant, self.limit.epsilon, math.log(self.limit.delta))
        return proven <= math.log(self.limit.delta)

    @cached_property
    def _closed_forms(self) -> list[_Moments | _SquaredMus]:
        """The closed-form bounds. Any one is enough; its forms for single directions must all hold."""
        bounds = bounds_of(self.releases, self.accountant)
        forms: list[_Moments | _SquaredMus] = []
        if Bound.EXACT in bounds or Bound.MASK_REVEALED in bounds:
            forms.append(_SquaredMus(self.releases, gaussian.mu_for(self.limit.epsilon, self.limit.delta)))
        replaced = is_replace_one(self.releases)
        for bound in (bound for bound in bounds if bound in (Bound.RDP, Bound.PAPER)):
            form = replace(RENYI, replace_one=replaced, integer_orders=bound is Bound.PAPER)
            forms.append(_Moments(self.releases, self.limit, (form,), is_paper=bound is Bound.PAPER))
        sampled = any(mechanism.sampling_rate < 1.0 for mechanism, _ in self.releases)
        if uses_profile(self.releases, self.accountant) and not replaced and not sampled:
            from csgm_cli.bounds.tight import MATCHED_ADD, MATCHED_REMOVE

            forms.append(_Moments(self.releases, self.limit, (MATCHED_ADD, MATCHED_REMOVE)))
        return forms


@dataclass(frozen=True)
class _SquaredMus:
    """Remaining budget by the Gaussian profile with every coordinate sent: total mu at most ``most``."""

    releases: tuple[Release, ...]
    most: float

    @cached_property
    def _left(self) -> float:
        return self.most**2 * (1 - _MOMENT_ROOM) - total_mu(self.releases) ** 2

    def more_rounds(self, index: int) -> int:
        return max(0, math.floor(min(self._left / unit_mu(*self.releases[index]) ** 2, 1e15)))

    def needed_sigma(self, index: int) -> float:
        mechanism, sigma = self.releases[index]
        own = mechanism.releases * unit_mu(mechanism, sigma) ** 2
        left = self._left + own
        return sigma * math.sqrt(own / left) if left > 0.0 else math.inf


@dataclass(frozen=True)
class _Moments:
    """Remaining budget by closed forms in the log-moment; each must hold, at an order of its own."""

    releases: tuple[Release, ...]
    limit: Target
    forms: tuple[ByOrder, ...]
    is_paper: bool = False

    def more_rounds(self, index: int) -> int:
        return min(max(self._rounds_at(row, index) for row in rows) for rows in self._rows)

    def needed_sigma(self, index: int) -> float:
        return max(
            min(self._sigma_at(form, row, index) for row in rows[:1])
            for form, rows in zip(self.forms, self._rows, strict=True)
        )

    @cached_property
    def _rows(self) -> list[list[_Row]]:
        """For each form, one row per order, the order with the largest remaining budget first."""
        return [self._rows_of(form) for form in self.forms]

    def _rows_of(self, form: ByOrder) -> list[_Row]:
        best = self._order_at_limit(form)
        orders = dict.fromkeys(1.0 + (best - 1.0) * factor for factor in _AROUND)
        if form.integer_orders:
            orders = dict.fromkeys(float(max(2, round(order))) for order in orders)
        rows = []
        for order in orders:
            units = self._units(form, order)
            spent = math.fsum(m.releases * unit for (m, _), unit in zip(self.releases, units, strict=True))
            allowed = allowed_moment(order, form.convert, self.limit.epsilon, math.log(self.limit.delta))
            rows.append(_Row(order, allowed * (1 - _MOMENT_ROOM), spent, units))
        return sorted(rows, key=lambda row: row.spent / max(row.allowed, 1e-300))

    def _order_at_limit(self, form: ByOrder) -> float:
        """The order at which the releases take the smallest share of the log-moment that the limit allows."""
        epsilon, log_delta = self.limit.epsilon, math.log(self.limit.delta)

        def log_share(order: float, moment: LogMoment) -> float:
            near = min(max(moment.value, 1e-9), 1e9)
            allowed = allowed_moment(order, form.convert, epsilon, log_delta, near)
            return math.log(moment.value / allowed) if moment.value > 0.0 and allowed > 0.0 else math.inf

        at_limit = Law((), gaussian.mu_for(self.limit.epsilon, self.limit.delta) ** 2)
        curve = form.curve(self._law(self.releases))
        return best_order(curve, log_share, initial_order(at_limit, epsilon))[1]

    def _units(self, form: ByOrder, order: float) -> list[float]:
        """The log-moment of one round of each release, computed once for equal ones."""
        kinds = dict.fromkeys(self.releases)
        laws = {(m, sigma): self._law([(m.with_releases(1), sigma)]) for m, sigma in kinds}
        cache_log_moments(list(laws.values()), (2 * order - 1, 2 * order) if form.replace_one else (order,))
        units = {release: form.curve(law).moment(order).value for release, law in laws.items()}
        return [units[release] for release in self.releases]

    def _law(self, releases: Sequence[Release]) -> Law:
        return (paper_law if self.is_paper else worst_case_law)(releases)

    def _moment(self, form: ByOrder, release: Release, order: float) -> float:
        """The log-moment of one round."""
        mechanism, sigma = release
        return float(form.curve(self._law([(mechanism.with_releases(1), sigma)])).moment(order).value)

    def _rounds_at(self, row: _Row, index: int) -> int:
        if not row.spent < row.allowed or row.units[index] <= 0.0:
            return 0
        return math.floor(min((row.allowed - row.spent) / row.units[index], 1e15))

    def _sigma_at(self, form: ByOrder, row: _Row, index: int) -> float:
        mechanism, sigma = self.releases[index]
        left = row.allowed - (row.spent - mechanism.releases * row.units[index])
        if left <= 0.0:
            return math.inf
        goal = math.log(left / mechanism.releases)

        def excess(log_sigma: float) -> float:
            moment = self._moment(form, (mechanism, math.exp(log_sigma)), row.order)
            return math.log(moment) - goal if moment > 0.0 else -math.inf

        try:
            return math.exp(
                smallest_nonpositive(excess, math.log(sigma), slope=2.0, width=1e-10, ceiling=100.0)
            )
        except NoAnswerError:
            return math.inf


@dataclass(frozen=True)
class _Row:
    """At one ``order``: the log-moments ``allowed`` and ``spent`` in total, and per round of each release."""

    order: float
    allowed: float
    spent: float
    units: list[float]


def _largest_holding(holds: Callable[[int], bool], known: int, most: int) -> int:
    """The largest integer up to ``most`` with ``holds``, a decreasing predicate; ``known``: one, or 0."""
    low, step = known, max(1, known // 64)
    while low < most:
        ahead = min(low + step, most)
        if not holds(ahead):
            break
        low, step = ahead, 2 * step
    else:
        return most
    high = ahead
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def shares(releases: Sequence[Release], order: float | None, limit: Target) -> list[float]:
    """The share of each release in the privacy spent; the shares add up to 1.

    Shares of the log-moment at ``order``, by default the best Renyi order. If all releases are Gaussian
    mechanisms, shares of the squared mu, which are the same at every order.
    """
    if all(mechanism.is_gaussian for mechanism, _ in releases):
        parts = [m.releases * unit_mu(m, sigma) ** 2 for m, sigma in releases]
    else:
        at = order or best_log_delta(RENYI.curve(worst_case_law(releases)), RENYI.convert, limit.epsilon)[1]
        moments = {kind: worst_case_law([kind]).log_moment(at).value for kind in dict.fromkeys(releases)}
        parts = [moments[release] for release in releases]
    total = math.fsum(parts)
    return [part / total for part in parts] if 0.0 < total < math.inf else [1 / len(parts)] * len(parts)
