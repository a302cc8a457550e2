"""What proves one direction of a tight answer: enough for other code to recompute it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Proof(Enum):
    """The kinds of proven upper bound on one direction's delta over all vectors."""

    RDP = "rdp"  # the add-remove Renyi curve, at `order`
    RENYI_REMOVE = "renyi-remove"  # that of the remove direction alone, at `order`
    ADD_CONE = "add-cone"
    REMOVE_CONE = "remove-cone"
    CONCAVE = "concave"
    PROFILE = "profile"  # the profile with every coordinate at its clip


class Again(Protocol):
    """About the same bound elsewhere, see ``retrace``."""

    def __call__(self, epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        """At that epsilon, with the noise's variance and the rounds changed by these factors."""


@dataclass(frozen=True)
class Certificate:
    """An upper bound ``value`` on one direction's delta and the parameters of its test function.

    ``exponent`` B or B', ``spread`` log r, ``z`` the half width of the good set (of
    mixed releases: how many deviations up the posteriors of some are capped), ``order`` the Renyi
    order; None where the proof has no such thing. ``slack``: how much ``value`` may exceed what the
    proof gives, relative; ``raised``: how much of that is on purpose. ``blur``: log-variance of a blur that
    the test function, or the hockey-stick, takes without its mean exceeding ``value``; 0 where none was
    needed. ``wobble``: how much ``value`` may jump, relative, from one epsilon to the next; infinite where
    that is not known.
    ``epsilon`` is a smaller one than was asked for, where the proof is for that: delta falls with epsilon.
    ``again`` steers searches, and so does ``nearly``, which is off by a factor that hardly changes; None
    where nothing so cheap is known.
    """

    proof: Proof
    value: float
    exponent: float | None = None
    spread: float | None = None
    z: float | None = None
    order: float | None = None
    slack: float = 0.0
    raised: float = 0.0
    blur: float = 0.0
    wobble: float = 0.0
    epsilon: float | None = None
    again: Again | None = field(default=None, compare=False, repr=False)
    nearly: Again | None = field(default=None, compare=False, repr=False)


def value_of(certificate: Certificate | None) -> float:
    """Its bound on delta, infinite where there is none."""
    return math.inf if certificate is None else certificate.value
