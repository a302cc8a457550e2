"""``python -m benchmarks.one_sided``: today's answers against those of an earlier accountant."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

from tests.fuzzing.one_sided import Row, check, rows


def main() -> None:
    """Check all rows on all cores, and print those that are looser or below a lower bound."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(_ending, rows(), chunksize=4))
    failed = [ending for ending in ended if ending]
    print(*failed, sep="\n")
    print(f"{len(ended)} rows, of which {len(failed)} fail")


def _ending(numbered: tuple[int, Row]) -> str:
    number, row = numbered
    try:
        check(number, row)
    except AssertionError as error:
        return f"{row['kind']} {number}: {error}"
    return ""


if __name__ == "__main__":
    main()
