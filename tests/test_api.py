"""The public Python API: what is exported, how little it imports, and that results are values."""

import contextlib
import dataclasses
import importlib
import math
import subprocess
import sys
import typing
from fractions import Fraction

import numpy as np
import pytest

import csgm_cli
from csgm_cli import errors
from csgm_cli.errors import CsgmError, NoAnswerError, StorageError, UsageError, VerificationError
from csgm_cli.mechanism import plan as running
from csgm_cli.model import budget, mechanism_table, result
from csgm_cli.model import mechanism as model
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

DATACLASSES = [
    value
    for module in (model, mechanism_table, result, budget, running)
    for value in vars(module).values()
    if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
]


def run(code):
    """What a fresh interpreter prints for this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# ---------------------------------------------------------------- names


def test_exported_names_are_the_lazy_table():
    """__all__ is the table of homes and the version, and each name is there to be had."""
    assert set(csgm_cli.__all__) == set(csgm_cli._HOMES) | {"__version__"}
    assert len(set(csgm_cli.__all__)) == len(csgm_cli.__all__)
    for name, home in csgm_cli._HOMES.items():
        defined = getattr(importlib.import_module(f"csgm_cli.{home}"), name)
        assert getattr(csgm_cli, name) is defined
        assert defined.__module__ == f"csgm_cli.{home}"
        assert defined.__doc__


def test_dir_lists_the_public_names():
    """What an interactive session offers is what is public, loaded or not."""
    assert dir(csgm_cli) == sorted(csgm_cli.__all__)


def test_an_unknown_name_is_an_attribute_error():
    """So that hasattr and from-imports behave as everywhere."""
    assert not hasattr(csgm_cli, "calibrat")
    with pytest.raises(AttributeError, match="calibrat"):
        csgm_cli.calibrat  # noqa: B018 - the access is the test


def test_public_functions_are_annotated():
    """Every parameter and every return value has a type."""
    for name, home in csgm_cli._HOMES.items():
        if home.startswith(("jobs.", "factorization.", "noise.")):
            public = getattr(csgm_cli, name)
            function = public.__init__ if isinstance(public, type) else public
            parameters = function.__code__.co_varnames[
                : function.__code__.co_argcount + function.__code__.co_kwonlyargcount
            ]
            assert set(function.__annotations__) | {"self"} == {*parameters, "self", "return"}, name


# ---------------------------------------------------------------- what is imported


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import csgm_cli", set()),
        ("from csgm_cli import Mechanism, Target, CsgmError; Target(1, 1e-6)", set()),
        (
            "from csgm_cli import Mechanism, Target, calibrate;"
            "calibrate(Mechanism('gaussian'), Target(1, 1e-6))",
            set(),
        ),
        ("from csgm_cli import Strategy, Workload; Workload(32); Strategy('streaming', 4)", set()),
        (
            "from csgm_cli import factorize, parse_workload; factorize(parse_workload('prefix-sum', 8))",
            {"numpy"},
        ),
        ("from csgm_cli import *", {"numpy"}),  # NoiseStream is a class on arrays
        (
            "from csgm_cli import calibrate, Mechanism, Target, Geometry;"
            "calibrate(Mechanism('l2-csgm', 0.1, Geometry(9.0)), Target(1, 1e-6))",
            {"numpy"},
        ),
        (
            "from csgm_cli import calibrate, Mechanism, Target;"
            "calibrate(Mechanism('gaussian'), Target(1, 1e-6), verify=True)",
            {"mpmath"},
        ),
    ],
)
def test_only_what_is_used_is_imported(code, allowed):
    """The Gaussian needs the standard library, sparsified mechanisms numpy, verification mpmath."""
    heavy = "{'numpy', 'mpmath', 'scipy', 'rich', 'click'}"
    loaded = run(f"import sys\n{code}\nprint(*sorted({heavy} & set(sys.modules)))")
    assert set(loaded.split()) == allowed


# ---------------------------------------------------------------- use


def test_a_training_script():
    """Geometry, target, noise, and the same guarantee back."""
    geometry, _ = csgm_cli.resolve_geometry(dim=10**6, cohort_size=1000)
    rounds, _ = csgm_cli.rounds_from_participation(10**5, 1000, 300)
    mechanism = csgm_cli.Mechanism("l2-csgm", 0.01, geometry, rounds)
    answer = csgm_cli.calibrate(mechanism, csgm_cli.Target(3.0, 1e-6))
    (guarantee,) = csgm_cli.account_epsilon(mechanism, answer.sigma, [1e-6]).guarantees
    # Account's epsilon is below the target by what the bracket of sigma, at most 1e-12 wide, is worth; its
    # lower bound is one of epsilon, not of the noise multiplier.
    (beyond,) = csgm_cli.account_epsilon(mechanism, answer.sigma * (1 - 1e-12), [1e-6]).guarantees
    assert guarantee.epsilon <= answer.guarantee.epsilon == 3.0 < beyond.epsilon
    same = {"epsilon": 3.0, "lower_bound": answer.guarantee.lower_bound}
    assert dataclasses.replace(guarantee, **same) == answer.guarantee
    (back,) = csgm_cli.account_delta(mechanism, answer.sigma, 3.0).guarantees
    assert back.delta <= 1e-6
    rows = csgm_cli.compare(geometry, csgm_cli.Target(3.0, 1e-6), gammas=[0.01], rounds=rounds).rows
    assert rows[1].calibration.sigma == answer.sigma
    found = csgm_cli.plan("l2-csgm", geometry, csgm_cli.Target(3.0, 1e-6), max_noise_overhead=0.1)
    assert 0 < found.gamma < 1


def test_the_same_question_has_the_same_answer():
    """Results compare equal field by field, twice and in another process (no state is kept)."""
    code = (
        "from csgm_cli import *; print(repr(calibrate(Mechanism('l2-csgm', 0.02, Geometry(50.0), 7),"
        " Target(2.0, 1e-7))))"
    )
    mechanism = Mechanism("l2-csgm", 0.02, Geometry(50.0), 7)
    first, second = (csgm_cli.calibrate(mechanism, Target(2.0, 1e-7)) for _ in range(2))
    assert first == second
    assert repr(first) == run(code)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("kind", DATACLASSES, ids=lambda kind: kind.__name__)
def test_dataclasses_are_frozen_and_documented(kind):
    """Nothing that crosses a boundary can be changed by who receives it."""
    assert kind.__dataclass_params__.frozen
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}(")  # not the generated one
    assert typing.get_type_hints(kind)


def test_results_are_hashable_values():
    """Equal inputs make equal, hashable mechanisms; a changed copy is another one."""
    one, other = (Mechanism("l2-csgm", 0.1, Geometry(3.0)) for _ in range(2))
    assert len({one, other}) == 1
    assert dataclasses.replace(one, rounds=2) != one


def test_plain_strings_are_welcome():
    """Names as text become members; a wrong one lists the right ones."""
    mechanism = Mechanism("l2-csgm", 0.1, Geometry(3.0), adjacency="replace-one")
    assert mechanism.name is mechanism_table.MechanismName.L2_CSGM
    assert mechanism.adjacency is Adjacency.REPLACE_ONE
    release = csgm_cli.Release("one", mechanism, sigma=1.0)
    population = csgm_cli.Population("all", Target(1, 1e-6), "replace-one", (release,))
    assert population.adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(UsageError, match="adjacency must be one of"):
        csgm_cli.Population("all", Target(1, 1e-6), "swap")
    assert csgm_cli.factorize(WORKLOAD, "streaming:1", "max").objective is csgm_cli.Objective.MAX
    for arguments in ({"name": "l2"}, {"name": "l2-csgm", "adjacency": "swap"}):
        with pytest.raises(UsageError) as caught:
            Mechanism(**arguments)
        assert caught.value.slug == "unknown-choice"
        assert "replace-one" in caught.value.message or "linf-csgm" in caught.value.message


@pytest.mark.parametrize(
    ("build", "slug"),
    [
        (lambda: Mechanism("gaussian", 0.5), "gaussian-gamma"),
        (lambda: Mechanism("linf-csgm", 0.5), "linf-needs-dim"),
        (lambda: Mechanism("l2-csgm", 0.0), "out-of-range"),
        (lambda: Mechanism("l2-csgm", 1.0000001), "out-of-range"),
        (lambda: Mechanism("l2-csgm", math.nan), "out-of-range"),
        (lambda: Mechanism("l2-csgm", 0.5, rounds=0), "out-of-range"),
        (lambda: Mechanism("l2-csgm", 0.5, rounds=1.5), "out-of-range"),
        (lambda: Mechanism("l2-csgm", 0.5, rounds=10**9 + 1), "out-of-range"),
        (lambda: Geometry(0.999), "out-of-range"),
        (lambda: Geometry(math.inf), "out-of-range"),
        (lambda: Geometry(2.0, 0.0), "out-of-range"),
        (lambda: Geometry(2.0, dim=3), "ratio-above-dim"),
        (lambda: Target(0.0, 1e-6), "out-of-range"),
        (lambda: Target(1.0, 1.0), "out-of-range"),
        (lambda: Target(1.0, 0.0), "out-of-range"),
        (lambda: Target(math.nan, 1e-6), "out-of-range"),
        (lambda: Target(1.0, math.nan), "out-of-range"),
    ],
)
def test_values_that_make_no_sense_cannot_be_built(build, slug):
    """Every range of the promise is checked where the value is made."""
    with pytest.raises(UsageError) as caught:
        build()
    assert caught.value.slug == slug
    assert caught.value.exit_status == 2


MECHANISM, TARGET = Mechanism("l2-csgm", 0.01, Geometry(1000.0)), Target(5, 1e-8)
GEOMETRY = MECHANISM.geometry

WORKLOAD = csgm_cli.parse_workload("prefix-sum", 2)
FACTORIZATION = csgm_cli.factorize(WORKLOAD)
ARRAYS = {"B": np.tril(np.ones((2, 2))), "C": np.eye(2)}

#: What is none of the things that a function takes, whatever it takes.
STRANGERS = [None, "0.5", b"1", True, (5, 1e-8), [], {}, object(), 1j, math.nan]


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "call",
    [
        Geometry,
        lambda x: Geometry(2.0, x),
        lambda x: Geometry(2.0, dim=x),
        lambda x: Geometry(2.0, cohort_size=x),
        lambda x: Mechanism(x, 0.1),
        lambda x: Mechanism("l2-csgm", x),
        lambda x: Mechanism("l2-csgm", 0.1, x),
        lambda x: Mechanism("l2-csgm", 0.1, rounds=x),
        lambda x: Mechanism("l2-csgm", 0.1, adjacency=x),
        lambda x: Target(x, 1e-8),
        lambda x: Target(1.0, x),
        lambda x: csgm_cli.resolve_geometry(norm_ratio=x),
        lambda x: csgm_cli.resolve_geometry(linf_norm=x),
        lambda x: csgm_cli.resolve_geometry(norm_ratio=2.0, l2_norm=x),
        lambda x: csgm_cli.resolve_geometry(norm_ratio=2.0, dim=x),
        lambda x: csgm_cli.resolve_geometry(norm_ratio=2.0, cohort_size=x),
        lambda x: csgm_cli.rounds_from_participation(x, 10, 10),
        lambda x: csgm_cli.rounds_from_participation(100, x, 10),
        lambda x: csgm_cli.rounds_from_participation(100, 10, x),
        lambda x: csgm_cli.calibrate(x, TARGET),
        lambda x: csgm_cli.calibrate(MECHANISM, x),
        lambda x: csgm_cli.calibrate(MECHANISM, TARGET, x),
        lambda x: csgm_cli.calibrate(MECHANISM, TARGET, verify=x),
        lambda x: csgm_cli.calibrate(MECHANISM, TARGET, value_bits=x),
        lambda x: csgm_cli.account_epsilon(x, 0.012, [1e-8]),
        lambda x: csgm_cli.account_epsilon(MECHANISM, x, [1e-8]),
        lambda x: csgm_cli.account_epsilon(MECHANISM, 0.012, x),
        lambda x: csgm_cli.account_epsilon(MECHANISM, 0.012, [x]),
        lambda x: csgm_cli.account_epsilon(MECHANISM, 0.012, [1e-8], x),
        lambda x: csgm_cli.account_epsilon(MECHANISM, 0.012, [1e-8], verify=x),
        lambda x: csgm_cli.account_delta(x, 0.012, 5),
        lambda x: csgm_cli.account_delta(MECHANISM, x, 5),
        lambda x: csgm_cli.account_delta(MECHANISM, 0.012, x),
        lambda x: csgm_cli.account_delta(MECHANISM, 0.012, 5, x),
        lambda x: csgm_cli.account_delta(MECHANISM, 0.012, 5, verify=x),
        *(
            call
            for function in (csgm_cli.compare, csgm_cli.compare_at_equal_mse)
            for call in (
                lambda x, compare=function: compare(x, TARGET, gammas=[0.1]),
                lambda x, compare=function: compare(GEOMETRY, x, gammas=[0.1]),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=x),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1, x]),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1], rounds=x),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1], adjacency=x),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1], accountant=x),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1], verify=x),
                lambda x, compare=function: compare(GEOMETRY, TARGET, gammas=[0.1], value_bits=x),
            )
        ),
        lambda x: csgm_cli.plan(x, GEOMETRY, TARGET, max_noise_overhead=0.1),
        lambda x: csgm_cli.plan("l2-csgm", x, TARGET, max_noise_overhead=0.1),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, x, max_noise_overhead=0.1),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, TARGET, max_noise_overhead=x),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, TARGET, max_mse_overhead=x),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, TARGET, max_noise_overhead=0.1, rounds=x),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, TARGET, max_noise_overhead=0.1, adjacency=x),
        lambda x: csgm_cli.plan("l2-csgm", GEOMETRY, TARGET, max_noise_overhead=0.1, accountant=x),
        csgm_cli.strategy_named,
        csgm_cli.Strategy,
        lambda x: csgm_cli.Strategy("streaming", x),
        lambda x: csgm_cli.parse_workload(x, 8),
        lambda x: csgm_cli.parse_workload("prefix-sum", x),
        csgm_cli.matrix_workload,
        lambda x: csgm_cli.schedule_workload([1.0, x]),
        lambda x: csgm_cli.schedule_workload([1.0, 2.0], x),
        csgm_cli.factorize,
        lambda x: csgm_cli.factorize(WORKLOAD, x),
        lambda x: csgm_cli.factorize(WORKLOAD, objective=x),
        lambda x: csgm_cli.factorize(WORKLOAD, tolerance=x),
        csgm_cli.compare_strategies,
        lambda x: csgm_cli.compare_strategies(WORKLOAD, x),
        lambda x: csgm_cli.compare_strategies(WORKLOAD, tolerance=x),
        csgm_cli.dense_factors,
        lambda x: csgm_cli.dense_factors(FACTORIZATION, x),
        lambda x: csgm_cli.inspect_arrays(x, ARRAYS),
        lambda x: csgm_cli.inspect_arrays(WORKLOAD, x),
        lambda x: csgm_cli.inspect_arrays(WORKLOAD, {"B": x}),
        lambda x: csgm_cli.inspect_arrays(WORKLOAD, ARRAYS | {"v": x}),
        lambda x: csgm_cli.inspect_arrays(WORKLOAD, ARRAYS, x),
        lambda x: csgm_cli.write_arrays("f.npz", x),
    ],
)
def test_only_csgm_errors(call, stranger):
    """Whatever is given for whatever argument: a usage error, or an answer where it may be left out."""
    with contextlib.suppress(UsageError):
        call(stranger)
        assert stranger is None or stranger is True  # no dim, verify


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: csgm_cli.account_epsilon(MECHANISM, 1.0, 1e-8), "deltas must be a sequence of numbers"),
        (lambda: csgm_cli.compare(GEOMETRY, TARGET, gammas=0.1), "gammas must be a sequence of numbers"),
        (lambda: csgm_cli.calibrate(MECHANISM, (5, 1e-8)), "target must be a Target, got (5, 1e-08)"),
        (lambda: csgm_cli.plan("l2-csgm", 9.0, TARGET), "geometry must be a Geometry, got 9.0"),
        (lambda: Target("5", 1e-8), "epsilon must be a number, got '5'"),
        (lambda: Mechanism("l2-csgm", True), "gamma must be a number, got True"),
        (lambda: Mechanism("l2-csgm", 0.5, rounds=1.5), "rounds must be an integer in [1, 1e+09], got 1.5"),
        (lambda: Mechanism("l2-csgm", 0), "gamma must be a number in [1e-09, 1], got 0"),
        (lambda: Geometry(2.0, dim=10**5000), "dim must be an integer in [1, 1e+12], got inf"),
        (lambda: Target(list(range(99)), 1e-8), "epsilon must be a number, got [0, 1, 2"),
    ],
)
def test_a_wrong_argument_is_named(call, said):
    """The message says which argument, what it must be and what it is, cut where that is long."""
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.message.startswith(said)
    assert len(caught.value.message) < 120


def test_numbers_of_numpy_and_others_are_numbers():
    """Scalars and arrays are welcome; what is kept is a plain int or float, so that results print alike."""
    geometry = Geometry(np.float64(30), np.float32(0.5), np.int64(4000), 1e3)
    assert geometry == Geometry(30.0, 0.5, 4000, 1000)
    assert [type(value) for value in dataclasses.astuple(geometry)] == [float, float, int, int]
    mechanism = Mechanism("l2-csgm", np.float64(0.1), geometry, np.uint8(3))
    assert (type(mechanism.gamma), type(mechanism.rounds)) == (float, int)
    assert type(Target(Fraction(1, 2), 1e-8).epsilon) is float
    resolved, _ = csgm_cli.resolve_geometry(dim=4e6, cohort_size=np.int32(1000))
    assert (type(resolved.norm_ratio), type(resolved.dim)) == (float, int)
    rounds, notice = csgm_cli.rounds_from_participation(1e4, np.int64(1000), 100.0)
    assert (rounds, type(rounds)) == (10, int)
    assert "ceil(100 x 1000 / 10000)" in notice.message
    account = csgm_cli.account_epsilon(mechanism, np.float64(1), np.array([1e-6, 1e-8]))
    assert account == csgm_cli.account_epsilon(mechanism, 1.0, (delta for delta in (1e-6, 1e-8)))
    assert "np." not in repr(account)
    delta = csgm_cli.account_delta(mechanism, np.float32(1), np.int64(2))
    assert "np." not in repr(delta)
    rows = csgm_cli.compare(geometry, Target(1, 1e-6), gammas=np.array([0.1])).rows
    assert "np." not in repr(rows)


def test_geometry_by_hand():
    """k = (Delta_2/Delta_inf)^2, at most dim; Delta_inf in the units of Delta_2."""
    geometry = Geometry(20.0, 5.0)
    assert geometry.k == 400.0
    assert geometry.linf_norm == 0.25
    assert Geometry(10.0 * (1 + 1e-12), dim=100).k == 100.0
    linf = Mechanism("linf-csgm", 0.1, Geometry(4.0, 2.0, dim=64))
    assert linf.coordinates == 64.0
    assert linf.sensitivity == pytest.approx(8 * 0.5, rel=1e-15)
    assert Mechanism("l2-csgm", 0.1, Geometry(4.0, 2.0, dim=64)).coordinates == 16.0


# ---------------------------------------------------------------- errors


def test_the_error_tree():
    """One base, an exit status for each branch, and slug, message and hint on every instance."""
    statuses = {UsageError: 2, NoAnswerError: 3, VerificationError: 3, StorageError: 4, CsgmError: 70}
    for kind, status in statuses.items():
        error = kind("some-slug", "what is wrong", "what to do")
        assert isinstance(error, CsgmError)
        assert (error.slug, error.message, error.hint) == ("some-slug", "what is wrong", "what to do")
        assert str(error) == "what is wrong"
        assert error.exit_status == status
        assert kind("a", "b").hint == ""
    defined = {value for value in vars(errors).values() if isinstance(value, type)}
    assert {kind for kind in defined if issubclass(kind, CsgmError)} == set(statuses)


def test_every_accountant_but_auto_and_tight_is_a_bound():
    """The names line up, so that a resolved accountant can be looked up as the bound it rests on."""
    named = {member.value for member in Accountant} - {"auto", "tight"}
    assert named <= {bound.value for bound in model.Bound}


def test_the_docstring_of_the_package_runs():
    """What the package says of itself is what a script can do."""
    lines = [line.strip() for line in csgm_cli.__doc__.splitlines() if " = " in line]
    assert len(lines) == 7
    names = {name: getattr(csgm_cli, name) for name in csgm_cli.__all__}
    exec("\n".join(lines), names)
    assert names["answer"].guarantee.epsilon <= 5
