"""What ``csgm simulate`` runs: the plan of a saved result, its factors, and the vectors of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from csgm_cli.errors import UsageError
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from csgm_cli.cli.options.request import Request
    from csgm_cli.mechanism.added_noise import Factors
    from csgm_cli.mechanism.plan import Plan, WireFormat
    from csgm_cli.model.result import Notice

#: Numbers that a simulation holds at once (measured): of a stream for each row and coordinate, and of one
#: client for each coordinate, padding included.
_NUMBERS_PER_ROW, _NUMBERS_PER_COORDINATE = 6, 12


def build_plan(request: Request) -> tuple[Plan, tuple[Notice, ...]]:
    """Return the plan of ``--from``, with the rotation and the wire format asked for, and its warnings."""
    from csgm_cli.mechanism.plan import Rotation, read_plan

    return read_plan(request["from"], Rotation(request["rotation"]), wire_format(request))


def wire_format(request: Request) -> WireFormat:
    """Return the format of ``--wire``."""
    from csgm_cli.mechanism.plan import WireFormat

    name = request["wire"]
    return WireFormat(int(name.lstrip("floatin")), floating=name.startswith("float"))


def load_factors(request: Request, plan: Plan) -> Factors | None:
    """Return the factors that the result of ``--from`` was calibrated with."""
    from csgm_cli.cli.inputs.factorizations import found_again
    from csgm_cli.storage.files import read_text
    from csgm_cli.storage.saved import load_saved

    if plan.mechanism.factorization is None:
        return None
    saved = load_saved(read_text(request["from"]))
    return factors_of(found_again(saved.inputs["factorization"], request["from"]), plan)


def factors_of(spec: str, plan: Plan) -> Factors:
    """Return the factors that ``plan`` was calibrated with, solved again or read from the file ``spec``."""
    planned = plan.mechanism.factorization
    assert planned is not None  # the callers saw to it
    if planned.sha256 is not None:
        return _array_b(spec, planned.sha256)
    from csgm_cli.factorization import factorize
    from csgm_cli.model.factorization import strategy_named

    return factorize(planned.T, strategy_named(planned.strategy or "optimal"))


def _array_b(path: str, sha256: str) -> NDArray[np.floating]:
    from csgm_cli.storage.arrays import check_hash, read_arrays

    saved = read_arrays(path)
    check_hash(saved)
    if saved.actual_hash != sha256:
        raise UsageError("other-factorization", f"{path!r} has changed since the calibration")
    if "B" not in saved.arrays:
        raise UsageError(
            "incomplete-arrays", f"{path!r} holds no B", "write it with csgm factorize --arrays B,C"
        )
    return saved.arrays["B"]


def load_vectors(request: Request, plan: Plan) -> NDArray[np.floating] | None:
    """Return the vectors of ``--vectors``, one client a row; None where random ones are asked for.

    ``UsageError`` (slug ``too-large``) where those of all clients, read or made, do not fit into memory.
    """
    _check_fits(plan, copies=1 if request["vectors"] is None else 2)
    if request["vectors"] is None:
        return None
    from csgm_cli.storage.arrays import read_matrix

    return read_matrix(request["vectors"])


def _check_fits(plan: Plan, copies: int) -> None:
    clients, factors = round(plan.cohort_size / plan.mechanism.sampling_rate), plan.mechanism.factorization
    rows = 0 if factors is None else factors.T
    numbers = plan.dim * (copies * clients + _NUMBERS_PER_ROW * rows) + _NUMBERS_PER_COORDINATE * plan.length
    of_rows = f", {rows:,} rows of each," if rows else ""
    check_memory(
        8 * numbers,
        f"simulating {clients:,} clients with {plan.dim:,} coordinates{of_rows} needs",
        "simulate a calibration with a smaller dim or cohort size: the formulas are the same",
    )


def plan_inputs(plan: Plan) -> dict[str, Any]:
    """Return what a simulation has run, as ``inputs`` of its result."""
    mechanism, geometry = plan.mechanism, plan.mechanism.geometry
    factors = mechanism.factorization
    return {
        "mechanism": mechanism.name,
        "gamma": plan.gamma,
        "norm_ratio": geometry.norm_ratio if mechanism.kind.clips_linf else None,
        "l2_norm": geometry.l2_norm,
        "dim": plan.dim,
        "cohort_size": plan.cohort_size,
        "sampling_rate": mechanism.sampling_rate,
        "sigma": plan.sigma,
        "T": factors and factors.T,
        "strategy": factors and factors.strategy,
    }
