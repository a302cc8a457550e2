"""Every error csgm raises on purpose, with the exit status it ends in.

    CsgmError
    +-- UsageError          2   an option, variable, key or file content is wrong
    +-- NoAnswerError       3   the target is infeasible, or no answer could be certified
    +-- StorageError        4   a file cannot be opened, read or written

A failed claim (exit 1) is a result, not an error. Bugs end in 70, Ctrl-C in 130,
a closed pipe in 141; those are mapped in ``csgm_cli.cli``.
"""

from __future__ import annotations

from typing import ClassVar


class CsgmError(Exception):
    """Base of the tree.

    ``slug`` is a stable machine-readable name, ``message`` says what is wrong and
    names the value and the limit, ``hint`` (may be empty) says what to do instead.
    """

    exit_status: ClassVar[int] = 70

    def __init__(self, slug: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message
        self.hint = hint


class UsageError(CsgmError):
    """The question is malformed: the caller has to change it."""

    exit_status = 2


class NoAnswerError(CsgmError):
    """The question is well formed but has no (certified) answer."""

    exit_status = 3


class StorageError(CsgmError):
    """The operating system refused to open, read or write a file."""

    exit_status = 4
