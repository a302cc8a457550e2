"""What a population's releases spend of its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.budget import Population, ReleaseStanding, Standing
from csgm_cli.core.account import conversion_of, notices_of
from csgm_cli.core.compose import Noisy, composed_epsilon, looks_at_profile_of, shares
from csgm_cli.core.headroom import FEW_RELEASES, Headroom
from csgm_cli.core.statement import assumptions_of
from csgm_cli.core.verify import verify_composed_epsilon
from csgm_cli.model import Accountant, Guarantee, Notice, accountant_named

if TYPE_CHECKING:
    from csgm_cli.core.bounds import Spent


def spent_by(population: Population, accountant: Accountant) -> float:
    """The epsilon that the enabled releases spend together at the limit's delta.

    Errors are those of `check_population`.
    """
    counted = _counted(population)
    return (
        composed_epsilon(counted, accountant, population.limit.delta, with_lower=False).value
        if counted
        else 0.0
    )


def check_population(
    population: Population, accountant: Accountant = Accountant.AUTO, *, verify: bool = False
) -> Standing:
    """The population against its limit, and each release's part in it.

    ``verify`` recomputes what is spent in 50 digits by independent code.

    Raises:
        UsageError: an accountant without a bound for the releases.
        NoAnswerError: the loss is beyond what can be computed, or verification fails.
    """
    accountant = accountant_named(accountant)
    counted = _counted(population)
    if not counted:
        idle = tuple(ReleaseStanding(release, None, None, None) for release in population.releases)
        return Standing(population, None, idle)
    delta = population.limit.delta
    spent = composed_epsilon(counted, accountant, delta)
    verified = verify_composed_epsilon(counted, delta, spent) if verify else None
    guarantee = Guarantee(
        spent.value,
        delta,
        spent.order,
        spent.bound,
        conversion_of(spent),
        _assumptions(counted, spent),
        lower_bound=spent.lower,
        verified=verified,
        notices=notices_of(spent) + _rough_room(population, counted, accountant),
    )
    return Standing(population, guarantee, _releases(population, counted, accountant, spent))


def _rough_room(population: Population, counted: list[Noisy], accountant: Accountant) -> tuple[Notice, ...]:
    if len(counted) <= FEW_RELEASES or not looks_at_profile_of(counted, accountant):
        return ()
    message = (
        f"{population.name}: of more than {FEW_RELEASES} releases, more rounds and needed noise are what"
        " the bounds rdp and mask-revealed allow; some more may fit"
    )
    return (Notice("rough-room", message),)


def _counted(population: Population) -> list[Noisy]:
    return [(release.mechanism, release.sigma) for release in population.counted]


def _assumptions(counted: list[Noisy], spent: Spent) -> tuple[str, ...]:
    slugs = [slug for mechanism, _ in counted for slug in assumptions_of(mechanism, spent.bound)]
    return tuple(dict.fromkeys(slugs))


def _releases(
    population: Population, counted: list[Noisy], accountant: Accountant, spent: Spent
) -> tuple[ReleaseStanding, ...]:
    headroom = Headroom(counted, accountant, population.limit)
    holds = spent.value <= population.limit.epsilon
    parts = iter(enumerate(shares(counted, spent, population.limit.delta)))
    found = []
    for release in population.releases:
        if not release.enabled:
            found.append(ReleaseStanding(release, None, None, None))
            continue
        index, share = next(parts)
        more = headroom.more_rounds(index) if holds else 0
        needed = None if holds else headroom.needed_noise_multiplier(index)
        found.append(ReleaseStanding(release, share, more, needed))
    return tuple(found)
