"""The record of released rounds: a JSON file to which a run appends, and which a resumed run continues.

It contains the plan and, for each release, how many releases one client may have influenced so far. It
contains neither clients nor cohort sizes nor anything secret.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from csgm_cli.accounting.accountants import check_accountant, spent_epsilon
from csgm_cli.errors import UsageError, shown
from csgm_cli.mechanism.plan import Plan
from csgm_cli.model.mechanism import Accountant, AccountantLike, accountant_named
from csgm_cli.ranges import Range, check_range, check_type
from csgm_cli.storage.files import blaming, check_writable, existing_mode, naming, read_text, write_durably
from csgm_cli.storage.json_text import parse_json
from csgm_cli.storage.rows import exclusive
from csgm_cli.storage.schema import find_fault
from csgm_cli.version import __version__, is_version

SCHEMA = "csgm/ledger/1"
_COUNTS = Range(1, 1e12, integer=True)


@dataclass(frozen=True)
class Entry:
    """One release.

    ``release``: its number, from 1. ``participations``: number of releases (with a factorization, of epochs)
    that one client may have influenced up to this one. ``population_size``: for cohorts that take turns in a
    fixed order, else None. ``UsageError`` for anything but positive integers.
    """

    release: int
    participations: int
    population_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("release", "participations", "population_size"):
            value = getattr(self, name)
            if value is not None or name != "population_size":
                object.__setattr__(self, name, check_range(name, value, _COUNTS))


class Ledger:
    """The releases of ``plan`` in the file ``path``, which the first release creates.

    Only one server at a time may append to it; the file ``path`` + ".lock" excludes others.

    Raises:
        UsageError: the file is not a ledger (slug ``bad-ledger``) or is for another plan (``other-plan``).
        StorageError: it cannot be read or written.
    """

    def __init__(self, path: str | Path, plan: Plan) -> None:
        check_type("plan", plan, Plan)
        self._path, self._plan = Path(path), plan
        self._header = {"schema": SCHEMA, "csgm_version": __version__, "plan": _described(plan)}
        self._text = self._read()
        self._entries = [] if self._text is None else self._parsed(self._text)
        check_writable(self._path)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The releases, oldest first."""
        return tuple(self._entries)

    @property
    def participations(self) -> int:
        """How many releases, or epochs, one client may have influenced."""
        return self._entries[-1].participations if self._entries else 0

    @property
    def population_size(self) -> int | None:
        """The population size if cohorts take turns; None for other plans and before the first release."""
        return self._entries[-1].population_size if self._entries else None

    def check_plan(self, plan: Plan) -> None:
        """Raise ``UsageError`` (slug ``other-plan``) unless this is a ledger of ``plan``."""
        self._check_same(_described(plan))

    def record(self, entry: Entry) -> None:
        """Append the next release; on return the entry is on disk.

        Raises:
            UsageError: another server has used the ledger (slug ``ledger-changed``), or the plan does not
                allow such a release (``bad-entry``).
            StorageError: it cannot be written, or another process is writing it (``in-use``).
        """
        check_type("entry", entry, Entry)
        with exclusive(self._path):
            if self._read() != self._text or entry.release != len(self._entries) + 1:
                raise UsageError(
                    "ledger-changed",
                    f"{str(self._path)!r} has changed since it was read",
                    "only one server at a time may use a ledger; open it again to continue",
                )
            entries = [*self._entries, entry]
            if fault := _fault(entries, self._plan):
                raise UsageError("bad-entry", f"the plan does not allow this release: {fault}")
            text = _text({**self._header, "releases": [asdict(e) for e in entries]})
            write_durably(self._path, text)
            self._entries, self._text = entries, text

    def epsilon(self, delta: float, accountant: AccountantLike = Accountant.AUTO) -> float:
        """The epsilon of all releases so far at ``delta``, as by ``csgm account``; 0 before the first.

        Raises:
            UsageError: a delta out of range, or an accountant without a bound for the mechanism.
            NoAnswerError: the loss is beyond what can be computed.
        """
        accountant = accountant_named(accountant)
        delta = check_range("delta", delta)
        check_accountant([self._plan.mechanism], accountant)
        if not self._entries:
            return 0.0
        released = self._plan.mechanism.with_releases(self.participations)
        return spent_epsilon([(released, self._plan.sigma)], accountant, delta).value

    def _read(self) -> str | None:
        with blaming(self._path):
            return None if existing_mode(self._path) is None else read_text(self._path)

    def _parsed(self, text: str) -> list[Entry]:
        with naming(self._path):
            document = _document(text)
            self._check_same(document["plan"])
            self._header = {key: document[key] for key in self._header}
            entries = [Entry(**entry) for entry in document["releases"]]
            if fault := _fault(entries, self._plan):
                raise _bad(fault)
            return entries

    def _check_same(self, described: dict[str, Any]) -> None:
        mine = self._header["plan"]
        assert isinstance(mine, dict)
        for name, value in mine.items():
            if described.get(name) != value:
                raise UsageError(
                    "other-plan",
                    f"its plan has {name} {shown(described.get(name))}, this plan has {shown(value)}",
                    "keep one ledger for each plan",
                )


