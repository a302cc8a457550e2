"""Lock files: the releases of a budget and the epsilon they spent, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from csgm_cli.errors import Locating, Place, UsageError, shown
from csgm_cli.model.budget import STREAM_KEYS, Population, Release, Standing
from csgm_cli.model.mechanism import (
    Accountant,
    Adjacency,
    FactorNorms,
    Mechanism,
    Target,
)
from csgm_cli.model.mechanism_table import Geometry, MechanismName
from csgm_cli.model.participation import REPEATED_KEYS, repeated_from
from csgm_cli.storage.files import read_text
from csgm_cli.storage.json_text import parse_json
from csgm_cli.version import NUMBERS_VERSION, __version__, is_version

SCHEMA = "csgm/lock/1"
_MECHANISM_KEYS = (
    "mechanism", "sigma", "gamma", "norm_ratio", "l2_norm", "dim", "rounds", "sampling_rate", "enabled"
)  # fmt: skip
#: Of those with a factorization, in place of rounds.
_FACTORIZED_KEYS = (
    tuple(key for key in _MECHANISM_KEYS if key not in ("rounds", "sampling_rate")) + STREAM_KEYS
)


@dataclass(frozen=True)
class Lock:
    """The populations as they were, and what each was said to spend by csgm ``csgm_version``.

    ``numbers_version``: of that program, None in a lock that does not record it.
    """

    csgm_version: str
    numbers_version: int | None
    accountant: Accountant
    populations: tuple[Population, ...]
    spent: Mapping[str, float]


def lock_text(standings: Sequence[Standing], accountant: Accountant) -> str:
    """Return the content of a lock file."""
    document = {
        "schema": SCHEMA,
        "csgm_version": __version__,
        "numbers_version": NUMBERS_VERSION,
        "accountant": str(accountant),
        "populations": {s.population.name: _population(s) for s in standings},
    }
    return json.dumps(document, allow_nan=False, indent=2) + "\n"


def _population(standing: Standing) -> dict[str, Any]:
    population = standing.population
    return {
        "epsilon": population.limit.epsilon,
        "delta": population.limit.delta,
        "adjacency": str(population.adjacency),
        "spent": standing.spent,
        "releases": {release.name: _release(release) for release in population.releases},
    }


def _release(release: Release) -> dict[str, Any]:
    values = {**release.settings, "norm_ratio": release.mechanism.geometry.norm_ratio}
    mechanism = release.mechanism
    keys = _MECHANISM_KEYS if mechanism.factorization is None else _FACTORIZED_KEYS
    return {key: values[key] for key in (*keys, *(REPEATED_KEYS if mechanism.repeated else ()))}


def read_lock(path: str) -> Lock:
    """Read a lock file: ``StorageError`` where it cannot be read, ``UsageError`` where it is none."""
    place = Place(path, 1)
    with Locating(place):
        text = read_text(path)
    try:
        document: Any = parse_json(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema is {document['schema']!r}, expected {SCHEMA!r}")
        populations = {name: _read_population(path, name, p) for name, p in document["populations"].items()}
        return Lock(
            _csgm_version(document),
            _numbers_version(document),
            Accountant(document["accountant"]),
            tuple(population for population, _ in populations.values()),
            {name: spent for name, (_, spent) in populations.items()},
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        UsageError,
    ) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        message = f"{path!r} is not a lock of csgm: {reason}"
        hint = "write one with: csgm check --write-lock FILE"
        raise UsageError("bad-lock-file", message, hint, place) from None


def _csgm_version(document: Mapping[str, Any]) -> str:
    version = document["csgm_version"]
    if not isinstance(version, str) or not is_version(version):
        raise ValueError(f"csgm_version is {shown(version)}, which is no version")
    return version


def _numbers_version(document: Mapping[str, Any]) -> int | None:
    version = document.get("numbers_version")
    if version is not None and (type(version) is not int or version < 1):
        raise ValueError(f"numbers_version is {version!r:.60}")
    return version


def _read_population(path: str, name: str, values: Mapping[str, Any]) -> tuple[Population, float]:
    if not all(known.isprintable() for known in (name, *values["releases"])):
        raise ValueError("a name in it is not printable text")
    adjacency = Adjacency(values["adjacency"])
    releases = tuple(_read_release(path, n, r, adjacency) for n, r in values["releases"].items())
    limit = Target(_number(values, "epsilon"), _number(values, "delta"))
    spent = _number(values, "spent")
    if not 0.0 <= spent < 1e300:
        raise ValueError(f"spent is {spent!r}")
    return Population(name, limit, adjacency, releases, Place(path, 1)), spent


def _read_release(path: str, name: str, values: Mapping[str, Any], adjacency: Adjacency) -> Release:
    factors = _read_factors(values) if "epochs" in values else None
    dim, count = values["dim"], values["rounds" if factors is None else "epochs"]
    if not isinstance(count, int) or not (dim is None or isinstance(dim, int)):
        raise ValueError(f"rounds, epochs and dim of {name} must be whole numbers")
    if not isinstance(values["enabled"], bool):
        raise ValueError(f"enabled of {name} must be true or false")
    geometry = Geometry(_number(values, "norm_ratio"), _number(values, "l2_norm"), dim)
    words = (MechanismName(values["mechanism"]), _number(values, "gamma"), geometry)
    if factors is None:
        rate = _number(values, "sampling_rate") if "sampling_rate" in values else 1.0
        mechanism = Mechanism(*words, count, adjacency, sampling_rate=rate)
    else:
        mechanism = Mechanism(*words, None, adjacency, factors, count)
    return Release(name, mechanism, _number(values, "sigma"), values["enabled"], place=Place(path, 1))


def _read_factors(values: Mapping[str, Any]) -> FactorNorms:
    workload, strategy = values["workload"], values["strategy"]
    for word in (workload, strategy or ""):
        if not isinstance(word, str) or not word.isprintable():
            raise ValueError("a workload or a strategy in it is not printable text")
    repeated = repeated_from(values)
    return FactorNorms(values["T"], workload, strategy, _number(values, "sensitivity"), repeated=repeated)


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{key} must be a number, got {value!r:.60}")
    return float(value)
