"""What a mechanism with client sampling refuses, and what a sampling rate of 1 means."""

import pytest

from csgm_cli.accounting.accountants import check_accountant
from csgm_cli.errors import UsageError
from csgm_cli.model.geometry import Geometry
from csgm_cli.model.mechanism import Accountant, FactorNorms, Mechanism

FACTORIZATION = FactorNorms(8, "prefix-sum", None, 1.0)


def mechanism(**options):
    """A mechanism with client sampling."""
    return Mechanism("l2-csgm", 0.1, Geometry(norm_ratio=10.0), **{"sampling_rate": 0.01, **options})


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({"factorization": FACTORIZATION}, "sampling-with-factorization"),
        ({"factorization": FACTORIZATION, "epochs": 3}, "sampling-with-factorization"),
        ({"rounds": 100, "epochs": 3}, "epochs-without-factorization"),
        ({"rounds": 100, "disjoint_cohorts": True}, "sampling-with-schedule"),
        ({}, "sampling-needs-rounds"),
        *[({"rounds": 100, "sampling_rate": q}, "out-of-range") for q in (0.0, -0.1, 0.9e-9, 1.0000001, 2)],
        *[({"rounds": 100, "sampling_rate": float(q)}, "out-of-range") for q in ("nan", "inf")],
    ],
)
def test_refused_combinations(options, slug):
    with pytest.raises(UsageError) as caught:
        mechanism(**options)
    assert caught.value.slug == slug


def test_message_names_the_value_and_the_range():
    with pytest.raises(UsageError, match=r"\[1e-09, 1\], got 1\.5"):
        mechanism(rounds=100, sampling_rate=1.5)


@pytest.mark.parametrize("value", ["0.1", None, True, [0.1]])
def test_sampling_rate_is_a_number(value):
    with pytest.raises(UsageError):
        mechanism(rounds=100, sampling_rate=value)


@pytest.mark.parametrize("q", [1e-9, 0.5, 1.0, 1])
def test_ends_of_the_range_are_allowed(q):
    assert mechanism(rounds=100, sampling_rate=q).sampling_rate == q


@pytest.mark.parametrize("options", [{}, {"factorization": FACTORIZATION, "epochs": 3}])
def test_sampling_rate_of_one_refuses_nothing(options):
    assert mechanism(sampling_rate=1.0, **options) == Mechanism(
        "l2-csgm", 0.1, Geometry(norm_ratio=10.0), **options
    )


@pytest.mark.parametrize("accountant", [Accountant.EXACT, Accountant.PAPER])
def test_accountants_without_client_sampling_refuse_it(accountant):
    """Also where only one of several releases has a sampling rate; a Gaussian one is no exception."""
    sampled = mechanism(rounds=100)
    gaussian = Mechanism("gaussian", rounds=100, sampling_rate=0.01)
    plain = Mechanism("gaussian", rounds=3)
    for mechanisms in ([sampled], [gaussian], [plain, sampled], [gaussian, plain]):
        with pytest.raises(UsageError) as caught:
            check_accountant(mechanisms, accountant)
        assert caught.value.slug == "no-sampled-accountant"
        assert "0.01" in caught.value.message


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.TIGHT, Accountant.RDP])
def test_other_accountants_accept_client_sampling(accountant):
    check_accountant([mechanism(rounds=100), Mechanism("gaussian", rounds=3)], accountant)
