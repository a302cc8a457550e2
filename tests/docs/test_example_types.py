"""The Python examples, and every word that a public function takes as text, under ``mypy --strict``."""

import subprocess
import sys
import typing

import pytest

from csgm_cli import Accountant, Adjacency, MechanismName, Objective, StrategyName
from csgm_cli.model import factorization, mechanism, mechanism_table
from tests.docs.pages import PAGES, ROOT, blocks

#: What Python takes as text: members, their words, and a call with each word in every place.
WORDS = [
    (
        MechanismName,
        mechanism_table.MechanismLike,
        ["csgm.Mechanism({})", "csgm.plan({}, geometry, target, gamma=0.1)"],
    ),
    (
        Adjacency,
        mechanism.AdjacencyLike,
        [
            "csgm.Mechanism('gaussian', adjacency={})",
            "csgm.Population('all', target, {})",
            "csgm.compare(geometry, target, gammas=[1.0], adjacency={})",
            "csgm.compare_at_equal_mse(geometry, target, gammas=[1.0], adjacency={})",
            "csgm.plan('l2-csgm', geometry, target, gamma=0.1, adjacency={})",
        ],
    ),
    (
        Accountant,
        mechanism.AccountantLike,
        [
            "csgm.calibrate(gaussian, target, {})",
            "csgm.account_epsilon(gaussian, 1.0, [1e-6], {})",
            "csgm.account_delta(gaussian, 1.0, 1.0, {})",
            "csgm.compare(geometry, target, gammas=[1.0], accountant={})",
            "csgm.compare_at_equal_mse(geometry, target, gammas=[1.0], accountant={})",
            "csgm.plan('l2-csgm', geometry, target, gamma=0.1, accountant={})",
            "csgm.check_population(population, {})",
        ],
    ),
    (
        Objective,
        factorization.ObjectiveLike,
        [
            "csgm.factorize(8, 'tree', {})",
            "csgm.compare_strategies(workload, {})",
            "csgm.inspect_arrays(8, arrays, {})",
            "csgm.norms_of_arrays(8, arrays, {})",
        ],
    ),
    (StrategyName, factorization.StrategyNameLike, ["csgm.Strategy({}, None)"]),
    (
        factorization.NoiseOn,
        factorization.NoiseOnLike,
        ["csgm.NoiseStream(csgm.factorize(8), sigma=1.0, dim=2, on={})"],
    ),
]
HEADER = """from typing import assert_type

import numpy as np

import csgm_cli as csgm

geometry, target = csgm.Geometry(2.0), csgm.Target(1.0, 1e-6)
gaussian = csgm.Mechanism("gaussian", rounds=1)
population = csgm.Population("all", target)
workload = csgm.parse_workload("momentum=0.9", 8)
arrays = {"B": np.eye(8), "C": np.eye(8)}
notices: tuple[csgm.Notice, ...] = csgm.calibrate(gaussian, target).notices
assert_type(gaussian.name, csgm.MechanismName)
assert_type(population.adjacency, csgm.Adjacency)
assert_type(csgm.calibrate(gaussian, target, "exact").accountant, csgm.Accountant)
assert_type(csgm.factorize(workload, "streaming:4").strategy.name, csgm.StrategyName)
csgm.factorize(8, csgm.Strategy("streaming", 4), csgm.Objective.MAX)
"""


def literals(alias):
    """The words of the ``Literal`` in a union."""
    return [word for part in typing.get_args(alias) for word in typing.get_args(part)]


@pytest.mark.parametrize(("members", "alias", "calls"), WORDS)
def test_the_words_of_a_type_are_those_of_its_members(members, alias, calls):
    """A new member without its word could not be written as text."""
    assert literals(alias) == [member.value for member in members], calls


def test_examples_and_words_have_the_right_types(tmp_path):
    """No error in the pages' examples and in calls with each word, and one in a call with any other word."""
    for page in PAGES:
        for block in blocks(page, "python"):
            (tmp_path / f"{page.stem}_{block.line}.py").write_text(block.text, encoding="utf-8")
    calls = [(call, literals(alias)) for _, alias, calls in WORDS for call in calls]
    right = [call.format(repr(word)) for call, words in calls for word in words]
    # mypy --strict reports an ignored error that is none.
    wrong = [f"{call.format(repr('other'))}  # type: ignore[arg-type]" for call, _ in calls]
    (tmp_path / "words.py").write_text(HEADER + "\n".join([*right, *wrong, ""]), encoding="utf-8")
    files = sorted(map(str, tmp_path.glob("*.py")))
    assert len(files) > 10
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
