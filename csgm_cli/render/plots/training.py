"""The figure of a training: accuracy after each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.plots.figure import Axis, Figure, Panel, lines_of

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def training_figure(document: Document) -> Figure:
    """Return the accuracy against the round; the document has at least one."""
    inputs, result = document["inputs"], document["result"]
    points = [(float(row["round"]), row["accuracy"]) for row in result["rows"]]
    lines = lines_of({f"{inputs['mechanism']}, gamma {inputs['gamma']:g}": points})
    panel = Panel("", Axis("round", log=False), Axis("accuracy (test examples)", log=False), lines)
    caption = (
        f"{result['dataset']}, {inputs['model']}, epsilon {inputs['epsilon']:g}, delta {inputs['delta']:g},"
        f" {inputs['population_size']:,} clients, cohorts of {inputs['cohort_size']:,}, seed {inputs['seed']}"
    )
    return Figure((panel,), caption)
