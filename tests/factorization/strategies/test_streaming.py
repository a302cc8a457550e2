"""The streaming form: never worse than a BLT with as many buffers, and near the optimum."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.factorization import factorize, schedule_workload
from csgm_cli.model.factorization import Objective, Workload

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "blt.json").read_text(encoding="utf-8"))
BLT = ("blt", "blt-normalized")


def assert_no_worse_than_blt(T, buffers, objective):
    optimum = factorize(T, objective=objective)
    found = factorize(T, f"streaming:{buffers}", objective, optimum=optimum)
    assert found.squared_error >= optimum.lower_bound * (1 - 1e-12)
    for name in BLT:
        other = factorize(T, f"{name}:{buffers}", objective, optimum=optimum)
        assert found.squared_error <= other.squared_error * (1 + 1e-12)


@given(T=st.integers(1, 200), buffers=st.integers(1, 6), objective=st.sampled_from(Objective))
@settings(max_examples=8, deadline=None)
def test_never_worse_than_blt(T, buffers, objective):
    """For both objectives, plain and normalized."""
    assert_no_worse_than_blt(T, buffers, objective)


@pytest.mark.parametrize(("T", "buffers", "objective"), [(10_000, 1, "max"), (10_000, 2, "mean")])
def test_never_worse_than_blt_for_many_rows(T, buffers, objective):
    """Where the poles are tuned at fewer rows, and where a BLT is better than Markov chains."""
    assert_no_worse_than_blt(T, buffers, objective)


@pytest.mark.parametrize("case", REFERENCE["chains_with_constant"], ids=str)
def test_errors_of_chains_in_white_noise(case):
    """At most those of a dense prototype with all parameters optimized, to 1e-5."""
    found = factorize(case["T"], f"streaming:{case['N']}")
    assert found.mean_squared_error <= case["error"] * (1 + 1e-5)


def test_learning_rates_have_no_blt_and_scale():
    """Rates of one size are prefix sums of that size; a falling rate comes near its optimum as well."""
    same = factorize(schedule_workload([0.1] * 40), "streaming:2")
    assert same.mean_squared_error == pytest.approx(
        0.01 * factorize(40, "streaming:2").mean_squared_error, rel=1e-4
    )
    falling = factorize(schedule_workload([1 / (1 + t / 10) for t in range(200)]), "streaming:4")
    assert falling.gap < 1e-3


def test_momentum_is_refused_by_streaming_alone():
    """A BLT names its own reason."""
    with pytest.raises(Exception, match="streaming needs"):
        factorize(Workload(4, 0.5), "streaming:2")
