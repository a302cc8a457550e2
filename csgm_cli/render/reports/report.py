"""Any document as a text report: labelled facts, a table, a paragraph.

Every number is rounded to the safe side here, once for all formats that people read: noise, privacy
parameters and costs up; lower bounds and compression down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from csgm_cli.render.document import command_of
from csgm_cli.render.reports.parts import (
    Column,
    Fact,
    Report,
    down,
    error_parts_text,
    is_factorized,
    order_text,
    plain_mechanism,
    table,
    up,
    verified_text,
)
from csgm_cli.render.reports.setting import setting
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


_PROOF = {
    "exact": "exact privacy profile of the Gaussian mechanism",
    "renyi": "Renyi bound at the best real order",
    "gaussian-matched": "Gaussian-matched conversion",
    "concentrated": "convex test-function bound",
    "triangle": "hockey-stick triangle inequality of add and remove bounds",
    "profile": "exact privacy profile, every coordinate at its clip",
    "mask-revealed": "privacy profile of the Gaussian mechanism, masks public",
}
_DIRECTION = {
    "tight-add": "; adding one client decides",
    "tight-remove": "; removing one client decides",
}
_SIGMA = "noise std on each coordinate of the sum"
_CONVERSION = {"canonne-kamath-steinke-2020": "Canonne-Kamath-Steinke 2020"}
_OVERHEAD = {
    "max_mse_overhead": "mechanism's MSE",
    "max_noise_overhead": "mechanism's noise multiplier",
}


def report(document: Document) -> Report:
    """Return the text report of any document but an error."""
    return _REPORTS[command_of(document)](document["inputs"], document["result"])


def _calibrate(inputs: Document, result: Document) -> Report:
    facts = (
        *_noise(inputs, result),
        *_privacy(result, ("epsilon", "delta")),
        *setting(inputs, [result]),
        *_utility(inputs, result),
        *_assurance(result, "noise multiplier"),
    )
    return Report(facts=facts, paragraph=result["statement"])


def _account(inputs: Document, result: Document) -> Report:
    if "rows" in result:
        return _curve(inputs, result["rows"])
    asked, given = ("delta", "epsilon") if inputs.get("epsilon") is not None else ("epsilon", "delta")
    facts = (
        *_privacy(result, (asked, given)),
        *_limit(inputs, [result]),
        *_noise_given(inputs),
        *setting(inputs, [result]),
        *_utility(inputs, result),
        *_assurance(result, asked),
    )
    return Report(facts=facts, paragraph=result["statement"])


def _curve(inputs: Document, rows: list[Document]) -> Report:
    columns: list[Column] = [
        ("delta", lambda row: exact(row["delta"])),
        ("epsilon", lambda row: round_up(row["epsilon"])),
        ("order", lambda row: order_text(row["order"])),
        ("lower bound", lambda row: down(row["lower_bound"])),
        ("bound", lambda row: row["bound"]),
    ]
    facts = (
        *_limit(inputs, rows),
        *_noise_given(inputs),
        *setting(inputs, rows),
        *_utility(inputs, rows[0]),
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
    target = f"epsilon {exact(inputs['epsilon'])}, delta {exact(inputs['delta'])}"
    equal_mse = (
        f"of the {plain_mechanism(inputs)} mechanism, whose MSE all rows have"
        if inputs["at_equal_mse"]
        else ""
    )
    facts = (
        Fact("target", target, equal_mse),
        *_reference(inputs, result["rows"]),
        Fact("accountant", inputs["accountant"], "of every row"),
        # What differs from row to row stands in the table.
        *setting({**inputs, "mechanism": None, "gamma": None}, result["rows"]),
    )
    return Report(table=table(columns, result["rows"]), facts=facts)


def _reference(inputs: Document, rows: list[Document]) -> tuple[Fact, ...]:
    """What the MSE ratios of a comparison are to: one MSE for all rows."""
    totals = [row["mse"]["gaussian_total"] for row in rows if row["mse"] is not None]
    if inputs["at_equal_mse"] or not totals:
        return ()
    words = f"the MSE of the {plain_mechanism(inputs)} mechanism in the first row, without compression"
    return (Fact("MSE ratio", f"to {round_up(totals[0])}", words),)


def _sweep(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.sweep import sweep_report

    return sweep_report(inputs, result)


def _plan(inputs: Document, result: Document) -> Report:
    (row,) = result["rows"]
    choice = (
        # In full: beside a gamma rounded up, the noise below would be too little.
        Fact("gamma", exact(result["gamma"]), "smallest found within the allowed overhead"),
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
    return Report(facts=choice + allowed + rest.facts, paragraph=rest.paragraph)


def _check(inputs: Document, result: Document) -> Report:
    from csgm_cli.render.reports.check import check_report

    return check_report(inputs, result)


def _selftest(inputs: Document, result: Document) -> Report:  # noqa: ARG001 - the common signature
    columns: list[Column] = [
        ("case", lambda row: row["name"]),
        ("result", lambda row: "holds" if row["holds"] else "FAILS"),
        ("relative difference", lambda row: up(row["relative_difference"], 2) or "not a number"),
        ("tolerance", lambda row: exact(row["tolerance"])),
    ]
    summary = f"{result['held']} of {result['total']} hold"
    return Report(table=table(columns, result["cases"]), paragraph=summary)


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
    "selftest": _selftest,
    "version": _version,
}


def _noise_given(inputs: Document) -> tuple[Fact, ...]:
    """The noise that was given in full, and what follows from it rounded up."""
    names = ("noise_multiplier", "sigma")
    full = {name: exact(inputs[name]) for name in names}
    shortest = min(full.values(), key=len)  # the product of two short numbers is seldom as short
    return _noise(inputs, inputs, {name: text for name, text in full.items() if len(text) == len(shortest)})


def _noise(inputs: Document, noise: Document, given: Mapping[str, str] | None = None) -> tuple[Fact, ...]:
    """The three ways to say the noise, rounded up but for what was ``given``."""
    where = "std of Z in the noise B Z on the sums" if is_factorized(inputs) else _SIGMA
    names = ("noise_multiplier", "effective_noise_multiplier", "sigma")
    text = {name: round_up(noise[name]) for name in names} | dict(given or {})
    return (
        Fact("noise multiplier", text["noise_multiplier"], "sigma / l2_norm"),
        Fact(
            "effective noise multiplier",
            text["effective_noise_multiplier"],
            "sigma / (gamma l2_norm), comparable with the Gaussian mechanism",
        ),
        Fact("sigma", text["sigma"], where),
    )


def _privacy(result: Document, answer_first: tuple[str, str]) -> tuple[Fact, ...]:
    answer, given = answer_first
    conversion = result["conversion"]
    converted = f", converted by {_CONVERSION.get(conversion, conversion)}" if conversion else ""
    facts = [
        Fact(answer, round_up(result[answer]), f"at {given} {round_up(result[given])}"),
        Fact("bound", result["bound"], _proof(result) + converted),
    ]
    if (order := order_text(result["order"])) is not None:
        facts.append(Fact("order", order, "of the Renyi divergence"))
    return tuple(facts)


def _proof(result: Document) -> str:
    """The proof of the bound and its direction."""
    if result["bound"] == "paper":
        return "Renyi bound at the best integer order"
    return _PROOF.get(result["proof"], "") + _DIRECTION.get(result["bound"], "")


def _limit(inputs: Document, rows: list[Document]) -> tuple[Fact, ...]:
    limit = inputs.get("max_epsilon")
    if limit is None:
        return ()
    holds = all(row["epsilon"] <= limit for row in rows)
    return (Fact("max epsilon", exact(limit), "holds" if holds else "EXCEEDED"),)


def _utility(inputs: Document, result: Document) -> tuple[Fact, ...]:
    facts = []
    if result["mean_noise_std"] is not None:
        facts.append(Fact("mean noise std", round_up(result["mean_noise_std"]), "left on the mean estimate"))
    row_noise, last_row = _rows(result)
    facts += row_noise
    if (mse := result["mse"]) is not None:
        average = "mean over the rows, " if is_factorized(inputs) else ""
        facts.append(Fact("MSE", round_up(mse["total"]), average + error_parts_text(mse)))
        facts += last_row
        if "ratio" in mse:
            baseline = f"{round_up(mse['gaussian_total'])}, {_baseline(result)}"
            note = f"relative to the {plain_mechanism(inputs)} mechanism ({baseline})"
            facts.append(Fact("MSE ratio", round_up(mse["ratio"]), note))
    if (bits := result.get("bits_per_client")) is not None:
        facts.append(Fact("bits per client", round_up(bits), "expected, for the values alone"))
    return tuple(facts)


def _rows(result: Document) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Noise and error of the rows of a factorized stream; nothing without one."""
    if result["noise_std_per_row"] is None and result["mse_last_row"] is None:
        return (), ()
    from csgm_cli.render.reports.factorized_stream import last_row_error, row_noise

    return row_noise(result), last_row_error(result)


def _baseline(result: Document) -> str:
    """The accountant of the Gaussian mechanism in the MSE ratio."""
    uses_profile = result["lower_bound"] is not None
    if result["bound"] not in ("rdp", "paper") or uses_profile:
        return "exact accountant"
    return f"{result['bound']} accountant; smaller by exact"


def _assurance(result: Document, quantity: str) -> tuple[Fact, ...]:
    facts = []
    if (bound := result["lower_bound"]) is not None:
        is_tight = bound > 0 or result.get(quantity) == 0.0
        said = (
            f"no analysis can prove a smaller {quantity}" if is_tight else "no positive lower bound is known"
        )
        facts.append(Fact("lower bound", round_down(bound), said))
    if (verified := result["verified"]) is not None:
        facts.append(Fact("verified", *verified_text(verified)))
    return tuple(facts)
