"""Suggestions for error messages, in Python and on the command line; imported on errors only."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def probably_meant(name: str, number: float) -> str:
    """A hint for a ``number`` out of range; inputs are written `` `gamma` ``."""
    match name:
        case "norm_ratio" if 0 < number < 1:
            hint = f"norm_ratio is l2_norm / linf_norm; was the inverse meant, {1 / number:.6g}?"
        case "gamma" if 1 < number <= 1e9:
            factor = f"for a compression factor of {number:g}: `gamma` {1 / number:.6g}"
            hint = f"{factor}; for {number:g} %: `gamma` {number / 100:.6g}" if number <= 100 else factor
        case "compression" if 0 < number < 1:
            hint = f"for a sparsification rate: `gamma` {number:g}"
        case "noise_multiplier" | "sigma" if number == 0:
            hint = "without noise there is no (epsilon, delta) guarantee to account for"
        case "delta" if number == 0:
            pure = "delta 0 is pure differential privacy, which Gaussian noise never gives"
            hint = f"{pure}; choose one well below 1 / number of clients, such as 1e-8"
        case "delta" if 100 <= number < math.inf:
            digits, _, exponent = f"{number:e}".partition("e+")
            hint = f"did you mean {float(digits):g}e-{int(exponent)}?"
        case _:
            hint = ""
    return hint


#: What to do where cohorts are not drawn by Poisson sampling.
WITHOUT_AMPLIFICATION = (
    "no amplification is offered for fixed-size cohorts or shuffled epochs: pass `rounds` = all training"
    " rounds, or `population_size`, `cohort_size` and `training_rounds` for disjoint cohorts in a fixed order"
)
#: Words of options for client sampling, and parts that no other option has.
_SAMPLING = ("poisson", "sampling", "subsampling", "sampling-rate", "client-sampling", "random-cohorts")
_SAMPLING_PART = r"sampl|poisson|shuffl|amplif|random-(?:client|cohort|particip|select)|participation"


def instead_of_sampling(word: str) -> str:
    """A hint for an option or a key that asks for client sampling; empty for another ``word``."""
    from difflib import get_close_matches

    word = word.lower().lstrip("-").replace("_", "-")
    if not re.search(_SAMPLING_PART, word) and not get_close_matches(word, _SAMPLING, cutoff=0.8):
        return ""
    return (
        "pass `sampling_rate` = the probability that a client takes part in a round, with `rounds` = all"
        " training rounds (Poisson sampling); `rounds` alone is safe however clients are sampled"
    )


def did_you_mean(word: str, possible: Iterable[str]) -> str:
    """Return the end of a message about an unknown ``word``: the close ones, or nothing."""
    return meant(close_words(word, possible))


def close_words(word: str, possible: Iterable[str]) -> list[str]:
    """Return at most three of the ``possible`` words that ``word`` may stand for, the closest first.

    Where some begin with ``word``, in whatever case, it is one of these that was cut short. Otherwise a name
    that differs in case, dashes and underscores alone is the one.
    """
    from difflib import get_close_matches

    names = sorted(possible)
    begun = [name for name in names if word and name.lower().startswith(word.lower())]
    same = [name for name in names if _letters(name) == _letters(word)]
    return sorted(begun, key=len)[:3] or same or get_close_matches(word, names)


def _letters(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def meant(words: Sequence[str]) -> str:
    """Return the end of a message that suggests ``words``; nothing for none."""
    return f"; did you mean {' or '.join(words)}?" if words else ""


def spelled(hint: str, spellings: Mapping[str, str]) -> str:
    """Return ``hint`` with each input that it names, `` `norm_ratio` ``, as ``spellings`` has it.

    Hints name inputs as Python does; the command line has flags for them, and files have keys.
    """
    return re.sub(r"`(\w+)`", lambda name: spellings.get(name[1], name[0]), hint)
