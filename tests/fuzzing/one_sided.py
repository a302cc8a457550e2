"""Seeded settings with the answers of an earlier accountant: ``tests/reference/one_sided.json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from csgm_cli.accounting.accountants import spent_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.ranges import Range

Row = dict[str, Any]

#: How much looser an answer may be where the profile methods are promised, and how far below a lower bound.
LOOSER, ROUNDING = 1.005, 1e-8
#: Where they are promised.
PROMISED = {"gamma": Range(1e-6, 1.0), "epsilon": Range(1e-3, 100.0), "delta": Range(1e-30, 1.0)}
#: Rows that are looser than that, by at most these factors: (kind, number within its kind).
KNOWN_LOOSE = {
    ("mixed", 20): 1.04,  # the least exponent of all releases is taken
    ("mixed", 29): 1.02,
}


def rows() -> Iterator[tuple[int, Row]]:
    """(number within its kind, row) of every row."""
    path = Path(__file__).parents[1] / "reference" / "one_sided.json"
    seen: Counter[str] = Counter()
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        yield seen[row["kind"]], row
        seen[row["kind"]] += 1


def check(number: int, row: Row) -> None:
    """Demand new <= old * 1.005 where it is promised, and new >= the earlier lower bound everywhere."""
    new, old = _answers(row)
    assert new >= (row["lower_bound"] or 0.0) * (1 - ROUNDING), row
    if all(row.get(name) is None or row[name] in allowed for name, allowed in PROMISED.items()):
        known = KNOWN_LOOSE.get((row["kind"], number))
        assert new <= old * (known or LOOSER), row
        assert known is None or new > old * LOOSER, f"no longer loose: {row}"


def _answers(row: Row) -> tuple[float, float]:
    """What is answered now, and what was."""
    if row["kind"] == "mixed":
        releases = [(_mechanism(r, row["adjacency"]), r["noise_multiplier"]) for r in row["releases"]]
        now = spent_epsilon(releases, Accountant.AUTO, row["delta"], needs_lower=False)
        return now.value, row["epsilon"]
    found = calibrate(_mechanism(row, row["adjacency"]), Target(row["epsilon"], row["delta"]))
    assert (found.guarantee.lower_bound or 0.0) <= row["noise_multiplier"] * (1 + ROUNDING), row
    return found.noise_multiplier, row["noise_multiplier"]


def _mechanism(row: Row, adjacency: str) -> Mechanism:
    geometry, _ = resolve_geometry(norm_ratio=row["norm_ratio"], dim=row["dim"])
    return Mechanism(row["mechanism"], row["gamma"], geometry, row["rounds"], Adjacency(adjacency))
