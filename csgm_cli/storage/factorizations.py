"""Factorizations and checkpoints as files of arrays: what is in them, and what they claim."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from csgm_cli.errors import StorageError, UsageError, shown
from csgm_cli.model.factorization import (
    DENSE,
    GENERATORS,
    Dual,
    Factorization,
    Factors,
    Objective,
    Strategy,
    StrategyName,
    Workload,
    strategy_named,
)
from csgm_cli.model.participation import Participation
from csgm_cli.ranges import check_range
from csgm_cli.storage.arrays import ArrayFile, SavedArrays, check_hash, read_arrays, write_arrays
from csgm_cli.storage.arrays.content import digest
from csgm_cli.version import __version__

#: What may be asked for, and the arrays that it stands for.
GROUPS: dict[str, tuple[str, ...]] = {
    "B": ("B",),
    "C": ("C",),
    "C_inv": ("C_inv",),
    "v": ("v", "u"),
    "generators": GENERATORS,
    "bands": ("bands", "u", "bound_bands"),
    "class_dual": ("class_dual",),
}

#: Numbers of the result that a file repeats.
_NUMBERS = (
    "T",
    "sensitivity",
    "sensitivity_squared",
    "mean_squared_error",
    "rmse",
    "max_squared_error",
    "lower_bound",
    "gap",
)
#: Whole numbers that a file repeats where the factorization has them.
_COUNTS = ("participations", "min_separation", "bands")


@dataclass(frozen=True)
class Description:
    """What a file says that it holds; ``numbers`` by their key in a result.

    ``participation`` and ``bands`` are those of a `Factorization`.
    """

    workload: str
    strategy: Strategy
    objective: Objective
    numbers: Mapping[str, float]
    participation: Participation | None = None
    bands: int | None = None
    epochs: int = 1


def _groups_of(strategy: Strategy) -> tuple[str, ...]:
    """The groups of arrays that a factorization by ``strategy`` has."""
    if strategy.name.has_nodes:
        return ("B", "C")
    if strategy.name.is_banded:  # B and C_inv are not: rounding would leave them another, dense C
        return ("bands",)
    if strategy.name is StrategyName.FIXED_ORDER:  # others would have orthogonal columns to fewer digits
        return ("C", "class_dual")
    dual = ("v",) if strategy.name in (StrategyName.OPTIMAL, StrategyName.STREAMING) else ()
    return (*DENSE, *dual, *(("generators",) if strategy.name.has_buffers else ()))


def default_groups(strategy: Strategy) -> tuple[str, ...]:
    """All of them; of a form with buffers those that are small for every T."""
    groups = _groups_of(strategy)
    return tuple(sorted(set(groups) - set(DENSE))) if strategy.name.has_buffers else groups


def check_groups(strategy: Strategy, names: Collection[str]) -> None:
    """Raise ``UsageError`` unless ``strategy`` has the groups ``names`` and these say all of it.

    Slugs: ``unknown-choice``, ``incomplete-arrays``.
    """
    for name in names:
        if name not in _groups_of(strategy):
            raise UsageError(
                "unknown-choice",
                f"{strategy} has the arrays {','.join(_groups_of(strategy))}, not {shown(name)}",
            )
    enough = {*DENSE, "generators", "bands"} | ({"v"} if strategy.name is StrategyName.OPTIMAL else set())
    if strategy.name.has_nodes and not {"B", "C"} <= set(names):
        raise UsageError("incomplete-arrays", f"the arrays of {strategy} are of use only together", "B,C")
    if enough.isdisjoint(names):
        raise UsageError("incomplete-arrays", f"{','.join(names)} alone are no factorization by {strategy}")


def shapes_of(
    workload: Workload, strategy: Strategy, names: Collection[str], bands: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays in the groups ``names``, and of those that describe the workload."""
    T = workload.T  # noqa: N806 - its name
    rows = T
    if strategy.name.has_nodes:
        rows = sum(-(-T >> height) for height in range(1 + (T - 1).bit_length()))
    sides: dict[str, tuple[int, ...]] = {"B": (T, rows), "C": (rows, T), "C_inv": (T, T)}
    sides |= {"v": (T,), "u": (T,), "diagonal": (T,)}
    sides |= dict.fromkeys(("bands", "bound_bands"), (bands or 1, T))
    sides["class_dual"] = (1, T)
    sides |= dict.fromkeys(("decays", "inputs", "outputs"), (T, strategy.buffers or 1))
    found = {array: sides[array] for name in names for array in GROUPS[name]}
    if "bands" not in names and (workload.is_toeplitz or "v" not in names):  # u is v reversed
        found.pop("u", None)
    return found | {name: array.shape for name, array in _described_by(workload).items()}


