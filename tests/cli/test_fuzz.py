"""Random command lines keep csgm's promises; ``python -m benchmarks --only fuzz`` runs many more."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.lines import example
from tests.fuzzing.promises import check, quiet_place


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_promises_hold_for_random_command_lines(random: Random):
    """Exit code and streams are as promised; answers meet their target, tightly, and are monotone."""
    with quiet_place():
        check(example(random))
