"""Budget files: TOML in, declarations with their line numbers out.

A budget is the union of its files and of all that they include. ``[defaults]`` hold for the file they
stand in and for the files that it includes, which may have nearer ones. What a declaration means is
not decided here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from csgm_cli.errors import Locating, Place, StorageError, UsageError, shown
from csgm_cli.hints import did_you_mean, instead_of_sampling
from csgm_cli.ranges import current_name
from csgm_cli.storage.config import parse_toml
from csgm_cli.storage.files import read_text
from csgm_cli.storage.toml_lines import key_lines

SCHEMA = "csgm/budget/1"
#: Keys of a population beside its releases.
LIMIT_KEYS = ("epsilon", "delta", "adjacency")
#: Keys of a release, as the options of the same names, and three for people.
RELEASE_KEYS = (
    "mechanism", "noise_multiplier", "sigma", "gamma", "compression", "norm_ratio", "linf_norm", "l2_norm",
    "dim", "cohort_size", "rounds", "sampling_rate", "client_sampling", "population_size", "training_rounds",
    "adjacency", "factorization", "epochs", "participations", "min_separation", "enabled", "owner", "reason",
)  # fmt: skip
DEFAULT_KEYS = tuple(dict.fromkeys((*LIMIT_KEYS, *RELEASE_KEYS)))
_TOP_KEYS = ("schema", "include", "defaults", "population")
_DEEPEST = 10
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Entry:
    """A value and where it is written; ``is_default`` where that is in ``[defaults]``."""

    value: Any
    place: Place
    is_default: bool


@dataclass(frozen=True)
class Declaration:
    """A table of a budget file: a population's limit, or a release of ``population``.

    ``entries`` by key, with underscores; a release's own before the defaults.
    """

    name: str
    population: str
    place: Place
    entries: Mapping[str, Entry]


@dataclass(frozen=True)
class Declarations:
    """All that a budget declares, in the order of its ``files``; a population may stand in several.

    ``defaults``: every default of every file by its key, used or not.
    """

    files: tuple[str, ...]
    defaults: tuple[tuple[str, Entry], ...]
    populations: tuple[Declaration, ...]
    releases: tuple[Declaration, ...]


def read_budget(paths: Sequence[str]) -> Declarations:
    """Return what the budget files ``paths``, and the files that they include, declare.

    ``StorageError``: a file cannot be read. ``UsageError`` names file and line of anything wrong in it.
    """
    populations: list[Declaration] = []
    releases: list[Declaration] = []
    files: list[str] = []
    defaults: list[tuple[str, Entry]] = []
    for file in _files(paths):
        files.append(file.path)
        defaults += file.own_defaults().items()
        for name, table in file.table(("population",)).items():
            _check_name(file, ("population", name))
            populations.append(_population(file, name, table))
            releases += _releases(file, name)
    return Declarations(tuple(files), tuple(defaults), tuple(populations), tuple(releases))


@dataclass(frozen=True)
class _File:
    """One parsed file; ``defaults`` are those of the files that lead here, nearest last to win."""

    path: str
    document: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]
    defaults: Mapping[str, Entry]

    def place(self, path: tuple[str, ...]) -> Place:
        """Where a key stands, or the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return Place(self.path, self.lines.get(path, 1))

    def table(self, path: tuple[str, ...]) -> dict[str, Any]:
        """The table at ``path``, empty where there is none."""
        table: Any = self.document
        for part in path:
            table = table.get(part, {})
            if not isinstance(table, dict):
                message = f"{'.'.join(path)} must be a table, got {shown(table)}"
                raise _error_at("wrong-type", self.place(path), message)
        found: dict[str, Any] = table
        return found

    def entries(self, path: tuple[str, ...], allowed: Sequence[str], *, is_default: bool) -> dict[str, Entry]:
        """The values of a table by key; ``UsageError`` for a key that is not ``allowed`` or there twice."""
        found: dict[str, Entry] = {}
        for key, value in self.table(path).items():
            name, place = current_name(key), self.place((*path, key))
            if name not in allowed:
                raise _unknown_key(key, place, path, allowed)
            if name in found:
                raise _error_at("duplicate-key", place, f"{key} is also given at {found[name].place}")
            found[name] = Entry(value, place, is_default)
        return found

    def own_defaults(self) -> dict[str, Entry]:
        """What its own table of defaults holds."""
        return self.entries(("defaults",), DEFAULT_KEYS, is_default=True)


