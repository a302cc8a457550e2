"""csgm's exceptions and their exit codes.

    CsgmError
    +-- UsageError          2   an option, variable, key or file content is wrong
    +-- NoAnswerError       3   the target is infeasible, or no answer could be certified
        +-- VerificationError   an answer was found, and the oracle contradicts it
    +-- StorageError        4   a file cannot be opened, read or written

A failed claim (exit 1) is a result, not an error. Bugs end in 70, Ctrl-C in 130,
a closed pipe in 141; those are mapped in ``csgm_cli.cli``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import ClassVar, Self


class Place(NamedTuple):
    """A line of a file: the file as it was named, and the line, from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


#: The place of what no file declares.
NOWHERE = Place("", 0)


def shown(value: object, limit: int = 60) -> str:
    """Return ``value`` as a message quotes it: as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out a whole number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= limit else f"{text[:limit]}..."


def one_line(text: str, limit: int = 1000) -> str:
    """Return ``text`` fit for a terminal: without line ends or control characters, the middle cut if long.

    Messages quote names of files and what callers typed. Their ends say what is wrong with it.
    """
    if len(text) > limit:
        text = f"{text[: limit // 2]}...{text[-(limit // 4) :]}"
    return printable(text)


def printable(text: str) -> str:
    """Return ``text`` with everything escaped that would break a line or control a terminal or a CI runner.

    A runner of GitHub takes a line that begins with ``::``, and any that holds ``##[``, for a command.
    """
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    text = text.replace("##[", r"#\x23[")
    rest = text.lstrip()
    return text.removesuffix(rest) + r"\x3a" + rest[1:] if rest.startswith("::") else text


class CsgmError(Exception):
    """Base of the tree.

    ``slug`` is a stable machine-readable name, ``message`` says what is wrong and
    names the value and the limit, ``hint`` (may be empty) says what to do instead.
    Both are one line that is safe to print, whatever they quote. ``place``: the line of
    the input file that is wrong, None where no file is at fault.
    """

    exit_status: ClassVar[int] = 70

    def __init__(self, slug: str, message: str, hint: str = "", place: Place | None = None) -> None:
        self.slug = slug
        self.message = one_line(message)
        self.hint = one_line(hint)
        self.place = place
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str, Place | None]]:
        """Survive pickling with all fields."""
        return type(self), (self.slug, self.message, self.hint, self.place)

    def reworded(self, message: str, hint: str) -> Self:
        """Return the same error in other words."""
        return type(self)(self.slug, message, hint, self.place)


class UsageError(CsgmError):
    """The question is malformed: the caller has to change it."""

    exit_status = 2


class NoAnswerError(CsgmError):
    """The question is well formed but has no (certified) answer."""

    exit_status = 3


class VerificationError(NoAnswerError):
    """The recomputation contradicts an answer: other answers may be wrong too."""


class StorageError(CsgmError):
    """The operating system refused to open, read or write a file."""

    exit_status = 4


class Locating:
    """A ``with`` block that gives each error raised inside ``place``, unless it has a place already."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def __enter__(self) -> None:
        """Nothing is set up."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Add the place; the error goes on."""
        if isinstance(error, CsgmError):
            error.place = error.place or self.place
