"""CSV (RFC 4180 with bare newlines): one header, then one line per row of the result."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import printable
from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.render.check_document import RELEASE_KEYS
from csgm_cli.render.document import NESTED_KEYS, command_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from csgm_cli.render.document import Document


#: Inputs that a row starts with, so that it says by itself what it answers.
_IDENTITY = (
    "mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "cohort_size", "rounds", "sampling_rate",
    "factorization", "epochs", "participations", "min_separation", "adjacency", "accountant",
)  # fmt: skip
#: Further ones, by command.
_ASKED = {
    "calibrate": ("target_epsilon",),
    "account": ("noise_multiplier", "effective_noise_multiplier", "sigma"),
    "compare": ("target_epsilon", "at_equal_mse"),
    "plan": ("target_epsilon", "max_mse_overhead", "max_noise_overhead"),
}


def render(document: Document) -> str:
    """Return the result's rows with round-trip digits; a result without rows is one row.

    Rows of calibrate, account, compare and plan start with the inputs that tell them from others, as
    those of a sweep do, and end with ``csgm_version`` and ``numbers_version``; ``target_epsilon`` is what
    was asked for.

    Text is escaped: control characters as in Python, and what a spreadsheet would run as a formula by an
    apostrophe in front. Numbers are as they are. Nested keys become ``mse.total``, lists are joined by
    semicolons, null is an empty field. The columns depend on the command alone, not on which optional values
    are there.
    """
    result = document["result"]
    found = _of_budget(result) if "populations" in result else _listed(result)
    rows = [_identified(row, document) for row in found or [result]]
    return header(rows[0]) + "".join(map(line, rows))


def _identified(row: Document, document: Document) -> Document:
    """The row with what it answers in front, where it does not say that itself."""
    further = _ASKED.get(command_of(document))
    if further is None:
        return row
    asked = {**document["inputs"], "target_epsilon": document["inputs"].get("epsilon")}
    identity = {key: row.get(key, asked.get(key)) for key in (*_IDENTITY, *further)}
    if row.get("privunit"):
        identity |= {"norm_ratio": None, "accountant": None}  # those of the rows beside it
    if not has_gamma(identity["mechanism"]):
        identity["norm_ratio"] = None
    versions = {key: document[key] for key in ("csgm_version", "numbers_version")}
    return {**identity, **row, **versions}


def header(row: Document) -> str:
    """Return the line above ``row`` and the rows like it."""
    return _written(name for name, _ in _flat(row))


def line(row: Document) -> str:
    """Return one row as a line."""
    return _written(value for _, value in _flat(row))


def start(row: Document) -> str:
    """Return how the line of a row starts whose first keys are those of ``row``."""
    return line(row)[:-1] + ","


def end(row: Document) -> str:
    """Return how the line of a row ends whose last keys are those of ``row``."""
    return "," + line(row)


def _written(fields: Iterable[str]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _listed(result: Document) -> list[Document]:
    """What the result is a list of; empty where it is none."""
    return next((result[key] for key in ("rows", "cases", "claims") if result.get(key)), [])


_POPULATION_CHANGE = ("recorded", "recomputed", "by_tool", "by_budget")
_RELEASE_CHANGE = ("change", "was", "spends")


def _of_budget(result: Document) -> list[Document]:
    """One row for each release, with what holds for its population.

    Where both have a key, the release's becomes ``release.file``. A population without releases is a
    row, and so is a release that was removed.
    """
    changes = {change["population"]: change for change in (result["changes"] or {}).get("populations", ())}
    rows = []
    for population in result["populations"]:
        change = changes.get(population["population"], {})
        shared = {key: value for key, value in population.items() if key != "releases"}
        shared |= {key: change.get(key) for key in _POPULATION_CHANGE}
        moved = {release["release"]: release for release in change.get("releases", ())}
        present = {release["release"]: release for release in population["releases"]}
        for name in dict.fromkeys((*present, *moved)) or [None]:
            release = present.get(name) or dict.fromkeys(RELEASE_KEYS) | {"release": name}
            inner = {f"release.{key}" if key in shared else key: value for key, value in release.items()}
            rows.append(shared | inner | {key: moved.get(name, {}).get(key) for key in _RELEASE_CHANGE})
    return rows


def _flat(row: Document) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        if key in NESTED_KEYS:
            for inner in NESTED_KEYS[key]:
                yield f"{key}.{inner}", _field((value or {}).get(inner))
        else:
            yield key, _field(value)


def _field(value: Any) -> str:  # noqa: ANN401 - JSON-shaped
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(map(_field, value))
    return _words(value) if isinstance(value, str) else str(value)


#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _words(text: str) -> str:
    """The text escaped for a terminal, and for a spreadsheet by an apostrophe where it would be a formula."""
    return f"'{printable(text)}" if text.startswith(_FORMULA) else printable(text)