def _fault(entries: list[Entry], plan: Plan) -> str | None:
    """Why no run of ``plan`` can have recorded ``entries``; None if one can."""
    mechanism = plan.mechanism
    if [entry.release for entry in entries] != list(range(1, len(entries) + 1)):
        return "its releases are not numbered from 1"
    populations = {entry.population_size for entry in entries}
    if mechanism.takes_turns:
        if len(populations) > 1 or any(size is None or size < plan.cohort_size for size in populations):
            return f"it needs one population_size, of at least {plan.cohort_size} clients"
    elif populations - {None}:
        return "only cohorts that take turns have a population_size"
    if not _are_counted([entry.participations for entry in entries], *_share(plan, populations)):
        return "its participations are not those of its releases"
    if entries and entries[-1].participations > mechanism.releases:
        return f"it has more than the {mechanism.releases} participations of the plan"
    return None


def _share(plan: Plan, populations: set[int | None]) -> tuple[int, int]:
    """(part, whole): one client is in at most ``part`` of ``whole`` releases, by epoch, turn, or in all."""
    if plan.mechanism.factorization is not None:
        return 1, plan.mechanism.factorization.T
    return next(((plan.cohort_size, size) for size in populations if size is not None), (1, 1))


def _are_counted(participations: list[int], part: int, whole: int) -> bool:
    """Whether each count is that before its epoch (or turn) plus ceil(releases since then * part/whole).

    An epoch may have been interrupted after any release, and then counts in full.
    """
    starts, before = {0}, 0  # count times whole minus releases times part, where an epoch may have begun
    for release, count in enumerate(participations, 1):
        starts = {start for start in starts if count == -(-(start + release * part) // whole)}
        if count == before + 1:
            starts.add(before * whole - (release - 1) * part)
        if not starts:
            return False
        before = count
    return True


def _described(plan: Plan) -> dict[str, object]:
    """Everything that the privacy of a plan depends on, as JSON values."""
    mechanism, geometry, factors = plan.mechanism, plan.mechanism.geometry, plan.mechanism.factorization
    return {
        "mechanism": str(mechanism.name),
        "sigma": plan.sigma,
        "gamma": mechanism.gamma,
        "norm_ratio": geometry.norm_ratio,
        "l2_norm": geometry.l2_norm,
        "dim": geometry.dim,
        "cohort_size": geometry.cohort_size,
        "rounds": mechanism.rounds,
        "sampling_rate": mechanism.sampling_rate,
        "disjoint_cohorts": mechanism.disjoint_cohorts,
        "epochs": mechanism.epochs,
        "T": factors and factors.T,
        "workload": factors and factors.workload,
        "sensitivity": factors and factors.sensitivity,
        "adjacency": str(mechanism.adjacency),
        "rotation": str(plan.rotation),
        "wire": str(plan.wire),
    }


def _text(document: dict[str, Any]) -> str:
    """The document as JSON, one release per line."""
    releases = ",\n".join(f"    {json.dumps(entry)}" for entry in document["releases"])
    rest = json.dumps({**document, "releases": []}, indent=2, allow_nan=False)
    return rest.removesuffix("[]\n}") + f"[\n{releases}\n  ]\n}}\n"


def _document(text: str) -> dict[str, Any]:
    try:
        document = parse_json(text)
    except ValueError as error:
        raise _bad(str(error)) from None
    if fault := find_fault(document, "ledger", closed=True):
        raise _bad(fault)
    if not isinstance(document, dict) or document.keys() != {"schema", "csgm_version", "plan", "releases"}:
        raise _bad("it must be an object with schema, csgm_version, plan and releases")
    if not is_version(document["csgm_version"]):
        raise _bad(f"csgm_version is {shown(document['csgm_version'])}, which is no version")
    return document


def _bad(reason: str) -> UsageError:
    return UsageError("bad-ledger", f"not a ledger of csgm: {reason}", "restore it from a backup")
