"""Canonical JSON: written in one form, and refused where readers could differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from csgm_cli.errors import UsageError, shown
from csgm_cli.storage.json_text import first_repeat

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

#: What the metadata of every file of arrays begins with.
SCHEMA = "csgm/arrays/1"

#: Real metadata are far smaller.
MOST_BYTES = 1 << 20


def canonical(value: JSON) -> str:
    """``value`` as ASCII JSON with sorted keys, no white space and round-trip digits.

    ``UsageError``: slug ``not-finite`` for NaN and infinity, ``broken-file`` when nested too deeply.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise broken("its JSON is nested too deeply") from None
    except ValueError:  # also of a file: 1e999 is JSON
        raise UsageError("not-finite", "its metadata hold NaN or infinity") from None


def parse(text: str | bytes) -> JSON:
    """The value of ``text``; ``UsageError`` for anything but plain JSON.

    Slug ``broken-file``; ``not-finite`` for NaN and Infinity, ``duplicate-array`` for a key given twice.
    """
    try:
        value: JSON = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise broken("its JSON is nested too deeply") from None
    except ValueError as error:  # also UTF-8 that is none, and a whole number of absurd length
        raise broken(f"its JSON is broken: {error}") from None
    return value


def parse_object(text: str | bytes, name: str) -> dict[str, JSON]:
    """The object that ``text`` holds; errors as for `parse`."""
    return as_object(parse(text), name)


def as_object(value: JSON, name: str) -> dict[str, JSON]:
    """``value``, where it is an object; ``UsageError`` (slug ``broken-file``) otherwise."""
    if not isinstance(value, dict):
        raise broken(f"{name} is not a JSON object")
    return value


def sealed(metadata: Mapping[str, JSON], sha256: str) -> dict[str, JSON]:
    """The metadata as a file holds them: with the file's own two keys."""
    assert metadata.keys().isdisjoint({"schema", "sha256"})
    return {**metadata, "schema": SCHEMA, "sha256": sha256}


def opened(held: Mapping[str, JSON]) -> tuple[dict[str, JSON], str | None]:
    """The metadata without the file's own keys, and the hash that they record (None without one)."""
    metadata = dict(held)
    if metadata.pop("schema", None) != SCHEMA:
        raise broken(f"its metadata do not name the schema {SCHEMA!r}")
    sha256 = metadata.pop("sha256", None)
    if not (sha256 is None or isinstance(sha256, str)):
        raise broken("its metadata hold a sha256 that is no string")
    return metadata, sha256


def broken(reason: str) -> UsageError:
    """The error of a file that is not what its suffix says."""
    return UsageError("broken-file", reason)


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    if (twice := first_repeat(name for name, _ in pairs)) is not None:
        raise UsageError("duplicate-array", f"its JSON holds the key {shown(twice)} twice")
    return dict(pairs)


def _refuse_constant(literal: str) -> NoReturn:
    raise UsageError("not-finite", f"its JSON holds {literal}, which is no JSON number")
