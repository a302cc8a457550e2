"""Seeded settings against the answers of an earlier accountant: no looser, and not below a proven bound."""

import pytest

from csgm_cli.accounting.accountants import spent_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.ranges import Range

#: How much looser an answer may be where the profile methods are promised, and how far below a lower bound.
LOOSER, ROUNDING = 1.005, 1e-8
#: Where they are promised.
PROMISED = {"gamma": Range(1e-6, 1.0), "epsilon": Range(1e-3, 100.0), "delta": Range(1e-30, 1.0)}
#: Rows that are looser than that, by these factors: (kind, number within its kind).
KNOWN_LOOSE = {
    ("mixed", 20): 1.04,  # the least exponent of all releases is taken
    ("mixed", 29): 1.02,
    ("mixed", 31): 1.013,
    ("mixed", 33): 1.008,
}
#: Every so many of the rows of a kind is tried, so that all take a minute: the triangle takes seconds.
EVERY = {"practical": 2, "practical-dim": 1, "mixed": 1, "practical-replace": 8, "extreme": 1}
CHUNKS = 22


def chosen(reference):
    """(number within its kind, row) of every row that is tried."""
    seen = dict.fromkeys(EVERY, -1)
    for row in reference["one_sided"]["rows"]:
        seen[row["kind"]] += 1
        number = seen[row["kind"]]
        slow = row["kind"] == "extreme" and row["adjacency"] == "replace-one" and number % 20 != 17
        if number % EVERY[row["kind"]] == 0 and not slow:
            yield number, row


def mechanism(row, adjacency):
    geometry, _ = resolve_geometry(norm_ratio=row["norm_ratio"], dim=row["dim"])
    return Mechanism(row["mechanism"], row["gamma"], geometry, row["rounds"], adjacency)


def answers(row):
    """What is answered now, and what was."""
    if row["kind"] == "mixed":
        releases = [(mechanism(r, row["adjacency"]), r["noise_multiplier"]) for r in row["releases"]]
        now = spent_epsilon(releases, Accountant.AUTO, row["delta"], with_lower=False)
        return now.value, row["epsilon"]
    found = calibrate(mechanism(row, row["adjacency"]), Target(row["epsilon"], row["delta"]))
    assert (found.guarantee.lower_bound or 0.0) <= row["noise_multiplier"] * (1 + ROUNDING), row
    return found.noise_multiplier, row["noise_multiplier"]


def is_promised(row):
    return all(row.get(name) is None or row[name] in allowed for name, allowed in PROMISED.items())


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_answers_are_no_looser_and_above_lower_bounds(reference, chunk):
    """New <= old * 1.005 where it is promised; new >= the earlier lower bound (1 - 1e-8) everywhere."""
    for number, row in list(chosen(reference))[chunk::CHUNKS]:
        new, old = answers(row)
        assert new >= (row["lower_bound"] or 0.0) * (1 - ROUNDING), row
        if is_promised(row):
            assert new <= old * KNOWN_LOOSE.get((row["kind"], number), LOOSER), row
