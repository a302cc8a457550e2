"""The text report of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.errors import one_line
from csgm_cli.render.reports.parts import Column, Fact, Report, table
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

_QUANTITIES = {
    "mse": "mean squared error",
    "relative_bias": "bias along the mean",
    "squared_bias": "squared bias",
}
_DIGITS = 4


def simulate_report(inputs: Document, result: Document) -> Report:
    """Each quantity by its formula and as simulated."""
    columns: list[Column] = [
        ("check", lambda row: _QUANTITIES[row["quantity"]]),
        ("result", lambda row: "holds" if row["holds"] else "FAILS"),
        ("formula", lambda row: f"{row['predicted']:.{_DIGITS}g}"),
        ("simulated", lambda row: f"{row['estimate']:.{_DIGITS}g}"),
        ("low", lambda row: round_down(row["low"], _DIGITS)),
        ("high", lambda row: round_up(row["high"], _DIGITS)),
    ]
    worst = result["worst_case_mse"]
    facts = (
        Fact("trials", exact(result["trials"]), _what(inputs)),
        Fact("confidence", f"{result['confidence']:g}", "of each interval from low to high"),
        *([] if worst is None else [Fact("worst case", round_up(worst), "MSE for the worst client vectors")]),
        Fact("encoding", round_up(result["encoding_error"], 3), "relative change of the mean by clipping"),
        Fact("mechanism", inputs["mechanism"], _setting(inputs)),
        Fact("noise", round_up(inputs["sigma"]), f"sigma, of {one_line(inputs['from'])}"),
    )
    seeded = f"NOT PRIVATE: all randomness comes from seed {inputs['seed']}"
    return Report(table=table(columns, result["rows"]), facts=facts, paragraph=seeded)


def _what(inputs: Document) -> str:
    return "simulated rounds" if inputs["T"] is None else f"simulated epochs of {inputs['T']} rounds"


def _setting(inputs: Document) -> str:
    parts = [
        f"gamma {inputs['gamma']:g}",
        f"dim {exact(inputs['dim'])}",
        f"{exact(inputs['cohort_size'])} clients",
        f"rotation {inputs['rotation']}",
        inputs["wire"],
    ]
    return ", ".join(parts)
