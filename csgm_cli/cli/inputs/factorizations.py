"""The factorization of ``--factorization``: a checked file, or a strategy solved now."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from csgm_cli.cli.inputs.workloads import FEWER_ROWS
from csgm_cli.cli.options.parameter_types import Number
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.solver_progress import Progress
from csgm_cli.errors import StorageError, UsageError, shown
from csgm_cli.hints import did_you_mean
from csgm_cli.model.factorization import Objective, Strategy, StrategyName, Workload, strategy_named
from csgm_cli.model.participation import overridden
from csgm_cli.model.result import Notice
from csgm_cli.ranges import RANGES
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import FactorNorms
    from csgm_cli.model.participation import Participation

#: To which gap a file's optimum is solved, where it has no dual.
TOLERANCE = 1e-9
#: Strategies with the least error for some number of epochs.
_SOLVED = (StrategyName.OPTIMAL, StrategyName.STREAMING, StrategyName.TOEPLITZ_OPTIMAL)
#: What a comparison puts beside the factorization that was asked about.
_USUAL = (StrategyName.IDENTITY, StrategyName.TREE, StrategyName.HONAKER_ONLINE, StrategyName.HONAKER_FULL)


@dataclass(frozen=True, eq=False)
class Asked:
    """What ``--factorization`` stands for."""

    norms: FactorNorms
    workload: Workload
    notices: tuple[Notice, ...] = ()


def load_factorization(
    spec: str,
    label: str = "--factorization",
    participations: int | None = None,
    min_separation: int | None = None,
) -> Asked:
    """Return the factorization that ``spec`` names: ``FILE`` or ``STRATEGY:T``, then of prefix sums.

    ``label``: how messages call ``spec``. ``participations`` and ``min_separation``: of one client in a run
    without a restart, instead of what the file says. ``UsageError``: no such strategy, T out of range, a file
    that is no factorization or whose claims do not hold. ``StorageError``: a file that cannot be read.
    """
    word, colon, _ = spec.partition(":")
    names = [name.value for name in StrategyName if name is not StrategyName.FIXED_ORDER]
    if word in names:
        strategy, rows = _strategy(spec, label)
        with working():
            return _solved(strategy, rows, participations, min_separation)
    if not spec or (colon and not os.path.lexists(spec)):
        raise UsageError(
            "unknown-choice",
            f"{label} must be a file or one of {', '.join(names)} with :T, got {shown(spec)}"
            + did_you_mean(word, names),
            _by_file(spec) or "for example optimal:32",
        )
    try:
        with working():
            return _read(spec, _identity(spec), participations, min_separation)
    except StorageError as error:
        if os.path.lexists(spec):
            raise
        raise error.reworded(error.message, _instead_of(spec, label)) from None


def epochs_notice(asked: Asked, epochs: int) -> tuple[Notice, ...]:
    """Say that the error was minimised over another number of ``epochs``, where that makes another C."""
    made_for = asked.workload.epochs
    solved = asked.norms.strategy is not None and asked.norms.strategy.startswith(_SOLVED)
    if made_for == epochs or not solved or asked.workload.matrix is not None:
        return ()
    message = (
        f"the factorization minimises the error over {_counted(made_for)}, not {epochs}:"
        f" csgm factorize --epochs {epochs} --output FILE makes one that does"
    )
    return (Notice("other-epochs", message),)


def _counted(epochs: int) -> str:
    return "1 epoch" if epochs == 1 else f"{epochs} epochs"


def beside(spec: str, file: str) -> str:
    """Return ``spec`` as the file of settings ``file`` means it: other files are named from its folder."""
    path = str(Path(file).parent / spec)
    return path if _names_file(spec, path) else spec


def found_again(spec: str, result: str) -> str:
    """Return ``spec``, of the saved ``result``, or the file of that name beside it where it is not there.

    ``StorageError``: it is in neither place.
    """
    near = str(Path(result).parent / Path(spec).name)
    if not _names_file(spec, spec) or os.path.lexists(spec):
        return spec
    if os.path.lexists(near):
        return near
    message = f"cannot read {shown(spec)}, the factorization of {shown(result)}: no such file"
    places = "from the current folder" if not Path(spec).is_absolute() else "there"
    beside = f"beside {result!r}, as {Path(spec).name!r}"
    raise StorageError("cannot-read", message, f"searched {places}, then {beside}")


def _names_file(spec: str, path: str) -> bool:
    """Say whether ``spec`` is no strategy with its T but a file, at ``path``."""
    word, colon, _ = spec.partition(":")
    return bool(spec) and word not in list(StrategyName) and (not colon or os.path.lexists(path))


def _by_file(spec: str) -> str:
    """How to ask for a momentum, which ``STRATEGY:T`` has no place for; empty where none was asked for."""
    found = re.search(r"(?a)momentum[=:](\d*\.\d+)(?::(\d+))?", spec)
    if found is None:
        return ""
    workload = f"csgm factorize --workload momentum={found[1]} --T {found[2] or 'T'} --output FILE"
    return f"momentum needs a file, of {workload}"


def _instead_of(missing: str, label: str) -> str:
    """A hint for the name of a missing file."""
    if missing.isascii() and missing.isdigit():
        return f"a strategy goes before T: optimal:{missing}"
    if by_file := _by_file(missing):
        return by_file
    wanted = Path(missing)
    with suppress(OSError, ValueError):
        found = sorted(other for other in wanted.parent.iterdir() if other.stem == wanted.name)
        if found:
            return f"did you mean {found[0]}?"
    return f"{label} takes a file of csgm factorize --output, or a strategy with its T, such as optimal:32"


def usual_strategies(asked: Asked) -> tuple[FactorNorms, ...]:
    """Return the usual factorizations of the same workload: independent noise, and the trees that it has."""
    from csgm_cli.factorization import factor_norms, factorize

    found = []
    for name in _USUAL:
        if name != asked.norms.strategy:
            try:
                _check_repeated(asked.workload, name, asked.norms.repeated)
                found.append(factor_norms(factorize(asked.workload, Strategy(name)), asked.norms.repeated))
            except UsageError:  # trees are for prefix sums, and with participations they are dense
                continue
    return tuple(found)


def _strategy(spec: str, label: str) -> tuple[Strategy, int]:
    """``optimal:32`` or ``streaming:4:1024``."""
    word, *numbers = spec.split(":")
    has_buffers = word in list(StrategyName) and StrategyName(word).has_buffers
    if len(numbers) != 1 + has_buffers:
        form = f"{word}:N:T, such as {word}:4:1024" if has_buffers else f"{word}:T, such as {word}:32"
        raise UsageError("missing-rows", f"{label} must be written {form}, got {shown(spec)}")
    rows = int(Number("T").read(numbers[-1], f"T of {label}"))
    if has_buffers:
        word = f"{word}:{_buffers(word, numbers[0], rows, label)}"
    return strategy_named(word), rows


def _buffers(word: str, text: str, rows: int, label: str) -> int:
    try:
        return int(Number("buffers").read(text, f"N of {label}"))
    except UsageError as error:
        swapped = text.isdigit() and rows in RANGES["buffers"]
        hint = f"N comes before T: {word}:{rows}:{text}" if swapped else error.hint
        raise error.reworded(error.message, hint) from None


@lru_cache(maxsize=8)
def _solved(strategy: Strategy, rows: int, participations: int | None, min_separation: int | None) -> Asked:
    """Cached: many points of a sweep, or releases of a budget, use the same one."""
    from csgm_cli.factorization import (
        band_tolerance,
        default_tolerance,
        factor_norms,
        factorize,
        parse_workload,
        solving_bytes,
    )

    workload = parse_workload("prefix-sum", rows)
    asked = overridden(None, rows, participations, min_separation)
    made_for = asked if strategy.name.takes_participations and min_separation is not None else None
    bands = min(rows, made_for.min_separation) if made_for and strategy.name.is_banded else None
    tolerance = default_tolerance(workload)
    if bands is not None:
        tolerance = band_tolerance(rows, bands, Objective.MEAN)
    progress = Progress(tolerance)
    check_memory(solving_bytes(workload, strategy, bands), f"{strategy} with {rows} rows needs", FEWER_ROWS)
    _check_repeated(workload, strategy.name, asked)
    try:
        found = factorize(
            workload, strategy, Objective.MEAN, tolerance, participation=made_for, progress=progress
        )
        progress.finish()
        return Asked(factor_norms(found, asked), workload, found.notices)
    except MemoryError:
        raise UsageError("too-large", f"{strategy} with {rows} rows does not fit into memory") from None


def _check_repeated(workload: Workload, name: StrategyName, asked: Participation | None) -> None:
    """Raise ``UsageError`` (slug ``too-large``) where several participations take too large arrays."""
    from csgm_cli.factorization import repeated_bytes

    if asked is not None:
        needed = repeated_bytes(workload, name)
        check_memory(needed, f"{name} with several participations in {workload.T} steps needs", FEWER_ROWS)


def _identity(path: str) -> tuple[object, ...]:
    """Device, inode, modification time and size of a file, which change when it is rewritten."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # reading it will say what is wrong
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _read(
    path: str,
    identity: tuple[object, ...],  # noqa: ARG001 - the cache looks at it
    participations: int | None,
    min_separation: int | None,
) -> Asked:
    from csgm_cli.factorization_file import read_factorization

    progress = Progress(TOLERANCE)
    norms, workload = read_factorization(path, participations, min_separation, progress)
    progress.finish()
    return Asked(norms, workload)
