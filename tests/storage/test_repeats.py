"""A repeated key is found in one pass, by every reader of JSON."""

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage import lock, saved
from csgm_cli.storage.arrays import metadata
from csgm_cli.storage.repeats import first_repeat


class Counted(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_first_repeat():
    assert first_repeat("abcbca") == "b"
    assert first_repeat("abc") is None
    assert first_repeat(iter(())) is None


@pytest.mark.parametrize(
    "as_object",
    [saved._without_repeats, metadata._object, lock._without_repeats],
    ids=["saved", "arrays", "lock"],
)
def test_comparisons_are_linear_in_the_keys(as_object):
    """A pair of equal keys at the end of many: at most two comparisons for each."""
    keys = [Counted(number) for number in (*range(3000), 2999)]
    Counted.comparisons = 0
    with pytest.raises((UsageError, ValueError), match="'2999' twice"):
        as_object([(key, None) for key in keys])
    assert Counted.comparisons <= 2 * len(keys)
