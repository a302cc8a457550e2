"""The text report of a budget check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import printable
from csgm_cli.render.reports.parts import Column, Fact, Report, Table, order_text, table, up, verified_text
from csgm_cli.render.reports.setting import assumptions_facts
from csgm_cli.rounding import exact, round_down, round_up
from csgm_cli.version import program_of

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def check_report(inputs: Document, result: Document) -> Report:
    """Return the tables of populations, releases and changes, and the facts common to all."""
    populations, changes = result["populations"], result["changes"]
    tables = [_releases(populations), *(_changes(changes) if changes else ())]
    return Report(
        table=_populations(populations),
        further=tuple(table for table in tables if table.rows),
        facts=(*_compared(changes), *_facts(inputs, populations)),
        paragraph=f"{result['held']} of {result['total']} within the limit",
    )


def verdict(population: Document) -> str:
    """Return one sentence: what a population spends of its limit."""
    spent = f"epsilon {round_up(population['spent'])} of {exact(population['limit'])}"
    at = f"at delta {exact(population['delta'])} ({population['adjacency']})"
    left = population["remaining"]
    rest = f"remaining {round_down(left)}" if population["holds"] else f"exceeded by {round_up(-left)}"
    return f"{population['population']} spends {spent} {at}: {rest}"


def advice(release: Document) -> str:
    """Return the share of a release in an exceeded limit, and the noise it needs."""
    needed = release["needed_noise_multiplier"]
    fix = (
        f"needs noise multiplier >= {round_up(needed)} to fit, all else unchanged"
        if needed is not None
        else "no noise level for this release alone meets the limit"
    )
    noise = f"noise multiplier {exact(release['noise_multiplier'])}"
    return f"{release['release']} has {share_text(release['share'])} of the privacy loss with {noise}: {fix}"


def share_text(share: float) -> str:
    """Return a share in percent; 0 and 100 only where it is exactly so."""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    return "<0.1 %" if share < 0.001 else ">99.9 %" if share > 0.999 else f"{100 * share:.1f} %"


def _populations(populations: list[Document]) -> Table:
    columns: list[Column] = [
        ("population", lambda row: row["population"]),
        ("spent", lambda row: round_up(row["spent"])),
        ("limit", lambda row: exact(row["limit"])),
        ("remaining", lambda row: round_down(row["remaining"])),
        ("result", lambda row: "holds" if row["holds"] else "EXCEEDED"),
        ("delta", lambda row: exact(row["delta"])),
        ("adjacency", lambda row: row["adjacency"]),
        ("bound", lambda row: row["bound"]),
        ("order", lambda row: order_text(row["order"])),
    ]
    return table(columns, populations)


def _releases(populations: list[Document]) -> Table:
    rows = [
        {"population": population["population"], **release}
        for population in populations
        for release in population["releases"]
    ]
    columns: list[Column] = [
        ("population", lambda row: row["population"]),
        ("release", lambda row: row["release"]),
        ("mechanism", lambda row: row["mechanism"]),
        ("noise mult.", lambda row: exact(row["noise_multiplier"])),
        ("gamma", lambda row: exact(row["gamma"])),
        ("strategy", lambda row: row["strategy"]),
        ("rounds", lambda row: _text(row["rounds"])),
        ("sampling rate", lambda row: None if row["sampling_rate"] == 1.0 else exact(row["sampling_rate"])),
        ("epochs", lambda row: None if row["participations"] else _text(row["epochs"])),
        ("min separation", lambda row: _text(row["min_separation"])),
        ("share", lambda row: share_text(row["share"]) if row["enabled"] else "disabled"),
        ("more rounds", lambda row: _text(row["more_rounds"])),
        ("needs noise mult.", lambda row: up(row["needed_noise_multiplier"])),
        ("owner", lambda row: row["owner"]),
        ("reason", lambda row: row["reason"]),
    ]
    return table(columns, rows)


def _changes(changes: Document) -> Iterator[Table]:
    columns: list[Column] = [
        ("population", lambda row: row["population"]),
        (f"in {printable(changes['since'])}", lambda row: up(_first(row["recorded"], row["recomputed"]))),
        ("by tool", lambda row: _signed(row["by_tool"])),
        ("by budget", lambda row: _signed(row["by_budget"])),
        ("now", lambda row: up(row["spent"])),
        ("limit was", _moved_limit),
    ]
    yield table(columns, changes["populations"])
    rows = [
        {"population": population["population"], **release}
        for population in changes["populations"]
        for release in population["releases"]
    ]
    columns = [
        ("population", lambda row: row["population"]),
        ("release", lambda row: row["release"]),
        ("change", lambda row: row["change"]),
        ("spends", lambda row: _signed(row["spends"])),
        ("what", _what),
    ]
    yield table(columns, rows)


def _compared(changes: Document | None) -> tuple[Fact, ...]:
    if changes is None:
        return ()
    version = changes["csgm_version"]
    by = f"by {program_of(version, changes['numbers_version'])}" if version else ""
    return (Fact("compared with", changes["since"], by),)


def _facts(inputs: Document, populations: list[Document]) -> tuple[Fact, ...]:
    facts = [
        Fact("accountant", inputs["accountant"], "of every population"),
        Fact("share", "of the privacy loss (Renyi divergence; squared mu if all Gaussian)"),
        *assumptions_facts(populations),
    ]
    for row in populations:
        if (verified := row["verified"]) is not None:
            digits, difference = verified_text(verified)
            facts.append(Fact("verified", digits, f"{row['population']}, {difference}"))
    return tuple(facts)


def _what(change: Document) -> str | None:
    if change["change"] == "renamed":
        return f"was {change['was']}"
    moved = [
        f"{item['setting'].replace('_', ' ')} {_plain(item['before'])} -> {_plain(item['after'])}"
        for item in change["settings"]
        if item["setting"] != "sigma" or not _says_noise(change["settings"])
    ]
    return ", ".join(moved) or None


def _says_noise(settings: list[Document]) -> bool:
    """True where sigma would repeat the noise multiplier."""
    names = {item["setting"] for item in settings}
    return "noise_multiplier" in names and "l2_norm" not in names


def _moved_limit(row: Document) -> str | None:
    before, after = row["limit_before"], row["limit_after"]
    if before is None or after is None:
        return "new" if before is None else "gone"
    if before == after:
        return None
    return f"({exact(before['epsilon'])}, {exact(before['delta'])}) {before['adjacency']}"


def _plain(value: Any) -> str:  # noqa: ANN401 - any setting
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    return exact(value) if isinstance(value, float) else str(value)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _signed(x: float | None) -> str | None:
    return None if x is None else f"{'+' * (x > 0)}{round_up(x)}"


def _text(x: int | None) -> str | None:
    return None if x is None else str(x)
