"""The workload that ``--workload`` and ``--T`` ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.cli.options.parameter_types import Number
from csgm_cli.cli.options.sources import Rank
from csgm_cli.errors import UsageError
from csgm_cli.storage.files import naming
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.factorization import Workload

#: The hint where a factorization does not fit into memory.
FEWER_ROWS = "use a smaller T and more epochs"


def build_workload(request: Request, rows: int | None = None) -> Workload:
    """Return the workload asked for, with ``--T`` rows, or with the ``rows`` that an inspected file has.

    A file says itself how many; ``UsageError`` (slug ``conflicting-options``) where ``--T`` says otherwise.
    """
    from csgm_cli.factorization import parse_workload

    spec = request["workload"]
    asked = request["T"] if rows is None else rows
    if spec.lower().endswith(".npy"):
        workload = _from_file(request, spec)
        if asked is not None and asked != workload.T and (rows or request.rank(["T"]) is Rank.FLAG):
            whose = "--T" if rows is None else "T of the arrays"
            message = f"{whose} is {asked}, but {spec!r} has {workload.T} rows"
            raise UsageError("conflicting-options", message)
        return workload
    word, equals, number = spec.partition("=")
    if word == "momentum" and equals:
        spec = f"momentum={_momentum(request, number)!r}"
    if asked is None:
        raise UsageError(
            "missing-option", "--T is required", "for example --T 32; a .npy workload has its own"
        )
    return parse_workload(spec, asked)


def _from_file(request: Request, spec: str) -> Workload:
    """``A.npy``, ``rates.npy`` or ``momentum=0.9,rates.npy``; errors name the file."""
    from csgm_cli.factorization import matrix_workload, schedule_workload
    from csgm_cli.storage.arrays import read_matrix, read_vector

    first, comma, path = spec.partition(",")
    if comma and first.startswith("momentum="):
        momentum = _momentum(request, first.removeprefix("momentum="))
        rates = read_vector(path)
        with naming(path):
            return schedule_workload(rates, momentum)
    try:
        matrix = read_matrix(spec)
    except UsageError as not_square:
        if not_square.slug != "shape-mismatch":
            raise
        try:
            rates = read_vector(spec)
        except UsageError as error:
            raise (not_square if error.slug == "shape-mismatch" else error) from None
        with naming(spec):
            return schedule_workload(rates)
    with naming(spec):
        check_memory(8 * matrix.size, f"a workload with {len(matrix)} rows needs")  # of its own, in float64
        return matrix_workload(matrix)


def _momentum(request: Request, number: str) -> float:
    return Number("momentum").read(number, f"the momentum of {request.label(['workload'])}")