def file_of(factorization: Factorization, factors: Factors | None, names: Collection[str]) -> ArrayFile:
    """The file with the groups ``names``; ``factors`` are needed for the dense ones."""
    arrays: dict[str, Any] = dict(_described_by(factorization.workload))
    if factors is not None:
        arrays |= {name: getattr(factors, name) for name in DENSE if name in names}
    if factorization.dual is not None and "v" in names:
        arrays |= _weights(factorization.workload, factorization.objective, factorization.dual)
    if factorization.generators is not None and "generators" in names:
        arrays |= {name: getattr(factorization.generators, name) for name in GENERATORS}
    if factorization.band_matrix is not None and "bands" in names:
        arrays |= _banded(factorization)
    if factorization.class_dual is not None:  # without it there is no bound
        arrays["class_dual"] = factorization.class_dual
    metadata = {
        "kind": "factorization",
        "workload": factorization.workload.name,
        "strategy": str(factorization.strategy),
        "objective": factorization.objective.value,
        **{name: getattr(factorization, name) for name in _NUMBERS},
        **{name: count for name in _COUNTS if (count := getattr(factorization, name)) is not None},
        **_epochs(factorization.workload),
        **_fixed_order(factorization.participation),
        "versions": {"csgm": __version__, **{name: version(name) for name in ("numpy", "scipy")}},
    }
    return ArrayFile(arrays, metadata)


def description_of(saved: SavedArrays) -> Description | None:
    """What a file of csgm claims; None for one made elsewhere, which has no metadata.

    ``UsageError`` where it does not say it all, or what cannot be: slug ``broken-file``, ``unknown-choice``
    for a word, ``out-of-range``, ``too-many-participations`` and ``too-many-bands`` for counts.
    """
    if not saved.metadata and saved.recorded_hash is None:
        return None
    if saved.metadata.get("kind") != "factorization":
        raise UsageError(
            "broken-file", f"it is no factorization: its kind is {shown(saved.metadata.get('kind'))}"
        )
    try:
        objective = Objective(_text(saved, "objective"))
    except ValueError:
        raise UsageError("broken-file", "its objective is neither mean nor max") from None
    strategy = strategy_named(_text(saved, "strategy"))
    numbers = {name: _number(saved, name) for name in _NUMBERS}
    participation = _participation(saved)
    return Description(
        _text(saved, "workload"),
        strategy,
        objective,
        numbers,
        participation,
        _bands(saved, strategy, int(numbers["T"]), participation),
        _epochs_of(saved, participation),
    )


def _epochs(workload: Workload) -> dict[str, Any]:
    """The epochs where there are several; files of earlier versions know but one."""
    return {"epochs": workload.epochs} if workload.epochs > 1 else {}


def _fixed_order(participation: Participation | None) -> dict[str, Any]:
    return {"fixed_order": True} if participation is not None and participation.fixed_order else {}


def _epochs_of(saved: SavedArrays, participation: Participation | None) -> int:
    epochs = _count(saved, "epochs")
    if epochs is None:
        return 1
    if epochs > 1 and participation is not None:
        raise UsageError("broken-file", "its metadata give both epochs and participations without a restart")
    return int(check_range("epochs", epochs))


def _participation(saved: SavedArrays) -> Participation | None:
    """How often a client takes part; None where the file says neither how often nor how far apart."""
    participations, separation = _count(saved, "participations"), _count(saved, "min_separation")
    if participations is None and separation is None:
        return None
    if participations is None or separation is None:
        raise UsageError("broken-file", "its metadata hold only one of 'participations' and 'min_separation'")
    fixed_order = saved.metadata.get("fixed_order", False)
    if not isinstance(fixed_order, bool):
        raise UsageError("broken-file", "its metadata hold a 'fixed_order' that is not true or false")
    return Participation(participations, separation, fixed_order)


