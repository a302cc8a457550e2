"""Any document as a text report: labelled facts, a table, a paragraph.

Every number is rounded to the safe side here, once for all formats that people read: noise, privacy
parameters and costs up; lower bounds and compression down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.render.document import command_of
from csgm_cli.render.reports.facts import (
    answer_fact,
    certificate_facts,
    guarantee_fact,
    limit_facts,
    noise_facts,
    noise_given,
    utility_facts,
)
from csgm_cli.render.reports.parts import (
    Column,
    Fact,
    Report,
    down,
    is_factorized,
    order_text,
    plain_mechanism,
    table,
    up,
)
from csgm_cli.render.reports.privunit import privunit_facts, privunit_table
from csgm_cli.render.reports.setting import adjacency_fact, assumptions_facts, setting
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.render.document import Document


_OVERHEAD = {
    "max_mse_overhead": "mechanism's MSE",
    "max_noise_overhead": "mechanism's noise multiplier",
}


def report(document: Document, *, statement: bool = False) -> Report:
    """Return the text report of any document but an error; with ``statement`` its publishable paragraph."""
    found = _REPORTS[command_of(document)](document["inputs"], document["result"]).printable
    return replace(found, paragraph=found.statement) if statement and found.statement else found


def _calibrate(inputs: Document, result: Document) -> Report:
    facts = (
        *noise_facts(inputs, result),
        guarantee_fact(inputs, result),
        *setting(inputs),
        *certificate_facts(result, "noise_multiplier"),
        *utility_facts(inputs, result),
        *assumptions_facts([result]),
    )
    return Report(facts=facts, statement=result["statement"])


def _account(inputs: Document, result: Document) -> Report:
    if "rows" in result:
        return _curve(inputs, result["rows"])
    asked, given = ("delta", "epsilon") if inputs.get("epsilon") is not None else ("epsilon", "delta")
    facts = (
        answer_fact(inputs, result, asked, given),
        *limit_facts(inputs, [result]),
        *noise_given(inputs),
        *setting(inputs),
        *certificate_facts(result, asked),
        *utility_facts(inputs, result),
        *assumptions_facts([result]),
    )
    return Report(facts=facts, statement=result["statement"])


def _curve(inputs: Document, rows: list[Document]) -> Report:
    columns: list[Column] = [
        ("delta", lambda row: exact(row["delta"])),
        ("epsilon", lambda row: round_up(row["epsilon"])),
        ("order", lambda row: order_text(row["order"])),
        ("lower bound", lambda row: down(row["lower_bound"])),
        ("bound", lambda row: row["bound"]),
    ]
    facts = (
        *limit_facts(inputs, rows),
        *noise_given(inputs),
        adjacency_fact(inputs),
        *setting(inputs),
        *utility_facts(inputs, rows[0]),
        *assumptions_facts(rows),
    )
    return Report(table=table(columns, rows), facts=facts)


def _compare(inputs: Document, result: Document) -> Report:
    columns: list[Column] = [
        ("mechanism", lambda row: row["mechanism"]),
        ("strategy", lambda row: row["strategy"]),
        ("gamma", lambda row: exact(row["gamma"])),
        ("noise mult.", lambda row: up(row["noise_multiplier"])),
        ("effective", lambda row: up(row["effective_noise_multiplier"])),
        ("epsilon", lambda row: up(row["epsilon"])),
        ("bits/client", lambda row: up(row["bits_per_client"])),
        ("bound", lambda row: row["bound"]),
    ]
    if not inputs["at_equal_mse"]:  # there it is 1, give or take the last bit
        columns.insert(6, ("MSE ratio", lambda row: up((row["mse"] or {}).get("ratio"))))
    if is_factorized(inputs) and not inputs["at_equal_mse"]:  # what strategies are compared by
        columns.insert(6, ("MSE", lambda row: up((row["mse"] or {}).get("total"))))
    rows = [row for row in result["rows"] if not row.get("privunit")]
    shuffled = [row for row in result["rows"] if row.get("privunit")]
    target = f"epsilon {exact(inputs['epsilon'])}, delta {exact(inputs['delta'])}"
    equal_mse = (
        f"of the {plain_mechanism(inputs)} mechanism, whose MSE all rows have"
        if inputs["at_equal_mse"]
        else ""
    )
    facts = (
        Fact("target", target, equal_mse),
        *_reference(inputs, rows),
        Fact("accountant", inputs["accountant"], "of every row" + " of the first table" * bool(shuffled)),
        adjacency_fact(inputs),
        # What differs from row to row stands in the table.
        *setting({**inputs, "mechanism": None, "gamma": None}),
        *assumptions_facts(rows),
        *(privunit_facts(shuffled) if shuffled else ()),
    )
    further = (privunit_table(shuffled),) if shuffled else ()
    return Report(table=table(columns, rows), further=further, facts=facts)


def _reference(inputs: Document, rows: list[Document]) -> tuple[Fact, ...]:
    """The MSE that all ratios of a comparison are relative to."""
    totals = [row["mse"]["gaussian_total"] for row in rows if row["mse"] is not None]
    if inputs["at_equal_mse"] or not totals:
        return ()
    words = f"MSE of the {plain_mechanism(inputs)} mechanism (row 1)"
    return (Fact("MSE ratio", f"relative to {round_up(totals[0])}", words),)


def _sweep(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.sweep import sweep_report

    return sweep_report(inputs, result)


def _plan(inputs: Document, result: Document) -> Report:
    (row,) = result["rows"]
    is_given = all(inputs.get(name) is None for name in _OVERHEAD)
    choice = (
        # In full: beside a gamma rounded up, the noise below would be too little.
        Fact(
            "gamma", exact(result["gamma"]), "" if is_given else "smallest found within the allowed overhead"
        ),
        Fact("compression", round_down(result["compression"]), "1 / gamma"),
    )
    allowed = tuple(
        Fact(
            "allowed overhead",
            f"{exact(inputs[name])} ({100 * inputs[name]:.6g} %)",
            f"of the {plain_mechanism(inputs)} {words}",
        )
        for name, words in _OVERHEAD.items()
        if inputs.get(name) is not None
    )
    # The mechanism's line names inputs; the chosen gamma is not one and stands above.
    rest = _calibrate({**inputs, "gamma": None}, row)
    return Report(facts=choice + allowed + rest.facts, statement=rest.statement)


def _check(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.check import check_report

    return check_report(inputs, result)


def _selftest(inputs: Document, result: Document) -> Report:  # noqa: ARG001 - the common signature
    """One row per kind of case; cases that fail are listed below."""
    kinds: dict[str, list[Document]] = {}
    for case in result["cases"]:
        kinds.setdefault(" ".join(word for word in case["name"].split() if "=" not in word), []).append(case)
    columns: list[Column] = [
        ("recomputed", lambda row: row["kind"]),
        ("cases", lambda row: str(len(row["cases"]))),
        ("result", lambda row: "holds" if all(case["holds"] for case in row["cases"]) else "FAILS"),
        ("largest difference", lambda row: _largest_difference(row["cases"])),
    ]
    failed = (
        Fact("failed", case["name"], f"tolerance {exact(case['tolerance'])}")
        for case in result["cases"]
        if not case["holds"]
    )
    return Report(
        table=table(columns, [{"kind": kind, "cases": cases} for kind, cases in kinds.items()]),
        facts=tuple(failed),
        paragraph=f"{result['held']} of {result['total']} hold; differences are relative",
    )


def _largest_difference(cases: list[Document]) -> str | None:
    differences = [case["relative_difference"] for case in cases]
    return "not a number" if None in differences else up(max(differences), 2)


def _simulate(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.simulation import simulate_report

    return simulate_report(inputs, result)


def _train(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.training import train_report

    return train_report(inputs, result)


def _version(inputs: Document, result: Document) -> Report:  # noqa: ARG001 - the common signature
    versions = [
        f"{name.replace('_', ' ')} {found or 'missing'}" for name, found in result.items() if name != "csgm"
    ]
    return Report(paragraph=f"csgm {result['csgm']} ({', '.join(versions)})")


def _factorize(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.factorization import factorize_report

    return factorize_report(inputs, result)


def _inspect(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.factorization import inspect_report

    return inspect_report(inputs, result)


_REPORTS: dict[str, Callable[[Document, Document], Report]] = {
    "calibrate": _calibrate,
    "account": _account,
    "compare": _compare,
    "plan": _plan,
    "sweep": _sweep,
    "check": _check,
    "factorize": _factorize,
    "inspect": _inspect,
    "simulate": _simulate,
    "train": _train,
    "selftest": _selftest,
    "version": _version,
}
