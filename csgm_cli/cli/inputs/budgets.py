"""Turn the declarations of budget files into populations, by the rules of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from csgm_cli.cli.inputs.mechanisms import build_mechanism, build_noise, delta_notices, one_round
from csgm_cli.cli.options.definitions import CONFIGURABLE, option
from csgm_cli.cli.options.parameter_types import Choice, Number, swapped_as_written, unquoted
from csgm_cli.cli.options.request import EXCLUSIVES, Request, settled
from csgm_cli.cli.options.sources import Rank, Source
from csgm_cli.errors import Locating, Place, StorageError, UsageError, shown
from csgm_cli.hints import did_you_mean, spelled
from csgm_cli.model.budget import Population, Release
from csgm_cli.model.mechanism import Adjacency, Target
from csgm_cli.model.mechanism_table import MechanismName
from csgm_cli.model.result import Notice
from csgm_cli.storage.budget_file import LIMIT_KEYS, Declaration, Declarations, Entry, read_budget
from csgm_cli.storage.config import TooSmall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click import ParamType

_WORDS_FOR_PEOPLE = ("owner", "reason")
#: Pairs of names compared to find a misspelled population, each of which takes about 4 us.
_MOST_COMPARED = 200_000


class Budget(NamedTuple):
    """Populations by name, notices about them, and the files they were read from."""

    populations: tuple[Population, ...]
    notices: tuple[Notice, ...]
    files: tuple[str, ...]


def load_budget(paths: Sequence[str]) -> Budget:
    """Return what the budget files declare.

    ``StorageError``: a file cannot be read. ``UsageError`` names file and line of anything wrong in it.
    """
    declared = read_budget(paths)
    for key, entry in declared.defaults:
        _check_value(key, entry)  # whether or not anything is left to it
    tables: dict[str, list[Declaration]] = {}
    for table in declared.populations:
        tables.setdefault(table.name, []).append(table)
    if not tables:
        raise UsageError(
            "no-population",
            f"{', '.join(paths)}: no population is declared",
            "[population.NAME] with epsilon",
            Place(paths[0], 1),
        )
    stated = [name for name, found in tables.items() if any(map(_states_limit, found))]
    limits = {name: _limit(found, stated) for name, found in tables.items()}
    releases: dict[str, list[Release]] = {name: [] for name in tables}
    notices = list(_undeclared(declared, stated))
    for declaration in declared.releases:
        release, said = _release(declaration, *limits[declaration.population])
        releases[declaration.population].append(release)
        notices += said
    populations = (
        Population(name, *limits[name][:2], tuple(releases[name]), limits[name][2]) for name in tables
    )
    return Budget(tuple(populations), tuple(notices), (*declared.files, *_factors(declared)))


def _factors(declared: Declarations) -> Iterator[str]:
    """The files of factorizations."""
    for entry in (release.entries.get("factorization") for release in declared.releases):
        if entry is not None and isinstance(entry.value, str):
            yield _read("factorization", entry)


def _states_limit(table: Declaration) -> bool:
    return any(not entry.is_default for entry in table.entries.values())


def _undeclared(declared: Declarations, stated: Sequence[str]) -> Iterator[Notice]:
    """Warn of a population that has releases but no table, and a name close to one that states a limit."""
    headed_by_release = {(release.population, release.place) for release in declared.releases}
    own_table = {
        table.name for table in declared.populations if (table.name, table.place) not in headed_by_release
    }
    places = {table.name: table.place for table in reversed(declared.populations)}
    undeclared = [(name, place) for name, place in places.items() if name not in own_table]
    most = max(1, _MOST_COMPARED // max(1, len(stated)))
    for name, place in undeclared[:most]:
        if meant := did_you_mean(name, stated):
            message = f"{place}: there is no [population.{name}], so its limit is that of [defaults]{meant}"
            yield Notice("undeclared-population", message)
    if stated and len(undeclared) > most:
        message = (
            f"{len(undeclared)} populations have no table of their own, too many to look for misspelled names"
            f" in all; the limit of each is that of [defaults]"
        )
        yield Notice("many-undeclared-populations", message)


def _limit(tables: Sequence[Declaration], stated: Sequence[str]) -> tuple[Target, Adjacency, Place]:
    """The limit of one population, from the table that states it, else from defaults.

    ``stated``: the names of the populations that state a limit.
    """
    stating = [table for table in tables if _states_limit(table)]
    found = {_read_limit(table, stated): table.place for table in reversed(stating or tables)}
    if len(found) > 1:
        places = " and ".join(str(place) for place in reversed(found.values()))
        message = f"population {tables[0].name} has different limits at {places}"
        raise UsageError("different-limits", message, "state the limit once", next(iter(found.values())))
    ((target, adjacency), place) = next(iter(found.items()))
    return target, adjacency, place


def _read_limit(table: Declaration, stated: Sequence[str]) -> tuple[Target, Adjacency]:
    missing = [key for key in ("epsilon", "delta") if key not in table.entries]
    if missing:
        meant = did_you_mean(table.name, [name for name in stated if name != table.name])
        message = f"{table.place}: population {table.name} has no {' and no '.join(missing)}{meant}"
        raise UsageError("missing-limit", message, "its limit is an epsilon and a delta", table.place)
    try:
        values = {key: _read(key, table.entries[key]) for key in LIMIT_KEYS if key in table.entries}
    except UsageError as error:
        hint = swapped_as_written(table.entries["epsilon"].value, table.entries["delta"].value)
        raise error.reworded(error.message, hint or error.hint) from None
    return Target(values["epsilon"], values["delta"]), Adjacency(
        values.get("adjacency", Adjacency.ADD_REMOVE)
    )


def _release(
    table: Declaration, limit: Target, adjacency: Adjacency, limit_place: Place
) -> tuple[Release, list[Notice]]:
    people = {key: _text(key, table.entries[key]) for key in _WORDS_FOR_PEOPLE if key in table.entries}
    try:
        request = _request(table.entries, adjacency)
        mechanism, notices = build_mechanism(request)
        sigma = _sigma(request, mechanism.geometry.l2_norm)
        enabled = _enabled(table.entries.get("enabled"))
        release = Release(table.name, mechanism, sigma, enabled, **people, place=table.place)
    except UsageError as error:
        raise _placed(error, table) from None
    except StorageError as error:  # of a factorization
        place = table.entries["factorization"].place
        message = f"{place}: release {table.name}: {error.message}"
        raise StorageError(error.slug, message, error.hint, place) from None
    called = f"{table.place}: release {table.name}"
    said = [(called, notice) for notice in (*notices, *(one_round(request, "") if enabled else ()))]
    # The delta is the population's: releases that know of the same number of clients say it once.
    called = f"{limit_place}: population {table.population}"
    said += [(called, notice) for notice in delta_notices(request, [limit.delta])]
    return release, [Notice(notice.slug, f"{where}: {notice.message}") for where, notice in said]


def _request(entries: Mapping[str, Entry], adjacency: Adjacency) -> Request:
    """The release as if it had been asked about on the command line; its own keys beat defaults."""
    values: dict[str, Any] = {"mechanism": MechanismName.L2_CSGM.value, "l2_norm": 1.0, "rounds": 1}
    values["adjacency"] = adjacency.value
    sources = {name: Source(Rank.DEFAULT, "default") for name in values}
    for key, entry in entries.items():
        if key in (*_WORDS_FOR_PEOPLE, "enabled"):
            continue
        values[key] = _read(key, entry)
        rank = Rank.CONFIG if entry.is_default else Rank.COMMAND_CONFIG
        sources[key] = Source(rank, _label(key, entry.place))
    return settled(Request(values, sources), EXCLUSIVES)


def _sigma(request: Request, l2_norm: float) -> float:
    noise = build_noise(request, l2_norm)
    if noise is None:
        raise UsageError("missing-option", "it needs noise-multiplier or sigma")
    return noise[1]


def _label(key: str, place: Place) -> str:
    return f"{key.replace('_', '-')} at {place}"


def _read(key: str, entry: Entry) -> Any:  # noqa: ANN401 - a number or a word
    with Locating(entry.place):
        return _value(key, entry)


@cache
def _kind(key: str) -> ParamType[Any]:
    """Return the type of the option that ``key`` stands for."""
    return option(key).type


def _value(key: str, entry: Entry) -> Any:  # noqa: ANN401 - a number or a word
    kind, label = _kind(key), _label(key, entry.place)
    if isinstance(kind, Number):
        if isinstance(entry.value, bool) or not isinstance(entry.value, int | float | TooSmall):
            message = f"{label} must be a number, got {shown(entry.value)}"
            raise UsageError("wrong-type", message, unquoted(entry.value))
        return kind.read(entry.value, label)
    if not isinstance(entry.value, str):
        raise UsageError("wrong-type", f"{label} must be a string, got {shown(entry.value)}")
    if key == "factorization":
        from csgm_cli.cli.inputs.factorizations import beside

        return beside(entry.value, entry.place.path)
    assert isinstance(kind, Choice)  # mechanism, adjacency, client_sampling
    return kind.read(entry.value, label)


def _check_value(key: str, entry: Entry) -> None:
    if key in _WORDS_FOR_PEOPLE:
        _text(key, entry)
    elif key == "enabled":
        _enabled(entry)
    else:
        _read(key, entry)


def _enabled(entry: Entry | None) -> bool:
    if entry is None or isinstance(entry.value, bool):
        return entry is None or bool(entry.value)
    message = f"{_label('enabled', entry.place)} must be true or false, got {shown(entry.value)}"
    raise UsageError("wrong-type", message, place=entry.place)


def _text(key: str, entry: Entry) -> str:
    if isinstance(entry.value, str):
        return entry.value
    message = f"{_label(key, entry.place)} must be a string, got {shown(entry.value)}"
    raise UsageError("wrong-type", message, place=entry.place)


def _placed(error: UsageError, table: Declaration) -> UsageError:
    """The error with file and line, and inputs spelled as keys instead of flags."""
    hint = spelled(error.hint, {name: name.replace("_", "-") for name in CONFIGURABLE})
    message, hint = (re.sub(r"--(?=[a-z])", "", text) for text in (error.message, hint))
    named = next((p for p in _places(table) if re.search(rf"{re.escape(str(p))}(?!\d)", message)), None)
    if named is None:
        message = f"{table.place}: release {table.name} of {table.population}: {message}"
    return UsageError(error.slug, message, hint, error.place or named or table.place)


def _places(table: Declaration) -> Iterator[Place]:
    yield from (entry.place for entry in table.entries.values())
