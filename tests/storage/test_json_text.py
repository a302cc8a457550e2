"""JSON is read strictly: what two readers could understand in two ways is refused."""

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import metadata
from csgm_cli.storage.json_text import first_repeat, parse_json, without_repeats


class Counted(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_plain_json_has_its_values():
    text = '{"a": [1, 2.5, -1e-300, true, null, "x"], "b": {"a": 10000000000000000}}'
    assert parse_json(text) == {"a": [1, 2.5, -1e-300, True, None, "x"], "b": {"a": 10**16}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ('{"a": 1', "is not JSON"),
        ('{"a": 1} {}', "is not JSON"),
        ('{"a": 1, "b": 2, "a": 1}', "'a' twice"),
        ('[{"b": {"a": 1, "a": 2}}]', "'a' twice"),
        (r'{"a": 1, "\u0061": 2}', "'a' twice"),
        ("NaN", "NaN, which is no JSON number"),
        ("[-Infinity]", "-Infinity, which is no JSON number"),
        ("1e999", "beyond float64"),
        ("1" + "0" * 400, "beyond float64"),
        ("1" + "0" * 5000, "beyond float64"),
        ("1e-999", "cannot tell from 0"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_all_else_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 200


def test_first_repeat():
    assert first_repeat("abcbca") == "b"
    assert first_repeat("abc") is None
    assert first_repeat(iter(())) is None


@pytest.mark.parametrize("as_object", [without_repeats, metadata._object], ids=["text", "arrays"])
def test_comparisons_are_linear_in_the_keys(as_object):
    """A pair of equal keys at the end of many: at most two comparisons for each."""
    keys = [Counted(number) for number in (*range(3000), 2999)]
    Counted.comparisons = 0
    with pytest.raises((UsageError, ValueError), match="'2999' twice"):
        as_object([(key, None) for key in keys])
    assert Counted.comparisons <= 2 * len(keys)
