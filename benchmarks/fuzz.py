"""Random command lines, checked for the promises of csgm; a failure is reported by its shortest line."""

from __future__ import annotations

import os
import sys
from atexit import register
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from random import Random
from typing import NamedTuple

from benchmarks.measure import Table, show
from tests.fuzzing.lines import Example, example
from tests.fuzzing.promises import Outcome, PromiseBrokenError, check, quiet_place


def tables(*, quick: bool, examples: int | None = None, seed: int = 0) -> Iterator[Table]:
    """Check ``examples`` command lines, on all cores; example i of a seed is always the same."""
    number = examples or (100 if quick else 10_000)
    with ProcessPoolExecutor(os.cpu_count(), initializer=settle) as pool:
        found = list(pool.map(_ending, repeat(seed), range(number), chunksize=10))
    ended = Counter((end.status, end.slug) for end in found if not end.broken)
    kinds = Counter(end.broken for end in found if end.broken)
    slowest = max((end.seconds for end in found if not end.broken), default=0.0)
    rows = [[str(status), slug or "-", f"{n:,}"] for (status, slug), n in sorted(ended.items())]
    said = (
        f"{number:,} command lines with seed {seed}, half of them well-formed:"
        f" {kinds.total()} broke a promise"
        f"{''.join(f'; {promise}: {n}' for promise, n in kinds.most_common())}."
        f" The slowest of the others took {show(slowest)} s of CPU. How the others ended:"
    )
    yield Table("Fuzz", said, ["exit code", "error", "command lines"], rows)


class _Ending(NamedTuple):
    """How one command line ended: ``broken`` is the promise it broke, or empty."""

    status: int
    slug: str
    seconds: float
    broken: str


_place = ExitStack()


def settle() -> None:
    """Run this process in an empty folder until it ends."""
    _place.enter_context(quiet_place())
    register(_place.close)


def _ending(seed: int, i: int) -> _Ending:
    tried = example(Random(f"{seed}/{i}"))
    result = _checked(tried)
    if isinstance(result, PromiseBrokenError):
        least = _least(tried, result)
        print(least, file=sys.stderr, flush=True)
        return _Ending(-1, "", 0.0, least.promise)
    return _Ending(result.status, result.slug, result.seconds, "")


def _checked(tried: Example) -> Outcome | PromiseBrokenError:
    try:
        return check(tried)
    except PromiseBrokenError as error:
        return error


def _least(tried: Example, found: PromiseBrokenError) -> PromiseBrokenError:
    """The same promise broken by an example with fewer options and shorter numbers."""
    if found.promise == "an end":
        return found  # each attempt would take as long
    while True:
        for simpler in _simpler(tried):
            result = _checked(simpler)
            if isinstance(result, PromiseBrokenError) and result.promise == found.promise:
                tried, found = simpler, result
                break
        else:
            return found


def _simpler(tried: Example) -> Iterator[Example]:
    options = tried.line.options
    for i, option in enumerate(options):
        before, after = options[:i], options[i + 1 :]
        # What is missing a required option is refused as it should be, and so is not broken.
        if not tried.well_formed or option[0] not in ("--epsilon", "--delta", "--gamma"):
            yield replace(tried, line=replace(tried.line, options=(*before, *after)))
        for shorter in _shorter(option[-1]):
            changed = (*before, (option[0], shorter), *after)
            yield replace(tried, line=replace(tried.line, options=changed))


def _shorter(text: str) -> Iterator[str]:
    try:
        number = float(text)
    except ValueError:
        return
    for digits in (0, 2, 5):
        shorter = f"{number:.{digits}e}"
        if len(shorter) < len(text) and shorter != text:
            yield shorter
