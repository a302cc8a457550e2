"""GitHub workflow commands: an annotation for each population, at the line that matters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError, printable
from csgm_cli.render.document import command_of
from csgm_cli.render.reports.check import advice, verdict

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return an error for each limit that is exceeded, at its largest release, and notices for the others.

    Among the releases the changed ones come first, where changes are known. ``UsageError`` for any
    document but a check.
    """
    if command_of(document) != "check":
        raise UsageError("unknown-choice", "format github is for csgm check")
    result = document["result"]
    changed = _spending_changes(result["changes"])
    lines = [_annotation(p, changed.get(p["population"], set())) for p in result["populations"]]
    tables = [*result["populations"], *(r for p in result["populations"] for r in p["releases"])]
    at = {_prefix(table): table for table in reversed(tables)}
    lines += [_warning(warning, at) for warning in document["warnings"]]
    return "".join(f"{line}\n" for line in lines)


def render_error(document: Document) -> str:
    """Return a ``csgm/error/1`` document as an annotation, of a line of a file if that is wrong."""
    error = document["error"]
    title = f"csgm: {error['slug']}"
    place = {"title": title} if error["file"] is None else _at(error, title)
    message = error["message"].removeprefix(_prefix(error))
    return _command("error", place, *filter(None, (message, error["hint"]))) + "\n"


def _spending_changes(changes: Document | None) -> dict[str, set[str]]:
    """By population, the names of releases whose change spends something, or may."""
    return {
        change["population"]: {
            release["release"]
            for release in change["releases"]
            if release["spends"] is None or release["spends"] > 0
        }
        for change in (changes or {}).get("populations", ())
    }


def _annotation(population: Document, changed: set[str]) -> str:
    title = f"csgm check: {population['population']}"
    if population["holds"]:
        return _command("notice", _at(population, title), verdict(population))
    release = _offender(population, changed)
    return _command("error", _at(release, title), verdict(population), advice(release))


def _warning(warning: Document, tables: dict[str, Document]) -> str:
    """A warning at the population or release whose file and line its message begins with.

    ``tables``: by the beginning of such a message.
    """
    message = warning["message"]
    for end in re.finditer(r":\d+: ", message):
        if (table := tables.get(message[: end.end()])) is not None:
            return _command("warning", _at(table, warning["slug"]), message[end.end() :])
    return _command("warning", {"title": warning["slug"]}, message)


def _prefix(table: Document) -> str:
    """How a message begins in other formats, where nothing else says the place."""
    return f"{table['file']}:{table['line']}: "


def _offender(population: Document, changed: set[str]) -> Document:
    """The release with the largest share, among those in ``changed`` if some are there."""
    counted = [release for release in population["releases"] if release["enabled"]]
    touched = [release for release in counted if release["release"] in changed]
    offender: Document = max(touched or counted, key=lambda release: release["share"])
    return offender


def _at(table: Document, title: str) -> dict[str, str]:
    return {"file": table["file"], "line": str(table["line"]), "title": title}


def _command(kind: str, properties: dict[str, str], *lines: str) -> str:
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{kind} {listed}::{'%0A'.join(map(_escaped, lines))}"


def _escaped(text: str, further: str = "") -> str:
    """Return ``text`` as one line that GitHub's runner reads back; % first, for it is what escapes."""
    text = printable(text)
    for character in f"%{further}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
