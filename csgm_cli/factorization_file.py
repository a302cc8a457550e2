"""What a file of a factorization is worth: read, its hash and all its claims checked, and measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.factorization import (
    inspect_arrays,
    inspecting_bytes,
    norms_of_arrays,
    over_epochs,
    parse_workload,
    repeated_bytes_of_arrays,
    rows_of,
    workload_of,
    workload_within,
)
from csgm_cli.model.factorization import Claim, Objective, Workload
from csgm_cli.model.participation import overridden
from csgm_cli.storage.arrays import check_hash, read_arrays
from csgm_cli.storage.factorizations import description_of
from csgm_cli.storage.files import naming
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from pathlib import Path

    from csgm_cli.factorization.solve.solver import Progress
    from csgm_cli.model.factorization import Inspection
    from csgm_cli.model.mechanism import FactorNorms
    from csgm_cli.storage.arrays import SavedArrays
    from csgm_cli.storage.factorizations import Description


def norms_of_file(
    path: str | Path, participations: int | None = None, min_separation: int | None = None
) -> FactorNorms:
    """The norms of the factorization in a file, as ``--factorization FILE`` takes it, for `Mechanism`.

    ``participations`` and ``min_separation``: of one client in a run without a restart, instead of what the
    file says (`overridden`).

    Its hash and all that it claims of its workload, its strategy and its numbers are checked. Arrays made
    elsewhere are factors of the ``A`` or ``learning_rates`` beside them, else of prefix sums.

    ``UsageError``: no factorization, an edited one (slug ``hash-mismatch``), a claim that does not hold
    (``claim-failed``). ``StorageError``: it cannot be read.
    """
    return read_factorization(path, participations, min_separation)[0]


def read_factorization(
    path: str | Path,
    participations: int | None = None,
    min_separation: int | None = None,
    progress: Progress | None = None,
) -> tuple[FactorNorms, Workload]:
    """Return the norms of `norms_of_file`, and the workload."""
    saved = read_arrays(path)
    with naming(path):
        found = _checked(saved, progress)
        for claim in found.claims:
            if not claim.holds:
                raise _broken(claim, found.workload.name, made_elsewhere=not saved.metadata)
        asked = overridden(found.participation, found.T, participations, min_separation)
        if asked is not None:
            needed = repeated_bytes_of_arrays(found.workload, saved.arrays, asked)
            check_memory(needed, f"the sensitivity of several participations with T = {found.T} needs")
        norms = norms_of_arrays(found.workload, saved.arrays, found.objective, found.strategy, asked)
    return replace(norms, sha256=saved.actual_hash), found.workload


def _checked(saved: SavedArrays, progress: Progress | None) -> Inspection:
    """What a file holds, if its hash is right, and what came of its claims."""
    said = description_of(saved)
    check_hash(saved)
    if said is None:
        workload = workload_within(saved.arrays) or parse_workload("prefix-sum", rows_of(saved.arrays))
        return inspect_undescribed(saved, workload, Objective.MEAN, progress)
    return inspect_described(saved, said, progress)


def inspect_undescribed(
    saved: SavedArrays, workload: Workload, objective: Objective, progress: Progress | None
) -> Inspection:
    """Return what came of arrays made elsewhere as factors of ``workload``; errors as in `inspect_arrays`."""
    _check_room(workload, saved)
    return inspect_arrays(workload, saved.arrays, objective, progress=progress)


def inspect_described(saved: SavedArrays, said: Description, progress: Progress | None) -> Inspection:
    """Return what came of the claims of a file that says what it holds; errors as in `inspect_arrays`."""
    workload = over_epochs(workload_of(said.workload, saved.arrays), said.epochs)
    _check_room(workload, saved)
    return inspect_arrays(
        workload,
        saved.arrays,
        said.objective,
        said.strategy,
        said.numbers,
        participation=said.participation,
        bands=said.bands,
        progress=progress,
    )


def _check_room(workload: Workload, saved: SavedArrays) -> None:
    """Raise ``UsageError`` (slug ``too-large``): a small file may stand for products beyond all memory."""
    check_memory(inspecting_bytes(workload, saved.arrays), f"measuring arrays of T = {workload.T} needs")


def _broken(claim: Claim, workload: str, *, made_elsewhere: bool) -> UsageError:
    said = f"its {claim.name} is {claim.computed!r}, not {claim.claimed!r} as it claims"
    if claim.name == "product":
        said = f"its B C is not {workload}: the largest entry of the difference is {claim.computed!r}"
    if claim.name == "strategy":
        said = f"its strategy is {claim.computed}, though it claims {claim.claimed}"
    hint = "csgm inspect shows all that it claims"
    if made_elsewhere and workload == "prefix-sum":
        hint = "a file that does not say its workload counts as a factorization of prefix-sum"
    return UsageError("claim-failed", said, hint)
