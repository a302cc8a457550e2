"""The text report of a factorization: errors and gaps rounded up, bounds down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from csgm_cli.errors import one_line
from csgm_cli.render.reports.parts import Column, Fact, Report, table
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csgm_cli.render.document import Document

#: Characters of a hash that are shown.
_HASH = 16

_STRATEGY = {
    "optimal": "optimal within the gap",
    "toeplitz-sqrt": "B = C, the square root of the workload",
    "toeplitz-sqrt-normalized": "square root with the columns of C normalised to 1",
    "toeplitz-optimal": "best Toeplitz factorization found (local optimum)",
    "tree": "binary tree",
    "honaker-online": "binary tree, each sum improved by the nodes below",
    "honaker-full": "binary tree, each sum improved by the whole tree",
    "identity": "independent noise on every step",
    "output": "independent noise on every released row",
    "banded": "the best banded C, within the gap",
    "fixed-order": "dense C, columns of one client orthogonal, within the gap",
    "banded-toeplitz": "C with the same coefficients in every column",
}
_WORKLOAD = {
    "prefix-sum": "running sums",
    "matrix": "of the file",
}
_OBJECTIVE = {"mean": "mean squared error over the rows", "max": "largest squared error of a row"}


def factorize_report(inputs: Document, result: Document) -> Report:
    """One factorization, or a table of strategies."""
    if "rows" not in result:
        return Report(facts=(*_errors(result), *_certificate(result), *_setting(result)))
    rows = result["rows"]
    first = next((row for row in rows if row["bands"]), rows[0])
    repeated = rows[0]["participations"] is not None
    columns: list[Column] = [
        ("strategy", lambda row: row["strategy"]),
        ("restarts", _restarts),
        ("mean squared error", lambda row: round_up(row["mean_squared_error"])),
        ("rmse", lambda row: round_up(row["rmse"])),
        ("max squared error", lambda row: round_up(row["max_squared_error"])),
        ("sensitivity", lambda row: round_up(row["sensitivity"])),
        ("excess", lambda row: round_up(row["gap"], 3)),
    ]
    without = ("rmse", "sensitivity") if repeated else ("restarts",)
    columns = [column for column in columns if column[0] not in without]
    of = "no banded C has less error" if repeated else "no factorization has a smaller error"
    facts = (
        *_setting({**first, "strategy": None}),
        Fact(
            "lower bound",
            round_down(first["lower_bound"]),
            f"{of}; excess is relative to it",
        ),
        Fact("tolerance", exact(inputs["tolerance"]), "certified relative gap of the optimum"),
    )
    return Report(table=table(columns, rows), facts=facts)


def _restarts(row: Document) -> str:
    """How often the noise starts anew."""
    return exact(row["epochs"] - 1) if row["epochs"] > 1 else "none"


def inspect_report(inputs: Document, result: Document) -> Report:
    """Every claim, and the numbers that were computed."""
    claims = result["claims"]
    claimed = any(claim["claimed"] is not None for claim in claims)
    columns: list[Column] = [
        ("claim" if claimed else "check", lambda row: row["name"]),
        ("result", lambda row: "holds" if row["holds"] else "FAILS"),
        ("claimed", lambda row: _shown(row["claimed"]) if claimed else None),
        ("computed", lambda row: _shown(row["computed"])),
    ]
    listed = table(columns, claims) if claims else None
    facts = (
        *_errors(result),
        *_certificate(result),
        *_setting(result),
        Fact("file", one_line(inputs["file"])),
    )
    return Report(table=listed, facts=facts, paragraph=_summary(claims, claimed=claimed))


def _summary(claims: Sequence[Document], *, claimed: bool) -> str:
    failed, total = sum(not claim["holds"] for claim in claims), len(claims)
    if claimed:
        return f"{failed} of {total} claims FAIL" if failed else f"all {total} claims hold"
    if failed:
        return f"{failed} of {total} checks FAIL; the file itself claims nothing"
    return "the file claims nothing: every number was computed from its arrays"


def _errors(result: Document) -> tuple[Fact, ...]:
    mean = Fact(
        "mean squared error",
        round_up(result["mean_squared_error"]),
        "||B||_F^2 sensitivity^2 / T, at unit noise",
    )
    worst = Fact("max squared error", round_up(result["max_squared_error"]), "of the worst row")
    rmse = Fact("rmse", round_up(result["rmse"]), "root of the mean squared error")
    return (mean, rmse, worst) if result["objective"] == "mean" else (worst, mean, rmse)


def _certificate(result: Document) -> tuple[Fact, ...]:
    squared = round_up(result["sensitivity_squared"])
    of = "banded C" if result["bands"] else "factorization"
    if result["strategy"] == "fixed-order":
        of = "such C"
    return (
        Fact(
            "lower bound",
            round_down(result["lower_bound"]),
            f"no {of} has a smaller {result['objective']} squared error",
        ),
        Fact("gap", round_up(result["gap"], 3), "relative to the lower bound"),
        Fact("sensitivity", round_up(result["sensitivity"]), f"largest column norm of C; squared {squared}"),
    )


def _setting(result: Document) -> tuple[Fact, ...]:
    strategy, workload = result["strategy"], result["workload"]
    word, _, buffers = (strategy or "").partition(":")
    about = f"{buffers} numbers of state per model coordinate" if buffers else _STRATEGY.get(word, "")
    named = (Fact("strategy", strategy, about),) if strategy else ()
    return (
        *named,
        Fact("workload", workload, _WORKLOAD.get(workload, "running sums of SGD steps")),
        Fact("T", exact(result["T"]), "rows"),
        *_participation(result),
        Fact("objective", result["objective"], _OBJECTIVE[result["objective"]]),
    )


def _participation(result: Document) -> tuple[Fact, ...]:
    facts = []
    if result["epochs"] > 1:
        apart = "each with fresh noise; errors are over all of them"
        facts.append(Fact("epochs", exact(result["epochs"]), apart))
    if result["participations"] is not None:
        how = "exactly" if result["strategy"] == "fixed-order" else "at least"
        apart = f"of one client, {how} {exact(result['min_separation'])} steps apart"
        facts.append(Fact("participations", exact(result["participations"]), apart))
    if result["bands"] is not None:
        facts.append(Fact("bands", exact(result["bands"]), "C_ij is 0 if i - j is at least this"))
    return tuple(facts)


def _shown(value: Any) -> str:  # noqa: ANN401 - a scalar of JSON
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):  # a hash: enough of it to tell two apart
        return value if len(value) <= _HASH else f"{value[:_HASH]}..."
    return exact(value)
