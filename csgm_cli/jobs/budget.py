"""What a population's releases spend of its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from csgm_cli.accounting.accountants import LARGEST_TARGET_DELTA, Answer, spent_epsilon, uses_profile
from csgm_cli.accounting.headroom import FEW_RELEASES, Headroom, shares
from csgm_cli.jobs.account import (
    check_accountant,
    conversion_of,
    notices_of,
    one_round,
    overlapping,
    verified_by,
)
from csgm_cli.jobs.statement import assumptions_of
from csgm_cli.model.budget import Population, ReleaseStanding, Standing
from csgm_cli.model.mechanism import Accountant, AccountantLike, Target, accountant_named
from csgm_cli.model.result import Guarantee, Notice

if TYPE_CHECKING:
    from csgm_cli.bounds.worst_case import Release


def spent_by(population: Population, accountant: Accountant) -> float:
    """The epsilon that the enabled releases spend together at the limit's delta.

    Errors are those of `check_population`.
    """
    counted = _counted(population)
    check_accountant((mechanism for mechanism, _ in counted), accountant)
    return (
        spent_epsilon(counted, accountant, population.limit.delta, needs_lower=False).value
        if counted
        else 0.0
    )


def check_population(
    population: Population, accountant: AccountantLike = Accountant.AUTO, *, verify: bool = False
) -> Standing:
    """The population against its limit, and each release's part in it.

    ``verify`` recomputes what is spent by independent code.

    Raises:
        UsageError: an accountant without a bound for the releases.
        NoAnswerError: the loss is beyond what can be computed, or verification fails.
    """
    accountant = accountant_named(accountant)
    counted = _counted(population)
    check_accountant((mechanism for mechanism, _ in counted), accountant)
    if not counted:
        idle = tuple(ReleaseStanding(release, None, None, None) for release in population.releases)
        return Standing(population, None, idle)
    guarantee, parts = _answer(tuple(counted), population.limit, accountant, verify=verify)
    uncounted = [
        Notice(notice.slug, f"release {release.name}: {notice.message}")
        for release in population.counted
        for notice in (*one_round(release.mechanism), *overlapping(release.mechanism))
    ]
    notices = (*uncounted, *guarantee.notices, *_rough_room(population, counted, accountant))
    guarantee = replace(guarantee, notices=notices)
    left = iter(parts)
    releases = (
        ReleaseStanding(release, *(next(left) if release.enabled else (None, None, None)))
        for release in population.releases
    )
    return Standing(population, guarantee, tuple(releases))


#: The share of a release, how many more rounds of it fit, and the noise multiplier that it needs.
_Part: TypeAlias = tuple[float, int | None, float | None]


@lru_cache(maxsize=256)
def _answer(
    counted: tuple[Release, ...], limit: Target, accountant: Accountant, *, verify: bool
) -> tuple[Guarantee, tuple[_Part, ...]]:
    """What releases spend together, and the part of each; many populations may ask the same."""
    spent = spent_epsilon(counted, accountant, limit.delta)
    verified = verified_by(counted, spent, spent.value, limit.delta) if verify else None
    guarantee = Guarantee(
        spent.value,
        limit.delta,
        spent.order,
        spent.bound,
        conversion_of(spent.proof),
        _assumptions(counted, spent),
        lower_bound=spent.lower,
        verified=verified,
        notices=notices_of(spent),
        proof=spent.proof,
    )
    return guarantee, _parts(counted, accountant, limit, spent)


def _rough_room(population: Population, counted: list[Release], accountant: Accountant) -> tuple[Notice, ...]:
    if len(counted) <= FEW_RELEASES or not uses_profile(counted, accountant):
        return ()
    message = (
        f"{population.name}: with more than {FEW_RELEASES} releases, remaining rounds and required noise come"
        " from closed forms and are conservative"
    )
    return (Notice("rough-room", message),)


def _counted(population: Population) -> list[Release]:
    return [(release.mechanism, release.sigma) for release in population.counted]


def _assumptions(counted: Sequence[Release], spent: Answer) -> tuple[str, ...]:
    slugs = [slug for mechanism, _ in counted for slug in assumptions_of(mechanism, spent.bound)]
    return tuple(dict.fromkeys(slugs))


def _parts(
    counted: Sequence[Release], accountant: Accountant, limit: Target, spent: Answer
) -> tuple[_Part, ...]:
    """Computed once for equal releases."""
    used = replace(limit, delta=min(limit.delta, LARGEST_TARGET_DELTA))
    headroom, holds = Headroom(tuple(counted), accountant, used), spent.value <= limit.epsilon
    known: dict[Release, tuple[int | None, float | None]] = {}
    for index, release in enumerate(counted):
        if release not in known:
            more = headroom.more_rounds(index) if holds else 0
            known[release] = more, None if holds else headroom.needed_noise_multiplier(index)
    found = zip(counted, shares(counted, spent.order, limit), strict=True)
    return tuple((share, *known[release]) for release, share in found)
