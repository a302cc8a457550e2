"""``csgm simulate mean``: run a calibrated mechanism many times and compare its error with the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.simulations import build_plan, load_factors, load_vectors, plan_inputs
from csgm_cli.cli.options.definitions import OUTPUT, option, options
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.simulation import Prediction

_NOT_PRIVATE = Notice(
    "not-private", "NOT PRIVATE: noise, masks and cohorts of a simulation come from its --seed"
)
_ASKED = ("what", "from", "rotation", "wire", "vectors", "trials", "seed")


def run(request: Request) -> ExitCode:
    """Simulate and report; exit with 1 if an estimate contradicts its formula."""
    from csgm_cli.render.document import simulation_document
    from csgm_cli.simulation.mean import simulate_mean

    with working():
        plan = build_plan(request)
        found = simulate_mean(
            plan, load_vectors(request), request["trials"], request["seed"], load_factors(request, plan)
        )
    inputs = {**{name: request[name] for name in _ASKED}, **plan_inputs(plan)}
    failures = [_failure(prediction) for prediction in found.predictions if not prediction.holds]
    report(request, simulation_document(inputs, found, [_NOT_PRIVATE]), failures)
    return ExitCode.OK if found.holds else ExitCode.CLAIM_FAILED


def _failure(prediction: Prediction) -> str:
    interval = f"[{prediction.low!r}, {prediction.high!r}]"
    return f"{prediction.quantity}: the formula gives {prediction.predicted!r}, outside {interval}"


command = Command(
    "simulate",
    run,
    help="""Compare simulated errors with the formulas.

    Runs the clients and the server of a calibrated mechanism as in training. Exits with 1 if the mean
    squared error or the bias of the mean contradicts the formulas. The results are NOT PRIVATE: all
    randomness comes from --seed.""",
    options=[
        click.Argument(["what"], type=Choice(["mean"])),
        option(
            "from",
            required=True,
            text="Saved JSON result of calibrate to run; it needs dim and cohort size.",
        ),
        *options("rotation", "wire", "vectors", "trials"),
        option("seed", text="Seed of all random numbers.", default=0),
        *options(*OUTPUT),
    ],
    examples=(
        "csgm simulate mean --from result.json",
        "csgm simulate mean --from result.json --trials 50 --wire float16 --format json",
    ),
)
