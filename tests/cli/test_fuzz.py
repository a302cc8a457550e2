"""Random command lines keep csgm's promises; ``python -m benchmarks --only fuzz`` runs many more."""

from random import Random

import pytest

from tests.fuzzing.lines import example
from tests.fuzzing.promises import check, quiet_place

#: The first ones that the benchmark tries, which shortens those that fail.
EXAMPLES, PARTS = 100, 10
#: Triangles at delta 1 - 2^-53, which take minutes.
SLOW = {6, 93}


@pytest.mark.parametrize("part", range(PARTS))
def test_promises_hold_for_random_command_lines(part):
    """Exit code and streams are as promised; answers meet their target, tightly, and are monotone."""
    for i in sorted({*range(part, EXAMPLES, PARTS)} - SLOW):
        with quiet_place():
            check(example(Random(f"0/{i}")))
