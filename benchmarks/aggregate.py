"""Time and memory of a server's round: ``python -m benchmarks.aggregate [--record]``.

Each row is measured in its own process with one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.measure import ROOT, Table, case, missed, own_peak, ran_case, replace_part, show

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan
    from csgm_cli.mechanism.server import Server
    from csgm_cli.model.mechanism import FactorNorms

_RECORD = ROOT / "docs" / "run.md"
_BEGIN, _END = "<!-- server figures -->\n", "<!-- end of server figures -->\n"
_DIM, _GAMMA, _COHORT, _T = 2**20, 0.01, 1000, 32
#: MB of a whole process that aggregates a cohort.
_MEMORY_LIMIT = 200.0


def main() -> None:
    if ran_case({"round": lambda noise: _round(_SERVERS[noise]())}):
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aggregate", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the table to docs/run.md")
    options = parser.parse_args()
    found = str(_table())
    print(found)
    if options.record:
        replace_part(_RECORD, _BEGIN, _END, found)


# ---------------------------------------------------------------- cases, each in its own process


def _independent() -> Server:
    from csgm_cli.mechanism.server import Server

    return Server(_plan(rounds=1))


def _correlated() -> Server:
    from csgm_cli import factor_norms, factorize
    from csgm_cli.mechanism.server import Server

    factors = factorize(_T, "streaming:4")
    return Server(_plan(factorization=factor_norms(factors)), factors=factors)


def _plan(rounds: int | None = None, factorization: FactorNorms | None = None) -> Plan:
    from csgm_cli import Mechanism, resolve_geometry
    from csgm_cli.mechanism.plan import Plan

    geometry, _ = resolve_geometry(dim=_DIM, cohort_size=_COHORT)
    mechanism = Mechanism("l2-csgm", _GAMMA, geometry, rounds, factorization=factorization)
    return Plan(mechanism, 1.0)


_SERVERS: dict[str, Callable[[], Server]] = {"independent": _independent, "correlated": _correlated}


def _round(server: Server) -> dict[str, float]:
    """A whole cohort, whose payloads come one by one; their making is not timed."""
    import numpy as np

    from csgm_cli.mechanism.masks import mask_positions
    from csgm_cli.mechanism.wire import pack

    plan = server.plan
    values = np.full(plan.length, plan.linf_norm / 10)
    cohort = server.draw(range(_COHORT))
    adding = 0.0
    for client in cohort.clients:
        seed = cohort.seed_of(client)
        payload = pack(plan, values[mask_positions(seed, plan.gamma, plan.length)], seed)
        begun = time.process_time()
        cohort.add(client, payload)
        adding += time.process_time() - begun
    begun = time.process_time()
    cohort.release()
    released = time.process_time() - begun
    return {"add": 1e3 * adding / _COHORT, "release": 1e3 * released, "peak": own_peak() * 2**20 / 1e6}


def _table() -> Table:
    rows = []
    for name, noise in (("independent", "independent"), ("correlated", f"streaming:4, T = {_T}")):
        found = case("benchmarks.aggregate", "round", name)
        peak = f"{show(found['peak'])}{missed(found['peak'], _MEMORY_LIMIT)}"
        rows.append([noise, show(found["add"]), show(found["release"]), peak, f"{_MEMORY_LIMIT:g}"])
    return Table(
        "Time and memory of a round",
        f"{_COHORT:,} clients, {_DIM:,} coordinates, gamma {_GAMMA:g}: CPU time of adding a payload, its mask"
        " included, and of the release, and the largest memory of the whole process.",
        ["noise", "add, ms", "release, ms", "peak MB", "limit"],
        rows,
    )


if __name__ == "__main__":
    main()
