"""How results show themselves: one line, rounded to the safe side, and an escaped table for notebooks."""

import math
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.model.display import at_least, at_most

TARGET = csgm.Target(1, 1e-5)
GAUSSIAN = csgm.Mechanism("gaussian", rounds=1)
GEOMETRY = csgm.Geometry(30.0, dim=10**4, cohort_size=100)
#: Text that would break a line, or a page, if it were shown as it is.
HOSTILE = 'a <b>&\n"phones"'


def results():
    """One result of each kind."""
    mechanism = csgm.Mechanism("l2-csgm", 0.1, GEOMETRY, 3)
    answer = csgm.calibrate(mechanism, TARGET)
    release = csgm.Release("one", GAUSSIAN, sigma=9.0)
    factorization = csgm.factorize(4)
    return {
        "calibrate": answer,
        "account": csgm.account_epsilon(mechanism, answer.sigma, [1e-5, 3e-7]),
        "compare": csgm.compare(GEOMETRY, TARGET, gammas=[0.1, 0.01, 0.2, 0.5], rounds=1),
        "equal MSE": csgm.compare_at_equal_mse(GEOMETRY, TARGET, gammas=[0.1, 0.0001], rounds=1),
        "plan": csgm.plan("l2-csgm", GEOMETRY, TARGET, max_noise_overhead=0.1, rounds=1),
        "standing": csgm.check_population(csgm.Population(HOSTILE, TARGET, releases=(release,))),
        "factorization": factorization,
        "streaming": csgm.factorize(csgm.schedule_workload([1.0, 2.0, 3.0]), "streaming:1"),
        "inspection": csgm.inspect_arrays(2, {"B": np.tril(np.ones((2, 2))), "C": np.eye(2)}),
        "noise": csgm.NoiseStream(factorization, sigma=1 / 3, dim=5, on="sums", seed=987654321),
    }


RESULTS = results()
EACH = pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)


@EACH
def test_repr_is_one_short_line(result):
    """No arrays, no nested values, and no line break from a name."""
    text = repr(result)
    assert text.startswith(f"<{type(result).__name__} ")
    assert text.endswith(">")
    assert text.isprintable()
    assert len(text) < 240
    assert "array" not in text
    assert str(result) == text


@EACH
def test_the_table_is_well_formed(result):
    """A parser finds a caption and rows of a name and a text, with everything that ``repr`` has."""
    table = ET.fromstring(result._repr_html_())
    assert table.tag == "table"
    assert table.findtext("caption") == type(result).__name__
    rows = {row.findtext("th"): row.findtext("td") for row in table.iter("tr")}
    assert None not in rows.values()
    assert all(f"{name}=" in repr(result) for name in list(rows)[:5])


def test_names_are_escaped():
    """A population's name is text: the reader sees it, and the browser runs nothing."""
    html = RESULTS["standing"]._repr_html_()
    assert "<b>" not in html
    assert HOSTILE in [cell.text for cell in ET.fromstring(html).iter("td")]


def test_the_seed_is_never_shown():
    """Whoever has the seed can subtract the noise."""
    stream = RESULTS["noise"]
    assert "987654321" not in repr(stream) + stream._repr_html_()


def test_noise_and_privacy_loss_are_rounded_up():
    """The Gaussian mechanism of (1, 1e-5) needs 3.73063163..., of which 3.73063 would be too little."""
    text = repr(csgm.calibrate(GAUSSIAN, TARGET))
    assert "noise_multiplier=3.73064 sigma=3.73064 epsilon=1 delta=1e-5 bound=exact" in text
    # At sigma = 1.1390127816 epsilon is 5 for delta 1e-8; slightly less noise costs slightly more.
    assert "epsilon=5.00001 " in repr(csgm.account_epsilon(GAUSSIAN, 1.139012, [1e-8]))


def test_what_exists_or_remains_is_rounded_down():
    """Of 2/3 of noise there is 0.666666, and a lower bound or a remainder is never exaggerated."""
    stream = csgm.NoiseStream(csgm.factorize(2), sigma=2 / 3, dim=5, on="sums")
    assert "sigma=0.666666 " in repr(stream)
    assert (at_least(2 / 3), at_most(2 / 3)) == ("0.666667", "0.666666")
    assert (at_least(-2 / 3), at_most(-2 / 3)) == ("-0.666666", "-0.666667")
    assert (at_least(None), at_most(math.inf)) == ("-", "inf")
    standing = RESULTS["standing"]
    shown = dict(word.split("=") for word in repr(standing)[:-1].split() if word.count("=") == 1)
    assert float(shown["spent"]) >= standing.spent > float(shown["spent"]) - 1e-5
    assert float(shown["remaining"]) <= standing.remaining < float(shown["remaining"]) + 1e-5


def test_a_factorization_by_hand():
    """Prefix sums of two rows by B = A, C = 1: errors 1 and 2, of which the mean is 1.5."""
    text = repr(csgm.factorize(2, "identity"))
    assert "T=2 strategy=identity objective=mean sensitivity=1 " in text
    assert " mean_squared_error=1.5 max_squared_error=2 " in text


def test_a_row_without_an_answer_is_named():
    """At gamma 1e-4 the sparsification error alone exceeds the MSE of the Gaussian mechanism."""
    found = RESULTS["equal MSE"]
    assert repr(found).endswith(",-,->")
    assert "l2-csgm, gamma 0.0001, no answer" in found._repr_html_()


def test_many_rows_are_cut_on_the_line_but_not_in_the_table():
    """Nine rows: the Gaussian mechanism, and two at each of four gammas."""
    found = RESULTS["compare"]
    assert repr(found).endswith(",...>")
    assert found._repr_html_().count("effective noise multiplier ") == 9


def test_a_block_shows_its_coordinates():
    """Blocks of one stream are told apart."""
    first, second, *_ = RESULTS["noise"].blocks(2)
    assert "coordinates=0:2" in repr(first)
    assert "coordinates=2:4" in repr(second)
