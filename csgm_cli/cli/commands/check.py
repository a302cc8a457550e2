"""``csgm check``: whether what is released stays within what was promised."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from csgm_cli.cli import interrupts
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode, as_csgm_error
from csgm_cli.cli.options.definitions import OUTPUT, option, options
from csgm_cli.cli.options.file_conflicts import check_places
from csgm_cli.cli.options.parameter_types import Choice, File
from csgm_cli.cli.options.request import Exclusive
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.errors import CsgmError, Locating, UsageError
from csgm_cli.model.mechanism import Accountant
from csgm_cli.render import CHECK_FORMATS, render_error
from csgm_cli.storage.files import check_writable, is_plain, read_bytes, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.budget import Changes, Population, Standing
    from csgm_cli.model.mechanism import Mechanism, Target
    from csgm_cli.model.result import Notice


def run(request: Request) -> ExitCode:
    """Check and report; a limit that is exceeded is a claim that fails."""
    with _error_in_report(request):
        return _check(request)


def _check(request: Request) -> ExitCode:
    from csgm_cli.cli.inputs.budgets import load_budget
    from csgm_cli.render.check_document import check_document

    for name in ("output", "write_lock"):
        if request[name] is not None:
            check_writable(request[name])
    paths, accountant = request["files"] or _default_budget(), Accountant(request["accountant"])
    populations, notices, files = load_budget(paths)
    check_places(request, files)
    with working():
        notices += _mistaken_for_effective(populations)
        standings = [_checked(population, accountant, verify=request["verify"]) for population in populations]
        changes = _changes(request, standings, accountant)
    inputs = {
        "files": list(paths),
        "diff": request["diff"],
        "against_lock": request["against_lock"],
        "accountant": accountant,
        "verify": request["verify"],
        "exit_zero": request["exit_zero"],
    }
    document = check_document(inputs, standings, changes, notices)
    failures = list(_failures(standings))
    report(request, document, failures)
    if request["write_lock"] is not None:
        from csgm_cli.storage.lock import lock_text

        with interrupts.unwinding():
            write_atomically(request["write_lock"], lock_text(standings, accountant))
    return ExitCode.CLAIM_FAILED if failures and not request["exit_zero"] else ExitCode.OK


#: The budget that is checked if none is named.
_DEFAULT = "budget.toml"


def _default_budget() -> tuple[str]:
    if not Path(_DEFAULT).exists():
        message = f"no budget file given, and no {_DEFAULT} in the current folder"
        raise UsageError("missing-argument", message, f"for example {command.examples[0]}; csgm check --help")
    return (_DEFAULT,)


@contextmanager
def _error_in_report(request: Request) -> Iterator[None]:
    """Put an error into the JUnit file, too, so that no report of an earlier run stands for this one.

    A file that holds anything but XML stays: --output may name it by mistake.
    """
    try:
        yield
    except CsgmError as error:
        path = request["output"]
        if request["format"] == "junit" and path is not None:
            with suppress(OSError, CsgmError), interrupts.unwinding():
                if is_plain(path) and (not Path(path).exists() or read_bytes(path).startswith(b"<?xml")):
                    write_atomically(path, render_error(as_csgm_error(error), "junit"))
        raise


#: More hints of one kind help nobody.
_MOST_HINTS = 5
#: Releases that are asked about, each of which takes up to 8 ms: less than a second.
_MOST_ASKED = 100


def _mistaken_for_effective(populations: Sequence[Population]) -> tuple[Notice, ...]:
    """What account warns of, for each of the first releases by itself; after a few hints no more is asked."""
    notices: list[Notice] = []
    counted = ((release, population.limit) for population in populations for release in population.counted)
    for release, limit in islice(counted, _MOST_ASKED):
        if len(notices) >= _MOST_HINTS:
            break
        called = f"{release.place}: release {release.name}"
        said = _mistaken(release.mechanism, release.sigma, limit)
        alone = "(this release alone, accountant rdp)"
        notices += (replace(notice, message=f"{called}: {notice.message} {alone}") for notice in said)
    return tuple(notices)


@lru_cache(maxsize=256)
def _mistaken(mechanism: Mechanism, sigma: float, limit: Target) -> tuple[Notice, ...]:
    """By rdp, as it is but a hint; many releases may be equal."""
    from csgm_cli.jobs.account import epsilon_guarantee, mistaken_for_effective

    if mechanism.sends_all:
        return ()
    try:
        found = epsilon_guarantee(mechanism, sigma, limit.delta, Accountant.RDP)
    except CsgmError:  # the check itself will say so
        return ()
    return tuple(mistaken_for_effective(mechanism, sigma, found, Accountant.RDP, limit.epsilon))


def _checked(population: Population, accountant: Accountant, *, verify: bool) -> Standing:
    from csgm_cli.jobs.budget import check_population

    try:
        with Locating(population.place):
            return check_population(population, accountant, verify=verify)
    except CsgmError as error:
        message = f"{population.place}: population {population.name}: {error.message}"
        raise error.reworded(message, error.hint) from None


def _changes(request: Request, standings: Sequence[Standing], accountant: Accountant) -> Changes | None:
    from csgm_cli.model.budget import Changes

    if request["diff"] is not None:
        from csgm_cli.cli.inputs.budgets import load_budget
        from csgm_cli.jobs.budget_diff import population_changes

        before, _, files = load_budget([request["diff"]])
        check_places(request, files)
        return Changes(request["diff"], None, None, population_changes(before, standings, accountant))
    if request["against_lock"] is not None:
        from csgm_cli.jobs.budget_diff import population_changes
        from csgm_cli.storage.lock import read_lock

        lock = read_lock(request["against_lock"])
        if lock.accountant is not accountant:
            message = (
                f"{request['against_lock']} was written with accountant {lock.accountant}, not {accountant}"
            )
            raise UsageError("different-accountant", message, f"--accountant {lock.accountant}")
        found = population_changes(lock.populations, standings, accountant, lock.spent)
        return Changes(request["against_lock"], lock.csgm_version, lock.numbers_version, found)
    return None


def _failures(standings: Sequence[Standing]) -> Iterator[str]:
    for standing in standings:
        if not standing.holds:
            population = standing.population
            spent = f"{population.name} spends epsilon {standing.spent!r} of {population.limit.epsilon!r}"
            yield f"{spent} ({population.place})"


command = Command(
    "check",
    run,
    help="""Check releases against their privacy limits.

    All files form one budget; without any, budget.toml is checked.

    Exits with 1 if a limit is exceeded, and only then.""",
    options=[
        click.Argument(["files"], type=File(), nargs=-1, metavar="[BUDGET.toml]..."),
        *options("diff", "against_lock", "exit_zero"),
        option("accountant"),
        option("verify"),
        option("format", Choice(CHECK_FORMATS)),
        *options("write_lock", *(name for name in OUTPUT if name != "format")),
    ],
    examples=(
        "csgm check budget.toml --format github",
        "csgm check --diff old.toml budget.toml --format markdown",
    ),
    exclusives=(Exclusive(("diff",), ("against_lock",)),),
)
