"""JUnit XML: a test case for each population, failed where its limit is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from csgm_cli.errors import UsageError, printable
from csgm_cli.render.document import command_of
from csgm_cli.render.reports.check import advice, verdict

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return one suite; there are no times in it. ``UsageError`` for any document but a check."""
    if command_of(document) != "check":
        raise UsageError("unknown-choice", "format junit is for csgm check")
    result = document["result"]
    counts = f'tests="{result["total"]}" failures="{result["total"] - result["held"]}" errors="0"'
    return _suite(counts, "".join(map(_case, result["populations"])))


def render_error(document: Document) -> str:
    """Return a ``csgm/error/1`` document as a suite of one test case, which could not be run."""
    error = document["error"]
    message = f"type={_attribute(error['slug'])} message={_attribute(error['message'])}"
    case = _testcase(error, "budget", f"      <error {message}>{_text(error['hint'])}</error>\n")
    return _suite('tests="1" failures="0" errors="1"', case)


def _suite(counts: str, cases: str) -> str:
    suite = f'  <testsuite name="csgm check" {counts}>\n{cases}  </testsuite>\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n{suite}</testsuites>\n'


def _testcase(at: Document, name: str, inner: str) -> str:
    """A case called ``name`` at the file and line of ``at``, if it has them."""
    path = at["file"]
    place = "" if path is None else f' file={_attribute(path)} line="{at["line"]}"'
    named = f"classname={_attribute(path or 'csgm check')} name={_attribute(name)}"
    return f"    <testcase {named}{place}>\n{inner}    </testcase>\n"


def _case(population: Document) -> str:
    counted = [release for release in population["releases"] if release["enabled"]]
    if population["holds"]:
        inner = f"      <system-out>{_text(verdict(population))}</system-out>\n"
    else:
        lines = [f"{release['file']}:{release['line']}: {advice(release)}" for release in counted]
        message = _attribute(verdict(population))
        listed = "\n".join(map(_text, lines))
        inner = f'      <failure type="limit-exceeded" message={message}>{listed}</failure>\n'
    return _testcase(population, population["population"], inner)


def _attribute(text: str) -> str:
    return quoteattr(printable(text))


def _text(text: str) -> str:
    return escape(printable(text))  # every printable character is one that XML 1.0 may hold
