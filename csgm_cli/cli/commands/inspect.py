"""``csgm inspect``: everything a file of arrays claims, computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from csgm_cli.cli import console
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.factorizations import TOLERANCE
from csgm_cli.cli.inputs.mechanisms import inputs
from csgm_cli.cli.inputs.workloads import build_workload
from csgm_cli.cli.options.definitions import OUTPUT, option, options
from csgm_cli.cli.options.parameter_types import File
from csgm_cli.cli.options.sources import Rank
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.cli.output.solver_progress import Progress
from csgm_cli.errors import UsageError, one_line
from csgm_cli.model.factorization import Claim, Inspection, Objective
from csgm_cli.storage.files import naming

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.storage.arrays import SavedArrays


def run(request: Request) -> ExitCode:
    """Inspect and report; a claim that does not hold is exit code 1."""
    from csgm_cli.render.document import inspection_document
    from csgm_cli.storage.arrays import read_arrays

    path = request["file"]
    progress = Progress(TOLERANCE)
    with working():
        saved = read_arrays(path)
        with naming(path):
            found = _inspected(request, saved, progress)
        progress.finish()
    settled = {"workload": found.workload.name, "objective": found.objective.value}
    failed = [claim for claim in found.claims if not claim.holds]
    document = inspection_document(inputs(request, **settled), found)
    report(request, document, [_failure(claim) for claim in failed])
    is_workload_guessed = not saved.metadata and request.rank(["workload"]) is not Rank.FLAG
    if is_workload_guessed and "product" in [claim.name for claim in failed]:
        console.note(f"  try: pass --workload if B C is not {found.workload.name}")
    console.elapsed(f"inspected in {progress.seconds:.3g} s")
    return ExitCode.OK if found.holds else ExitCode.CLAIM_FAILED


def _failure(claim: Claim) -> str:
    claimed = "" if claim.claimed is None else f"claimed {claim.claimed!r}, "
    return f"{claim.name}: {claimed}computed {claim.computed!r}"


def _inspected(request: Request, saved: SavedArrays, progress: Progress) -> Inspection:
    from dataclasses import replace

    from csgm_cli.factorization import rows_of, workload_within
    from csgm_cli.factorization_file import inspect_described, inspect_undescribed
    from csgm_cli.storage.factorizations import description_of

    said = description_of(saved)
    if said is None:
        workload = build_workload(request, rows_of(saved.arrays))
        if request.rank(["workload"]) is not Rank.FLAG:
            workload = workload_within(saved.arrays) or workload
        return inspect_undescribed(saved, workload, Objective(request["objective"]), progress)
    for name in ("workload", "objective"):
        if request.rank([name]) is Rank.FLAG:
            raise UsageError("conflicting-options", f"it names its own {name}", f"leave out --{name}")
    if request["workload"] and not request["workload"].lower().endswith(".npy"):
        build_workload(request, rows_of(saved.arrays))  # from a weaker source: set aside, but no nonsense
    found = inspect_described(saved, said, progress)
    recorded = saved.recorded_hash and one_line(saved.recorded_hash, 80)
    sha256 = Claim("sha256", recorded, saved.actual_hash, recorded == saved.actual_hash)
    return replace(found, claims=(*found.claims, sha256))


command = Command(
    "inspect",
    run,
    help="""Recompute every claim of a factorization file.

    Reads what `csgm factorize` writes, and arrays B and C, or one of them, made elsewhere (.npz, .npy
    or a folder of .npy). Exits with 1 if a claim does not hold, with 2 if the file is broken.""",
    options=[
        click.Argument(["file"], type=File()),
        option("workload", text="For arrays made elsewhere: prefix-sum, momentum=0.9 or a .npy file."),
        option(
            "objective",
            text="For arrays made elsewhere: squared error to bound, mean over the rows or maximum.",
        ),
        *options(*OUTPUT),
    ],
    examples=("csgm inspect prefix32.npz", "csgm inspect C.npy --objective max --format json"),
)
