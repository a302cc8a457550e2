"""What every error message has in common."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import csgm_cli as csgm
from csgm_cli.errors import CsgmError, UsageError, one_line, shown
from csgm_cli.hints import probably_meant, spelled


@given(st.text())
def test_messages_are_one_printable_line(text):
    """Whatever a message quotes, it can be printed; printable text stays as it is."""
    error = UsageError("slug", text, text)
    assert error.message.isprintable()
    assert str(error) == error.message == error.hint
    is_command = text.lstrip().startswith("::") or "##[" in text
    assert error.message == text or not text.isprintable() or is_command


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", r"a\nb"), ("\x1b[0m", r"\x1b[0m"), ("\udcff", r"\udcff"), ("é", "é")]
)
def test_what_is_escaped(text, line):
    """Line ends, controls and bytes that are no text are escaped, letters are not."""
    assert one_line(text) == line


def test_long_messages_keep_both_ends():
    """The beginning says what it is about, the end what is wrong."""
    message = CsgmError("slug", f"cannot write '{'x' * 5000}': it is full").message
    assert message.startswith("cannot write 'xxx")
    assert message.endswith("xxx': it is full")
    assert len(message) < 800
    assert CsgmError("slug", "x" * 1000).message == "x" * 1000
    assert CsgmError("slug", "x" * 1001).message == f"{'x' * 500}...{'x' * 250}"


def test_quoted_values_are_cut():
    """A value is shown as Python writes it, up to a length."""
    assert shown("a\n") == r"'a\n'"
    assert shown("x" * 100) == "'" + "x" * 59 + "..."
    assert shown("x" * 58) == f"'{'x' * 58}'"  # sixty characters with its quotes
    assert shown("x" * 59) == "'" + "x" * 59 + "..."
    assert shown(10**5000) == "a number of thousands of digits"


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (lambda: csgm.Target(1e-7, 4), "epsilon and delta seem to be swapped: epsilon 4, delta 1e-07"),
        (lambda: csgm.Target(5, 1e5), "did you mean 1e-5?"),
        (lambda: csgm.Target(5, 10**400), ""),
        (lambda: csgm.Target(5, 0), "delta 0 is pure differential privacy, which Gaussian noise never gives"),
        (lambda: csgm.Mechanism("l2-csgm", 10), "for a compression factor of 10: `gamma` 0.1; for 10 %:"),
        (lambda: csgm.Geometry(0.25), "norm_ratio is l2_norm / linf_norm; was the inverse meant, 4?"),
        (lambda: csgm.resolve_geometry(dim=9), "pass `cohort_size` beside `dim`, or `norm_ratio`, or"),
        (
            lambda: csgm.account_epsilon(csgm.Mechanism("gaussian"), 0, [1e-6]),
            "without noise there is no (epsilon, delta) guarantee",
        ),
    ],
)
def test_hints_from_python(ask, hint):
    """What the command line says of such a mistake, Python says, too, with its own names of the inputs."""
    with pytest.raises(UsageError) as caught:
        ask()
    assert caught.value.hint.startswith(hint)
    assert bool(caught.value.hint) == bool(hint)


@pytest.mark.parametrize(
    ("name", "number", "hint"),
    [
        ("norm_ratio", 0.25, "norm_ratio is l2_norm / linf_norm; was the inverse meant, 4?"),
        ("norm_ratio", 0.0, ""),
        ("norm_ratio", -0.25, ""),
        ("gamma", 100.0, "for a compression factor of 100: `gamma` 0.01; for 100 %: `gamma` 1"),
        ("gamma", 101.0, "for a compression factor of 101: `gamma` 0.00990099"),
        ("gamma", 1e9, "for a compression factor of 1e+09: `gamma` 1e-09"),
        ("gamma", 2e9, ""),
        ("gamma", 0.0, ""),
        ("compression", 0.5, "for a sparsification rate: `gamma` 0.5"),
        ("compression", 0.0, ""),
        ("sigma", -1.0, ""),
        ("delta", 100.0, "did you mean 1e-2?"),
        ("delta", 99.0, ""),
        ("delta", float("inf"), ""),
        ("rounds", 0.0, ""),
    ],
)
def test_a_hint_is_given_for_what_was_probably_meant(name, number, hint):
    """At the ends of what can be guessed, and beyond them, where there is no hint."""
    assert probably_meant(name, number) == hint


def test_a_word_that_is_nearly_right():
    """Python's spelling of a mechanism is met with the right one."""
    with pytest.raises(UsageError, match=r"got 'l2_csgm'; did you mean l2-csgm\?$"):
        csgm.Mechanism("l2_csgm", 0.1)


def test_hints_of_core_name_no_flags():
    """They are for Python, too; the command line turns the names of inputs into flags."""
    package = Path(csgm.__file__).parent
    shell = ("cli", "render", "storage")
    sources = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in shell]
    sources += package.glob("storage/arrays/*.py")
    assert len(sources) > 50
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
                assert not re.search(r"(?<!\w)--[a-z]", ast.unparse(node)), f"{source}:{node.lineno}"


def test_inputs_in_hints_are_spelled_for_the_reader():
    """Known names only: a file may be called anything."""
    said = spelled("give `dim`, not `x`; `dim`", {"dim": "--dim"})
    assert said == "give --dim, not `x`; --dim"
