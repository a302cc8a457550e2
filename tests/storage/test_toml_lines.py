"""The scanner finds the line of every key that tomllib finds."""

import string
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.storage.toml_lines import key_lines

TEXT = '''\
# [not.a.table]
include = ["a = 1", # b = 2
  "c = 3",
]
[defaults]
text = """
delta = 5
\\""" still inside
"""
literal = \'\'\'
[x]
it's ''quoted'' \'\'\'
short = "a \\" # b"  # [c]
'quoted key' = { inner = 1 }
a.b . "c.d" = 2
["population" . "p.q".release.'r']
epsilon=1
[[list]]
k = [[1, 2], [
 3]]
last = true
'''


def test_lines_by_hand():
    """Comments, strings of all four kinds, arrays, inline tables, dotted and quoted keys."""
    tomllib.loads(TEXT)
    assert key_lines(TEXT) == {
        ("include",): 2,
        ("defaults",): 5,
        ("defaults", "text"): 6,
        ("defaults", "literal"): 10,
        ("defaults", "short"): 13,
        ("defaults", "quoted key"): 14,
        ("defaults", "a"): 15,
        ("defaults", "a", "b"): 15,
        ("defaults", "a", "b", "c.d"): 15,
        ("population",): 16,
        ("population", "p.q"): 16,
        ("population", "p.q", "release"): 16,
        ("population", "p.q", "release", "r"): 16,
        ("population", "p.q", "release", "r", "epsilon"): 17,
        ("list",): 18,
        ("list", "k"): 19,
        ("list", "last"): 21,
    }


def test_own_header_of_a_table_beats_the_first_one_inside_it():
    """Whichever stands first."""
    text = "[a.b.c]\n[a.b]\n[a]\nx = 1\n[d.e]\n"
    lines = {("a",): 3, ("a", "b"): 2, ("a", "b", "c"): 1, ("a", "x"): 4, ("d",): 5, ("d", "e"): 5}
    assert key_lines(text) == lines


def test_quotes_before_the_end_of_a_long_string():
    """Up to two quotes may stand before the three that end the string."""
    text = 'a = """x"""""\nb = 1\nc = "\\u0041"\n"\\u0041\\n" = 2\n'
    assert tomllib.loads(text)["A\n"] == 2
    assert key_lines(text) == {("a",): 1, ("b",): 2, ("c",): 3, ("A\n",): 4}


@given(st.text(alphabet=string.printable + "é\0\\\"'"))
def test_any_text(text):
    """Whatever it is given, it answers with lines of the text."""
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


values = st.sampled_from(
    ['"a # b"', "1", "[1,\n2]", '"""x\ny = 1\n"""', "'''\n[t]\n'''", "{ i = '}' }", "true"]
)


@given(st.lists(values, min_size=1, max_size=8), st.booleans())
def test_every_key_has_the_line_it_was_written_on(found, header):
    """A text put together of keys with all kinds of values: each key is found where it was put."""
    lines, text = {}, "[table]\n" if header else ""
    for index, value in enumerate(found):
        lines[f"key{index}"] = text.count("\n") + 1
        text += f"key{index} = {value}\n"
    tomllib.loads(text)
    prefix = ("table",) if header else ()
    assert {path[-1]: line for path, line in key_lines(text).items() if path != prefix} == lines