def _error_at(slug: str, place: Place, message: str, hint: str = "") -> UsageError:
    return UsageError(slug, f"{place}: {message}", hint, place)


def _unknown_key(key: str, place: Place, path: Sequence[str], allowed: Sequence[str]) -> UsageError:
    spelled = [name.replace("_", "-") for name in allowed]
    where = f" [{'.'.join(path)}]" if path else ""
    message = f"unknown key {key}{where}"
    if instead := instead_of_sampling(key):
        return _error_at("unknown-key", place, message, instead.replace("_", "-").replace("`", ""))
    message += did_you_mean(key.replace("_", "-"), spelled)
    return _error_at("unknown-key", place, message, f"one of {', '.join(sorted(spelled))}")


def _population(file: _File, name: str, table: Mapping[str, Any]) -> Declaration:
    path = ("population", name)
    own = file.entries(path, (*LIMIT_KEYS, "release"), is_default=False) if table else {}
    own.pop("release", None)
    inherited = {key: entry for key, entry in file.defaults.items() if key in LIMIT_KEYS}
    return Declaration(name, name, file.place(path), inherited | own)


def _releases(file: _File, population: str) -> Iterator[Declaration]:
    inherited = {key: entry for key, entry in file.defaults.items() if key in RELEASE_KEYS}
    path = ("population", population, "release")
    for name in file.table(path):
        _check_name(file, (*path, name))
        own = file.entries((*path, name), RELEASE_KEYS, is_default=False)
        yield Declaration(name, population, file.place((*path, name)), inherited | own)


def _check_name(file: _File, path: tuple[str, ...]) -> None:
    name = path[-1]
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        kind = path[-2]
        message = f"the name of a {kind} must be printable text, got {shown(name)}"
        raise _error_at("bad-name", file.place(path), message)


# ---------------------------------------------------------------- files and includes


def _files(paths: Sequence[str]) -> Iterator[_File]:
    seen: dict[Path, str] = {}
    for path in paths:
        with Locating(Place(path, 1)):
            yield from _with_included(path, {}, (), seen)


def _with_included(
    path: str, inherited: Mapping[str, Entry], trail: tuple[Path, ...], seen: dict[Path, str]
) -> Iterator[_File]:
    """The file and all it includes, each once; ``trail`` leads to it."""
    identity = _identity(path)
    if identity in seen:
        if identity in trail:
            raise UsageError("include-cycle", f"{path} includes itself")
        raise UsageError("read-twice", f"{path} is read twice")
    if len(trail) >= _DEEPEST:
        raise UsageError("include-depth", f"{path} is included more than {_DEEPEST} levels deep")
    seen[identity] = path
    file = _parsed(path, inherited)
    yield file
    for name, place in _included(file):
        inner = os.path.normpath(Path(path).parent / name)
        try:
            with Locating(place):
                yield from _with_included(inner, file.defaults, (*trail, identity), seen)
        except StorageError as error:
            if " included at " in error.message:
                raise
            raise error.reworded(f"{error.message} (included at {place})", error.hint) from None


def _identity(path: str) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # opening it will say what is wrong
        return Path(path)


def _included(file: _File) -> Iterator[tuple[str, Place]]:
    names = file.document.get("include", [])
    place = file.place(("include",))
    for name in names if isinstance(names, list) else [names]:
        if not isinstance(name, str) or not name:
            message = f"include must be a path or a list of paths, got {shown(names)}"
            raise _error_at("wrong-type", place, message)
        yield name, place


def _parsed(path: str, inherited: Mapping[str, Entry]) -> _File:
    text = read_text(path)
    document = parse_toml(path, text)
    file = _File(path, document, key_lines(text.replace("\r\n", "\n")), inherited)
    for key in document:
        if key not in _TOP_KEYS:
            raise _unknown_key(key, file.place((key,)), (), _TOP_KEYS)
    if document.get("schema", SCHEMA) != SCHEMA:
        message = f"schema must be {SCHEMA!r}, got {shown(document['schema'])}"
        raise _error_at("wrong-schema", file.place(("schema",)), message)
    return _File(path, document, file.lines, {**inherited, **file.own_defaults()})
