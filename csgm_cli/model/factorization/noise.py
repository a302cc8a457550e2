"""What a stream of correlated noise is made for, and how it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from csgm_cli.ranges import member_named


class NoiseOn(StrEnum):
    """What correlated noise is added to: the rows of X as they come, or the rows of A X that are released."""

    INCREMENTS = "increments"
    SUMS = "sums"


NoiseOnLike: TypeAlias = NoiseOn | Literal["increments", "sums"]


def noise_on_named(value: NoiseOnLike) -> NoiseOn:
    """The member of that name; ``UsageError`` (slug ``unknown-choice``) for any other word."""
    return NoiseOn(member_named(NoiseOn, "on", value))


@dataclass(frozen=True)
class NoiseState:
    """All that a `NoiseStream` needs to go on from round ``t``, besides its own arguments: keep it secret.

    Whoever has the ``seed`` can subtract the noise, so it is not in ``repr``; it is None where the normals
    are the caller's own. ``fingerprint`` tells whether the noise that goes on is the noise that was begun.
    """

    t: int
    fingerprint: str
    seed: int | None = field(default=None, repr=False)
