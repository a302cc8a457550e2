"""The table of mechanisms: each row worked out by hand, and nobody else branches on a name."""

import ast
import math
from pathlib import Path

import pytest

import csgm_cli
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import MECHANISMS, WITH_GAMMA, Geometry, MechanismName, has_gamma

PACKAGE = Path(csgm_cli.__file__).parent


def test_every_mechanism_has_a_row():
    """In the order of the names, which the command line lists."""
    assert list(MECHANISMS) == list(MechanismName)
    assert WITH_GAMMA == ("l2-csgm", "linf-csgm")
    assert [name for name in (*MechanismName, None, "other") if not has_gamma(name)] == ["gaussian"]


@pytest.mark.parametrize(
    ("name", "coordinates", "sensitivity"),
    # Delta_2 = 2, Delta_inf = 1/2, so that k = 16; 64 coordinates at Delta_inf have L2 norm 4.
    [("l2-csgm", 16.0, 2.0), ("linf-csgm", 64.0, 4.0), ("gaussian", 16.0, 2.0)],
)
def test_rows_by_hand(name, coordinates, sensitivity):
    """How many coordinates are charged, and the L2 sensitivity, which a column of C multiplies."""
    kind, geometry = MECHANISMS[MechanismName(name)], Geometry(4.0, 2.0, dim=64)
    assert kind.coordinates(geometry) == coordinates
    assert kind.sensitivity(geometry, 1.0) == sensitivity
    assert kind.sensitivity(geometry, 1.5) == 1.5 * sensitivity


@pytest.mark.parametrize("name", MechanismName)
def test_a_row_agrees_with_itself(name):
    """The most that clipped vectors allow: no L2 clip without dim; k or all coordinates reach the L2 norm."""
    kind, geometry = MECHANISMS[name], Geometry(8.0, 3.0, dim=64)
    assert set(kind.clip_norms) <= {"l2_norm", "linf_norm"}
    assert kind.needs_dim == (not kind.clips_l2)
    assert kind.has_gamma == kind.clips_linf
    reached = math.sqrt(kind.coordinates(geometry)) * geometry.linf_norm
    assert kind.sensitivity(geometry, 1.0) == pytest.approx(reached, rel=1e-15)


@pytest.mark.parametrize("name", MechanismName)
def test_what_a_mechanism_needs_is_refused_without_it(name):
    """A missing dim, and a gamma where every coordinate is sent."""
    kind = MECHANISMS[name]
    if kind.needs_dim:
        with pytest.raises(UsageError, match=f"{name} needs dim"):
            Mechanism(name, 0.5)
    if not kind.has_gamma:
        with pytest.raises(UsageError, match="gamma must be 1"):
            Mechanism(name, 0.5)


def branches(source):
    """The comparisons in ``source`` with the name of a mechanism."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            for part in [n for side in (node.left, *node.comparators) for n in ast.walk(side)]:
                if isinstance(part, ast.Constant) and part.value in set(MechanismName):
                    yield ast.unparse(node)
                if isinstance(part, ast.Attribute) and ast.unparse(part.value).endswith("MechanismName"):
                    yield ast.unparse(node)


def test_nothing_else_branches_on_a_name():
    """A new mechanism is a new row; the check sees both spellings of a branch."""
    assert list(branches("if m.name is MechanismName.GAUSSIAN or word == 'linf-csgm': pass"))
    found = {
        path.relative_to(PACKAGE).as_posix(): list(branches(path.read_text(encoding="utf-8")))
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: comparisons for path, comparisons in found.items() if comparisons} == {}
