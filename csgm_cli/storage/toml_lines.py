"""Line numbers of the keys of a TOML text, which tomllib does not report.

The text is known to be valid TOML. Keys inside an inline table or array stand where that begins.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(["\\bfnrt]))')
_SHORT = {'"': '"', "\\": "\\", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: What ends or opens something in a value: strings of four kinds, comments, brackets.
_TOKEN = re.compile(r'"""|\'\'\'|"|\'|#|[\[{]|[\]}]')


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every table header and key, by its dotted path in parts.

    A table without a header of its own has the line of the first header inside it.
    """
    found: dict[Path, int] = {}
    implied: dict[Path, int] = {}
    table: Path = ()
    value = _Value()
    for number, line in enumerate(text.split("\n"), 1):
        if value.is_open:
            value.feed(line)
            continue
        stripped = line.strip()
        if stripped.startswith("["):
            table, _ = _parts(stripped.lstrip("["))
            found.setdefault(table, number)
            for length in range(1, len(table)):
                implied.setdefault(table[:length], number)
        elif stripped and not stripped.startswith("#"):
            path, end = _parts(stripped)
            for length in range(1, len(path) + 1):
                found.setdefault(table + path[:length], number)
            value.feed(stripped[end:])
    return implied | found


def _parts(text: str) -> tuple[Path, int]:
    """The dotted key at the start of ``text``, and where it ends."""
    parts, position = [], 0
    while match := _PART.match(text, position):
        quoted, literal, bare = match.groups()
        parts.append(_ESCAPE.sub(_unescaped, quoted) if quoted is not None else literal or bare or "")
        position = match.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(parts), position


def _unescaped(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    return _SHORT[letter] if letter else chr(int(short or long, 16))


class _Value:
    """Follows a value over its lines: whether it is inside a string or brackets."""

    def __init__(self) -> None:
        self.string = ""  # the quotes that will end the string we are in
        self.depth = 0

    @property
    def is_open(self) -> bool:
        """True where the next line still belongs to the value."""
        return bool(self.string) or self.depth > 0

    def feed(self, line: str) -> None:
        """Go through one line."""
        position = 0
        while position < len(line):
            if self.string:
                position = self._inside_string(line, position)
                continue
            match = _TOKEN.search(line, position)
            if match is None or match.group() == "#":
                break
            position = match.end()
            if match.group() in "[{":
                self.depth += 1
            elif match.group() in "]}":
                self.depth -= 1
            else:
                self.string = match.group()
        if len(self.string) == 1:  # cannot go on: the text was not TOML after all
            self.string = ""

    def _inside_string(self, line: str, position: int) -> int:
        """Where to go on: behind the end of the string, or of the line."""
        while position < len(line):
            if line[position] == "\\" and self.string[0] == '"':
                position += 2
            elif line.startswith(self.string, position):
                position += len(self.string)
                while len(self.string) == 3 and line.startswith(self.string[0], position):
                    position += 1  # up to two quotes may stand before the three that end it
                self.string = ""
                return position
            else:
                position += 1
        return position
