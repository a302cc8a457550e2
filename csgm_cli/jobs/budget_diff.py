"""The difference in spending between two budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.jobs.budget import spent_by
from csgm_cli.model.budget import Population, PopulationChange, Release, ReleaseChange, Standing

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Accountant


#: Maximal number of releases counted again over all changes. Counting takes up to 0.3 ms per release with a
#: noise of its own, so the changes of a budget take seconds, however many there are.
_MOST_RECOUNTED = 20_000


def population_changes(
    before: Sequence[Population],
    after: Sequence[Standing],
    accountant: Accountant,
    recorded: Mapping[str, float] | None = None,
) -> tuple[PopulationChange, ...]:
    """Every population of either side, those of ``after`` first.

    ``recorded``: what was said to be spent before, by population. Without it there is nothing that the
    program could have changed. In a large budget what a change spends is computed for the first changes only.
    Errors are those of `csgm_cli.jobs.budget.check_population`.
    """
    allowance = _Allowance(_MOST_RECOUNTED)
    old, new = {p.name: p for p in before}, {s.population.name: s for s in after}
    found = []
    for name in dict.fromkeys((*new, *old)):
        was, now = old.get(name), new.get(name)
        declared = None if now is None else now.population
        found.append(
            PopulationChange(
                was,
                now,
                (recorded or {}).get(name),
                None if was is None else spent_by(was, accountant),
                _release_changes(was, declared, accountant, allowance),
            )
        )
    return tuple(found)


class _Allowance:
    """Limits how many releases are counted again to tell what each change spends."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> bool:
        """Use ``count`` of what is left; False if that is not enough."""
        self.left -= count if (enough := count <= self.left) else 0
        return enough


def _release_changes(
    was: Population | None, now: Population | None, accountant: Accountant, allowance: _Allowance
) -> tuple[ReleaseChange, ...]:
    """Each release that differs, with what it alone changes in the earlier releases under today's limit."""
    base = _under_limit_of(now, was)
    start = spent_by(base, accountant)
    found = []
    for before, after in _paired(base.releases if was else (), now.releases if now else ()):
        if before and after and before.settings == after.settings:  # a renamed release spends what it did
            if before.name != after.name:
                found.append(ReleaseChange(before, after, 0.0))
            continue
        spends = None
        if allowance.take(1 + len(base.releases)):
            kept = tuple(release for release in base.releases if release is not before)
            alone = replace(base, releases=(*kept, after) if after else kept)
            spends = spent_by(alone, accountant) - start
        found.append(ReleaseChange(before, after, spends))
    return tuple(found)


def _under_limit_of(now: Population | None, was: Population | None) -> Population:
    """The earlier releases under the present limit and adjacency, where there is one."""
    if was is None or now is None:
        base = was or now
        assert base is not None  # the population is on one side at least
        return base if was else replace(base, releases=())
    releases = tuple(
        replace(release, mechanism=replace(release.mechanism, adjacency=now.adjacency))
        for release in was.releases
    )
    return replace(now, releases=releases)


def _paired(
    before: Sequence[Release], after: Sequence[Release]
) -> list[tuple[Release | None, Release | None]]:
    """Releases by name; of the rest, equal settings under another name are a renaming."""
    old, new = {r.name: r for r in before}, {r.name: r for r in after}
    gone = {name: release for name, release in old.items() if name not in new}
    by_settings: dict[tuple[object, ...], list[Release]] = {}
    for release in reversed(gone.values()):
        by_settings.setdefault(_key(release), []).append(release)
    pairs: list[tuple[Release | None, Release | None]] = []
    for name, release in new.items():
        earlier = old.get(name)
        if earlier is None and (same := by_settings.get(_key(release))):
            earlier = same.pop()
            del gone[earlier.name]
        pairs.append((earlier, release))
    return pairs + [(release, None) for release in gone.values()]


def _key(release: Release) -> tuple[object, ...]:
    return tuple(release.settings.values())