def _bands(
    saved: SavedArrays,
    strategy: Strategy,
    T: int,  # noqa: N803 - its name
    participation: Participation | None,
) -> int | None:
    bands = _count(saved, "bands")
    if (bands is not None) != strategy.name.is_banded:
        raise UsageError("broken-file", f"its metadata give bands {shown(bands)} for the strategy {strategy}")
    if strategy.name.is_repeated and participation is None:
        raise UsageError("broken-file", "its metadata do not say how often a client takes part")
    if strategy.name is StrategyName.FIXED_ORDER and not (participation and participation.fixed_order):
        raise UsageError(
            "broken-file", f"its metadata do not say that its order is fixed, as {strategy} needs"
        )
    if bands is not None:
        check_range("bands", bands)
    if participation is not None:
        participation.check(T, bands)
    return bands


def save_checkpoint(path: str, workload: Workload, objective: Objective, dual: Dual) -> None:
    """Write the weights from which the solver can go on; errors as for `write_arrays`."""
    file = ArrayFile(_weights(workload, objective, dual), _problem(workload, objective))
    write_arrays(path, file, force=True)


def load_checkpoint(path: str, workload: Workload, objective: Objective) -> Dual | None:
    """The weights saved for this very problem, None where there is no such file.

    ``UsageError``: slug ``other-problem`` for a file that is not a checkpoint of it, ``hash-mismatch`` and
    those of `read_arrays` for a damaged one.
    """
    try:
        saved = read_arrays(path)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    for name, ours in _problem(workload, objective).items():
        if saved.metadata.get(name) != ours:
            raise UsageError(
                "other-problem",
                f"{path!r} is no checkpoint of this problem: its {name} is {shown(saved.metadata.get(name))},"
                f" not {shown(ours)}",
                "pass another name to --checkpoint",
            )
    check_hash(saved)
    if "v" not in saved.arrays:
        raise UsageError("other-problem", f"{path!r} holds no weights v")
    v = saved.arrays["v"].astype("float64")
    return Dual(v, saved.arrays.get("u", v).astype("float64"))  # where u is absent it follows from v


def _problem(workload: Workload, objective: Objective) -> dict[str, Any]:
    return {
        "kind": "checkpoint",
        "T": workload.T,
        "workload": workload.name,
        "objective": objective.value,
        "workload_sha256": digest(ArrayFile(_described_by(workload), {})),
        **_epochs(workload),
    }


def _described_by(workload: Workload) -> dict[str, Any]:
    """The arrays without which the workload's name says too little."""
    held = {"A": workload.matrix, "learning_rates": workload.learning_rates}
    return {name: array for name, array in held.items() if array is not None}


def _weights(workload: Workload, objective: Objective, dual: Dual) -> dict[str, Any]:
    """v, and u where it is neither all ones nor v reversed."""
    follows = objective is Objective.MEAN or workload.is_toeplitz
    return {"v": dual.columns} if follows else {"v": dual.columns, "u": dual.rows}


def _banded(factorization: Factorization) -> dict[str, Any]:
    """The bands, and what proves their bound where they do not: weights where these are not all ones."""
    dual = factorization.band_dual
    if dual is None:
        return {"bands": factorization.band_matrix}
    proof = {"bands": factorization.band_matrix, "bound_bands": dual.bands}
    return proof if factorization.objective is Objective.MEAN else {**proof, "u": dual.rows}


def _text(saved: SavedArrays, name: str) -> str:
    value = saved.metadata.get(name)
    if not isinstance(value, str):
        raise UsageError("broken-file", f"its metadata hold no text {name!r}")
    return value


def _count(saved: SavedArrays, name: str) -> int | None:
    """The whole number ``name``; None where it is absent or null."""
    value = saved.metadata.get(name)
    if value is not None and type(value) is not int:
        raise UsageError("broken-file", f"its metadata hold no whole number {name!r}")
    return value


def _number(saved: SavedArrays, name: str) -> float:
    value = saved.metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise UsageError("broken-file", f"its metadata hold no number {name!r}")
    if name == "T" and not isinstance(value, int):
        raise UsageError("broken-file", "its metadata hold a T that is no whole number")
    return value
