"""The rows of privunit-shuffle in a comparison: a table of their own, and what they rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.reports.parts import Column, Fact, Table, table, up
from csgm_cli.rounding import round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

#: Local epsilon beyond which the odds of two vectors may change by a factor of e^10 = 22,000.
NO_PROTECTION = 10.0


def privunit_table(rows: list[Document]) -> Table:
    """Return one line per number of messages and bound."""
    columns: list[Column] = [
        ("privunit-shuffle", lambda row: _counted(row["privunit"]["messages"])),
        ("local eps", lambda row: round_down(row["privunit"]["local_epsilon"])),
        ("MSE", lambda row: up(row["mse"]["total"])),
        ("MSE ratio", lambda row: up(row["mse"]["ratio"])),
        ("bits/client", lambda row: up(row["bits_per_client"])),
        ("bound", lambda row: row["bound"]),
    ]
    return table(columns, rows)


def privunit_facts(rows: list[Document]) -> tuple[Fact, ...]:
    """Return the assumptions, what remains without the shuffler, and which rows are numerical evidence."""
    ends = dict.fromkeys(_without_shuffler(row["privunit"]) for row in (rows[0], rows[-1]))
    facts = [
        Fact("privunit assumes", "a shuffler, pseudorandom seeds; no trusted server"),
        Fact("server alone", f"total local eps {' to '.join(ends)}"),
    ]
    if any(row["privunit"]["server_epsilon"] > NO_PROTECTION for row in rows):
        said = f"none against the server above a total local eps of {NO_PROTECTION:g}"
        facts.append(Fact("protection", said))
    if any(row["proof"] != "privacy-blanket" for row in rows):
        facts.append(Fact("numerical only", "shuffle-clones, and rows of several messages"))
    return tuple(facts)


def _counted(messages: int) -> str:
    return f"{messages} message{'s' * (messages > 1)}"


def _without_shuffler(privunit: Document) -> str:
    return f"{round_up(privunit['server_epsilon'])} ({_counted(privunit['messages'])})"
