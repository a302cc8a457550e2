"""``csgm factorize``: correlated noise with the least error, and a certificate for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from csgm_cli.cli import console, interrupts
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import inputs
from csgm_cli.cli.inputs.workloads import FEWER_ROWS, build_workload
from csgm_cli.cli.options.definitions import OUTPUT, option, options
from csgm_cli.cli.options.request import Exclusive, Request
from csgm_cli.cli.options.sources import Rank
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.plot import check_plot, report_with_picture
from csgm_cli.cli.output.solver_progress import Progress
from csgm_cli.errors import UsageError
from csgm_cli.model.factorization import DENSE, Objective, Strategy, StrategyName, strategy_named
from csgm_cli.model.result import Notice
from csgm_cli.rounding import round_up
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Dual, Factorization, Workload
    from csgm_cli.model.participation import Participation
    from csgm_cli.render.plots.figure import Figure

_ARRAYS = ("arrays", "dtype", "force")
_SOLVED = (StrategyName.OPTIMAL, StrategyName.STREAMING)
_EPOCHS = (
    "Number of epochs of T steps, each with fresh noise: minimise the mean error over all of them, including"
    " the noise that earlier epochs leave in later ones. Default: 1."
)
_PARTICIPATIONS = (
    "Largest number of participations of one client within the T steps. Default: T / min-separation, rounded"
    " up."
)
_SEPARATION = (
    "Smallest number of steps from one participation of a client to the next; 1 allows adjacent steps."
)
#: Rows of C in a picture, at equal distances.
_ROWS = 4


def run(request: Request) -> ExitCode:
    """Solve, write the arrays, and report."""
    check_plot(request if request["compare"] else request.without(["output"]))
    from csgm_cli.factorization import over_epochs

    workload = over_epochs(build_workload(request), request["epochs"] or 1)
    request = _with_strategy(request)
    try:
        return _factorize(request, workload)
    except MemoryError:
        what = "the strategies" if request["compare"] else request["strategy"]
        raise UsageError("too-large", f"{what} at T = {workload.T} do not fit into memory") from None


def _factorize(request: Request, workload: Workload) -> ExitCode:
    participation = _participation(request, workload)
    bands = _bands(request, workload, participation)
    if request["tolerance"] is None:
        tolerance = _tolerance(request, workload, bands)
        request = Request({**request.values, "tolerance": tolerance}, request.sources)
    settled = {"T": workload.T, "workload": workload.name, "epochs": workload.epochs, "bands": bands}
    if participation is not None:
        settled |= {
            "participations": participation.participations,
            "min_separation": participation.min_separation,
        }
    if request["compare"]:
        return _compare(request, workload, settled, participation, bands)
    from csgm_cli.factorization import factorize, solving_bytes
    from csgm_cli.render.document import factorization_document

    strategy, objective = strategy_named(request["strategy"]), Objective(request["objective"])
    groups = _groups(request, workload, strategy, bands)
    check_memory(
        solving_bytes(workload, strategy, bands), f"{strategy} at T = {workload.T} needs", FEWER_ROWS
    )
    if request["plot"] is not None:
        _check_rows(workload, strategy)
    start, progress = _resumed(request, workload, strategy, objective)
    with working():
        found = factorize(
            workload,
            strategy,
            objective,
            request["tolerance"],
            participation=participation,
            bands=bands,
            start=start,
            progress=progress,
        )
        progress.finish()
        steps = f", {found.iterations} steps" if found.iterations else ""
        took = progress.seconds
        if groups:
            found = _write(request, found, groups)
    settled |= {"arrays": list(groups) or None, "dtype": request["dtype"] if groups else None}
    document = factorization_document(inputs(request, **settled), _with_equal_privacy(found))
    figure = _rows_of(found) if request["plot"] is not None else None
    report_with_picture(request.without(["output"]), document, figure)
    if groups and request["output"].lower().endswith(".csv"):
        console.note(f"wrote the folder {request['output']}, with one .csv file per array and metadata.json")
    console.elapsed(f"solved in {took:.3g} s{steps}")
    return ExitCode.OK


def _with_strategy(request: Request) -> Request:
    """Return the request with strategy ``banded`` if a separation is given but no strategy."""
    if request["min_separation"] is None or request.rank(["strategy"]) is not Rank.DEFAULT:
        return request
    return Request({**request.values, "strategy": StrategyName.BANDED.value}, request.sources)


def _participation(request: Request, workload: Workload) -> Participation | None:
    """Return how often one client takes part; by default as often as fits into T steps."""
    from csgm_cli.model.participation import Participation

    separation, count = request["min_separation"], request["participations"]
    if separation is None:
        if given := list(request.given(("participations", "bands"))):
            raise UsageError(
                "missing-option",
                f"{request.label(given)} needs --min-separation",
                "the smallest number of steps from one participation of a client to the next",
            )
        return None
    found = Participation(-(-workload.T // separation) if count is None else count, separation)
    found.check(workload.T, request["bands"])
    return found


def _bands(request: Request, workload: Workload, participation: Participation | None) -> int | None:
    if participation is None or request["strategy"] == StrategyName.FIXED_ORDER:
        return None
    if not strategy_named(request["strategy"]).name.is_banded:  # these strategies refuse bands
        bands: int | None = request["bands"]
        return bands
    return min(workload.T, request["bands"] or participation.min_separation)


def _tolerance(request: Request, workload: Workload, bands: int | None) -> float:
    from csgm_cli.factorization import FIXED_ORDER_TOLERANCE, band_tolerance, default_tolerance

    if request["strategy"] == StrategyName.FIXED_ORDER:
        return FIXED_ORDER_TOLERANCE
    if bands is None:
        return default_tolerance(workload)
    return band_tolerance(workload.T, bands, Objective(request["objective"]))


def _compare(
    request: Request,
    workload: Workload,
    settled: dict[str, object],
    participation: Participation | None,
    bands: int | None,
) -> ExitCode:
    from csgm_cli.factorization import compare_participations, compare_strategies, compared_bytes
    from csgm_cli.render.document import strategies_document

    if participation is not None and request["plot"] is not None:
        raise UsageError("conflicting-options", "--plot cannot show restarts and bands")
    needed = compared_bytes(workload, bands)
    check_memory(needed, f"the strategies at T = {workload.T} need", "one --strategy alone may need less")
    progress = Progress(request["tolerance"])
    with working():
        objective, tolerance = Objective(request["objective"]), request["tolerance"]
        if participation is None:
            rows, notices = compare_strategies(workload, objective, tolerance, progress=progress)
        else:
            rows, notices = compare_participations(
                workload, participation, bands, objective, tolerance, progress=progress
            )
        progress.finish()
        figure = _by_size(request, workload) if request["plot"] is not None else None
    settled |= {"strategy": None, "arrays": None, "dtype": None}
    document = strategies_document(inputs(request, **settled), rows, notices)
    report_with_picture(request, document, figure)
    console.elapsed(f"compared in {progress.seconds:.3g} s")
    return ExitCode.OK


def _by_size(request: Request, workload: Workload) -> Figure:
    from csgm_cli.factorization import strategies_by_size
    from csgm_cli.render.plots.factorization import strategies_figure

    return strategies_figure(
        strategies_by_size(workload, Objective(request["objective"]), request["tolerance"])
    )


def _with_equal_privacy(found: Factorization) -> Factorization:
    """Add a notice of the error at the privacy of as many releases as there are participations."""
    from csgm_cli.factorization import equally_private

    if found.strategy.name is not StrategyName.BLT or (found.participations or 1) == 1:
        return found
    error = round_up(equally_private(found).squared_error)
    message = (
        f"the errors above are for one participation; at the privacy of {found.participations} releases of"
        f" sensitivity 1 the {found.objective} squared error is {error}, for vectors that are sent whole"
    )
    return replace(found, notices=(*found.notices, Notice("sent-whole", message)))


def _check_rows(workload: Workload, strategy: Strategy) -> None:
    """Raise ``UsageError`` where rows of C would take more memory than there is, or are none."""
    from csgm_cli.factorization import rows_take_all

    if rows_take_all(workload, strategy):
        _check_memory(workload, strategy)


def _rows_of(found: Factorization) -> Figure:
    from csgm_cli.factorization import factor_rows
    from csgm_cli.render.plots.factorization import rows_figure

    rows = sorted({max(0, found.T * k // _ROWS - 1) for k in range(1, _ROWS + 1)})
    return rows_figure(found, list(zip(rows, factor_rows(found, rows), strict=True)))


def _groups(request: Request, workload: Workload, strategy: Strategy, bands: int | None) -> tuple[str, ...]:
    """Return what is to be written; all that would keep it from being written is found out before solving."""
    if request["output"] is None:
        if given := list(request.given(_ARRAYS)):
            raise UsageError("missing-option", f"{request.label(given)} needs --output", "--output FILE.npz")
        return ()
    from csgm_cli.storage.arrays import check_destination
    from csgm_cli.storage.factorizations import check_groups, default_groups, shapes_of

    asked = [name.strip() for name in (request["arrays"] or "").split(",")]
    groups = tuple(dict.fromkeys(asked)) if request["arrays"] is not None else default_groups(strategy)
    check_groups(strategy, groups)
    if not set(DENSE).isdisjoint(groups):
        _check_memory(workload, strategy)
    itemsize = 4 if _precision(request["dtype"]) == "float32" else 8
    shapes = shapes_of(workload, strategy, groups, bands)
    check_destination(request["output"], shapes, itemsize=itemsize, force=request["force"])
    return groups


def _check_memory(workload: Workload, strategy: Strategy) -> None:
    from csgm_cli.factorization import dense_bytes
    from csgm_cli.storage.factorizations import default_groups

    streams = workload.matrix is None and not workload.momentum
    small = "--strategy streaming:8 writes its generators, of a size that grows like T"
    if not streams:
        small = "--arrays v writes the dual alone"
    elif strategy.name.has_buffers:
        small = f"leave out B, C and C_inv: --arrays {','.join(default_groups(strategy))}"
    check_memory(dense_bytes(workload), f"dense factors at T = {workload.T} need", small)


def _precision(dtype: str) -> Literal["float32", "float64"]:
    return "float32" if dtype == "float32" else "float64"


def _resumed(
    request: Request, workload: Workload, strategy: Strategy, objective: Objective
) -> tuple[Dual | None, Progress]:
    """Return the weights to go on from, and what follows the solver."""
    path = request["checkpoint"]
    if path is None:
        return None, Progress(request["tolerance"])
    if strategy.name not in _SOLVED:
        raise UsageError("conflicting-options", f"--checkpoint: {strategy} has none", "leave it out")
    if path.lower().endswith(".npy"):
        message = "--checkpoint: a .npy file does not record which problem it belongs to"
        raise UsageError("unknown-format", message, "--checkpoint FILE.npz")
    from csgm_cli.storage.arrays import check_destination
    from csgm_cli.storage.factorizations import load_checkpoint, save_checkpoint

    check_destination(path, {"v": (workload.T,), "u": (workload.T,)}, force=True)
    start = load_checkpoint(path, workload, objective)
    if start is not None:
        console.note(f"going on from {path}")
    return start, Progress(request["tolerance"], partial(save_checkpoint, path, workload, objective))


def _write(request: Request, found: Factorization, groups: tuple[str, ...]) -> Factorization:
    """Write the file; return the factorization as its arrays have it."""
    from csgm_cli.factorization import rounded
    from csgm_cli.storage.arrays import write_arrays
    from csgm_cli.storage.factorizations import file_of

    precision = _precision(request["dtype"])
    try:
        found, factors = rounded(found, precision, arrays=groups, tolerance=request["tolerance"])
    except MemoryError:
        raise UsageError("too-large", f"dense factors at T = {found.T} do not fit into memory") from None
    with interrupts.unwinding():
        write_arrays(request["output"], file_of(found, factors, groups), force=request["force"])
    interrupts.ignore()
    return found


command = Command(
    "factorize",
    run,
    help="""Optimize correlated noise, with a certificate.

    Factorizes the workload A (running sums) as B C, for noise B Z in place of Z. The certified gap bounds
    how far the error is above the optimum. With --output the arrays go to a file, by its
    suffix: .npz, .safetensors (an extra), .json, .csv (a folder, a file per array) or .npy (one array).""",
    options=[
        *options("T", "workload", "objective", "strategy", "tolerance", "compare"),
        option("epochs", text=_EPOCHS),
        option("participations", text=_PARTICIPATIONS),
        option("min_separation", text=_SEPARATION),
        *options("bands"),
        *options(*_ARRAYS, "checkpoint"),
        option("output", text="Write the arrays to this file."),
        *options("value", "plot", "plot_size", *(name for name in OUTPUT if name != "output")),
    ],
    examples=(
        "csgm factorize --T 32 --output prefix32.npz",
        "csgm factorize --T 1000 --objective max --compare",
        "csgm factorize --T 512 --min-separation 32 --participations 16",
    ),
    exclusives=(
        Exclusive(("compare",), ("strategy", "output", *_ARRAYS, "checkpoint", "value")),
        Exclusive(("epochs",), ("participations", "min_separation", "bands")),
    ),
)
