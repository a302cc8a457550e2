"""The text report of a simulated training."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from csgm_cli.errors import one_line
from csgm_cli.render.reports.parts import Column, Fact, Report, table
from csgm_cli.rounding import exact, round_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.render.document import Document

#: Rounds that the table shows; JSON and CSV have all.
_MOST_ROWS = 10
#: Characters; with more the report would be wider than 80 columns.
_WIDEST_NAME = 18


def train_report(inputs: Document, result: Document) -> Report:
    """Accuracy after some of the rounds, what the plan costs, and how it was run."""
    columns: list[Column] = [
        ("round", lambda row: exact(row["round"])),
        ("accuracy", lambda row: f"{row['accuracy']:.4f}"),
        ("bytes", lambda row: exact(row["bytes"])),
        ("participations", lambda row: exact(row["participations"])),
    ]
    cost, rows = result["cost"], result["rows"]
    facts = (
        Fact("accuracy", _accuracy(result), _progress(result)),
        Fact(
            "guarantee",
            f"epsilon {round_up(result['epsilon'])}",
            f"at delta {exact(result['delta'])}, of the plan",
        ),
        Fact(
            "inflation", round_up(cost["noise_inflation"], 4), "effective noise, relative to no compression"
        ),
        Fact(
            "payload",
            f"{exact(round(cost['bytes_per_client']))} bytes",
            f"expected; all parameters in float32: {exact(cost['dense_bytes_per_client'])}",
        ),
        Fact("noise", round_up(cost["noise_to_signal"], 3), "noise-to-signal ratio of a mean update"),
        Fact("mechanism", inputs["mechanism"], _setting(inputs)),
        *_factors(inputs),
        Fact("clients", exact(inputs["population_size"]), _clients(inputs)),
        Fact(
            "data",
            _name(result["dataset"]),
            f"{exact(result['examples_per_client'])} examples for each client, {inputs['partition']}",
        ),
        Fact("model", inputs["model"], f"{exact(result['parameters'])} parameters"),
    )
    seeded = f"NOT PRIVATE: all randomness comes from seed {inputs['seed']}"
    return Report(table=table(columns, _some(rows)) if rows else None, facts=facts, paragraph=seeded)


def _accuracy(result: Document) -> str:
    return "-" if result["accuracy"] is None else f"{result['accuracy']:.4f}"


def _progress(result: Document) -> str:
    done, planned = len(result["rows"]), result["planned_rounds"]
    return (
        f"after {planned} rounds" if result["complete"] else f"INTERRUPTED after {done} of {planned} rounds"
    )


def _some(rows: list[Document]) -> list[Document]:
    """The last row, and rows before it in equal steps."""
    step = -(-len(rows) // _MOST_ROWS)
    return rows[(len(rows) - 1) % step :: step]


def _setting(inputs: Document) -> str:
    return f"gamma {inputs['gamma']:g}, dim {exact(inputs['dim'])}, {inputs['wire']}"


def _factors(inputs: Document) -> Iterator[Fact]:
    if inputs["T"] is not None:
        yield Fact(
            "factors", f"T {inputs['T']}", f"{inputs['strategy'] or 'file'}, epochs {inputs['epochs']}"
        )


def _clients(inputs: Document) -> str:
    sampled = f", sampling rate {inputs['sampling_rate']:g}" if inputs["sampling_rate"] < 1.0 else ""
    return f"cohorts of {exact(inputs['cohort_size'])}{sampled}"


def _name(dataset: str) -> str:
    """The end of the path: JSON has it all."""
    name = one_line(PurePath(dataset).name or dataset)
    return name if len(name) <= _WIDEST_NAME else f"...{name[3 - _WIDEST_NAME :]}"
