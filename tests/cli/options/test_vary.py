"""The grammar of --vary: what is read, what is refused and how the message names it."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from csgm_cli.cli.options.parameter_types import VARIABLE
from csgm_cli.cli.options.vary import Varied, Vary
from csgm_cli.errors import UsageError
from csgm_cli.ranges import RANGES

counts = st.sampled_from([name for name in VARIABLE if RANGES[name].integer and RANGES[name].high > 1e6])
reals = st.sampled_from([name for name in VARIABLE if not RANGES[name].integer])


def read(text):
    """What --vary makes of ``text``."""
    return Vary().convert(text, None, None)


def values_of(name):
    """Allowed values of an option, as floats."""
    allowed = RANGES[name]
    top = math.nextafter(allowed.high, 0.0) if allowed.open_high else allowed.high
    return st.floats(allowed.low, top)


@given(st.data(), reals)
def test_lists(data, name):
    """A list comes back to the last bit, in its order."""
    values = data.draw(st.lists(values_of(name), min_size=1, max_size=9, unique=True))
    assert read(f"{name.replace('_', '-')}={','.join(map(repr, values))}") == Varied(name, tuple(values))


@given(st.data(), reals, st.integers(2, 50), st.booleans())
def test_ranges(data, name, count, log):
    """N values, both ends exact, in equal steps or in equal ratios, up or down."""
    low, high = data.draw(values_of(name)), data.draw(values_of(name))
    assume(not math.isclose(low, high, rel_tol=1e-9))
    values = read(f"{name}={low!r}:{high!r}:{count}{'log' * log}").values
    assert (len(values), values[0], values[-1]) == (count, low, high)
    assert all(value in RANGES[name] for value in values)
    for i, value in enumerate(values):
        part = i / (count - 1)
        if log:
            assert math.log(value) == pytest.approx(
                math.log(low) * (1 - part) + math.log(high) * part, abs=1e-12, rel=1e-12
            )
        else:
            assert value == pytest.approx(low * (1 - part) + high * part, rel=1e-12)
    assert list(values) == sorted(values, reverse=low > high)


@given(counts, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 30), st.booleans())
def test_ranges_of_counts(name, low, high, count, log):
    """Whole numbers, each once, both ends kept; no more than asked for."""
    assume(low != high)
    values = read(f"{name}={low}:{high}:{count}{'log' * log}").values
    assert all(type(value) is int for value in values)
    assert (values[0], values[-1]) == (low, high)
    assert 2 <= len(set(values)) == len(values) <= count


@pytest.mark.parametrize("count", [2, 100_000])
def test_a_range_has_2_to_100000_values(count):
    """Both limits are allowed; one less and one more are refused below."""
    assert len(read(f"gamma=0.1:0.5:{count}").values) == count


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("gamma=0.1:0.5:5", (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("norm-ratio=1:1000:4log", (1.0, 10.0, 100.0, 1000.0)),
        ("norm_ratio=1000:1:4log", (1000.0, 100.0, 10.0, 1.0)),
        ("rounds=1:10:3log", (1, 3, 10)),
        ("rounds=1:3:9", (1, 2, 3)),
        ("rounds=1e6,1_000,5", (1_000_000, 1000, 5)),
        ("gamma= 0.1 , 0.2", (0.1, 0.2)),
        ("epsilon=0:1:3", (0.0, 0.5, 1.0)),
        ("delta=1e-300,1e-8", (1e-300, 1e-8)),
    ],
)
def test_known_values(text, values):
    """Decimal inputs give the decimals that one expects, not their neighbours."""
    assert read(text).values == values


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        ("gamma", "bad-vary", "OPTION=VALUES"),
        ("", "bad-vary", "OPTION=VALUES"),
        ("gama=1", "bad-vary", "did you mean gamma"),
        ("normratio=1", "bad-vary", "did you mean norm-ratio"),
        ("mechanism=gaussian", "bad-vary", "cannot vary 'mechanism'"),
        ("jobs=1,2", "bad-vary", "cannot vary 'jobs'"),
        ("=1", "bad-vary", "cannot vary ''"),
        ("gamma=0.1,0.1", "bad-vary", "0.1 twice"),
        ("gamma=0.1:0.1:3", "bad-vary", "0.1 twice"),
        ("gamma=0.1:0.5", "bad-vary", "LO:HI:N"),
        ("gamma=0.1:0.5:3:4", "bad-vary", "LO:HI:N"),
        ("gamma=0.1:0.5:3lin", "bad-vary", "LO:HI:N"),
        ("gamma=0.1:0.5:-3", "bad-vary", "LO:HI:N"),
        ("gamma=0.1:0.5:1", "bad-vary", "2 to 100000 values, got 1"),
        ("gamma=0.1:0.5:0", "bad-vary", "2 to 100000 values, got 0"),
        ("gamma=0.1:0.5:100001", "bad-vary", "2 to 100000 values"),
        ("gamma=0.1:0.5:" + "9" * 400, "bad-vary", "LO:HI:N"),
        ("epsilon=0:1:3log", "bad-vary", "above 0"),
        ("gamma=", "out-of-range", "--vary gamma must be a number in [1e-09, 1], got ''"),
        ("gamma=0.1,", "out-of-range", "got ''"),
        ("gamma=0.1,2", "out-of-range", "got '2'"),
        ("gamma=nan:0.5:3", "out-of-range", "got 'nan'"),
        ("gamma=0.1:inf:3", "out-of-range", "got 'inf'"),
        ("norm-ratio=0.01", "out-of-range", "--vary norm-ratio must be"),
        ("rounds=1.5", "out-of-range", "an integer"),
        ("delta=0.5,1", "out-of-range", "[1e-300, 1)"),
    ],
)
def test_refused(csgm, text, slug, said):
    """What is wrong is said in one line that names the option, and ends in exit code 2."""
    outcome = csgm("sweep", "--vary", text)
    assert (outcome.status, outcome.stdout) == (2, "")
    first = outcome.stderr.splitlines()[0]
    assert first.startswith(f"error[{slug}]: --vary")
    assert said in first


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.sampled_from(["", *VARIABLE]))
def test_any_text(text, name):
    """Whatever is written is read as allowed values, or is a UsageError."""
    try:
        varied = read(f"{name}={text}")
    except UsageError:
        return
    assert varied.values
    low = 0.0 if varied.name == "epsilon" else RANGES[varied.name].low  # account also takes epsilon 0
    assert all(low <= value <= RANGES[varied.name].high for value in varied.values)


@pytest.mark.parametrize("count", ["1e1", "1E+1", "1.0e1", "10"])
@pytest.mark.parametrize("log", ["", "log"])
def test_counts_are_written_as_elsewhere(count, log):
    """As other counts: 1e1 and 1_000 are whole numbers."""
    assert read(f"gamma=0.1:0.2:{count}{log}") == read(f"gamma=0.1:0.2:10{log}")
    assert len(read("gamma=0.1:0.2:1_000").values) == 1000
    with pytest.raises(UsageError, match=r"must have 2 to 100000 values, got 1\.25e1"):
        read(f"gamma=0.1:0.2:1.25e1{log}")
