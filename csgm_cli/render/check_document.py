"""The check of a budget as a JSON-shaped dictionary, ``csgm/check/1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from csgm_cli.model.participation import REPEATED_KEYS
from csgm_cli.model.result import Notice
from csgm_cli.render.document import Document, document_of, guarantee_values
from csgm_cli.version import program_of, why_moved

if TYPE_CHECKING:
    from csgm_cli.model.budget import (
        Changes,
        Population,
        PopulationChange,
        Release,
        ReleaseChange,
        ReleaseStanding,
        Standing,
    )
    from csgm_cli.model.result import Guarantee

#: Keys that say how much is spent and why; null for a population that releases nothing.
_GUARANTEE_KEYS = ("order", "bound", "proof", "conversion", "assumptions", "lower_bound", "verified")

#: Keys of a release, in order.
RELEASE_KEYS = (
    "release", "file", "line", "owner", "reason", "mechanism", "noise_multiplier", "sigma", "gamma",
    "norm_ratio", "l2_norm", "dim", "rounds", "sampling_rate", "epochs", "T", "workload", "strategy",
    "sensitivity", *REPEATED_KEYS, "enabled", "share", "more_rounds", "needed_noise_multiplier",
)  # fmt: skip


def check_document(
    inputs: Mapping[str, Any],
    standings: Sequence[Standing],
    changes: Changes | None,
    notices: Sequence[Notice],
) -> Document:
    """Return the ``csgm/check/1`` document."""
    result = {
        "held": sum(standing.holds for standing in standings),
        "total": len(standings),
        "populations": [_standing(standing) for standing in standings],
        "changes": changes and _changes(changes),
    }
    said = (s.guarantee.notices for s in standings if s.guarantee is not None)
    about_changes = (*_moved_by_tool(changes), *_uncounted(changes)) if changes else ()
    found = chain(notices, *said, about_changes)
    return document_of("check", inputs, None, result, found)


def _moved_by_tool(changes: Changes) -> Iterator[Notice]:
    for change in changes.populations:
        if change.by_tool and change.before is not None:
            program = program_of(str(changes.csgm_version), changes.numbers_version)
            yield Notice(
                "moved-by-tool",
                f"{change.before.name}: the releases in {changes.since} spent epsilon {change.recorded!r} by"
                f" {program}, and now spend {change.recomputed!r}: {why_moved(changes.numbers_version)}",
            )


def _uncounted(changes: Changes) -> Iterator[Notice]:
    """A notice if what a change spends was not computed for every change."""
    releases = [release for change in changes.populations for release in change.releases]
    left = sum(release.spends is None for release in releases)
    if left:
        message = f"what each spends alone was not computed for {left} of {len(releases)} changed releases"
        yield Notice("changes-not-counted", message)


def _standing(standing: Standing) -> Document:
    population = standing.population
    return {
        "population": population.name,
        "file": population.place.path,
        "line": population.place.line,
        "limit": population.limit.epsilon,
        "delta": population.limit.delta,
        "adjacency": str(population.adjacency),
        "spent": standing.spent,
        "remaining": standing.remaining,
        "holds": standing.holds,
        **_guarantee(standing.guarantee),
        "releases": [_release(release) for release in standing.releases],
    }


def _guarantee(guarantee: Guarantee | None) -> Document:
    if guarantee is None:
        return dict.fromkeys(_GUARANTEE_KEYS)
    values = guarantee_values(guarantee)
    return {key: values[key] for key in _GUARANTEE_KEYS}


def _release(standing: ReleaseStanding) -> Document:
    release = standing.release
    values = {
        "release": release.name,
        "file": release.place.path,
        "line": release.place.line,
        "owner": release.owner,
        "reason": release.reason,
        **release.settings,
        "share": standing.share,
        "more_rounds": standing.more_rounds,
        "needed_noise_multiplier": standing.needed_noise_multiplier,
    }
    return {key: values[key] for key in RELEASE_KEYS}


def _changes(changes: Changes) -> Document:
    return {
        "since": changes.since,
        "csgm_version": changes.csgm_version,
        "numbers_version": changes.numbers_version,
        "populations": [_population_change(change) for change in changes.populations],
    }


def _population_change(change: PopulationChange) -> Document:
    after = None if change.after is None else change.after.population
    known = after or change.before
    assert known is not None  # a change has a side
    return {
        "population": known.name,
        "limit_before": _limit(change.before),
        "limit_after": _limit(after),
        "recorded": change.recorded,
        "recomputed": change.recomputed,
        "spent": change.after and change.after.spent,
        "by_tool": change.by_tool,
        "by_budget": change.by_budget,
        "releases": [_release_change(release) for release in change.releases],
    }


def _limit(population: Population | None) -> Document | None:
    if population is None:
        return None
    limit = population.limit
    return {"epsilon": limit.epsilon, "delta": limit.delta, "adjacency": str(population.adjacency)}


def _release_change(change: ReleaseChange) -> Document:
    name = _name(change.after) or _name(change.before)
    settings = [
        {"setting": key, "before": before, "after": after} for key, (before, after) in change.settings.items()
    ]
    was = _name(change.before) if change.status == "renamed" else None
    return {
        "release": name,
        "change": change.status,
        "was": was,
        "spends": change.spends,
        "settings": settings,
    }


def _name(release: Release | None) -> str | None:
    return None if release is None else release.name
