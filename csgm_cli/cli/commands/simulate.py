"""``csgm simulate``: the error of a mechanism against the formulas, or a training with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.simulations import build_plan, load_factors, load_vectors, plan_inputs
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, OUTPUT, option, options
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.options.sources import Rank, flag_of
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.errors import UsageError
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.simulation import Prediction

_NOT_PRIVATE = Notice(
    "not-private", "NOT PRIVATE: noise, masks and cohorts of a simulation come from its --seed"
)
_ASKED = ("what", "from", "rotation", "wire", "vectors", "trials", "seed")


#: The dimension is that of the model.
_COHORT = tuple(name for name in COHORT if name != "dim")
#: Options of one experiment alone.
_MEAN = ("from", "vectors", "trials")
_TRAIN = (
    "data", "partition", "model", "local_steps", "learning_rate", "momentum", "epsilon", "delta", "mechanism",
    *MECHANISM, *_COHORT, "accountant", "checkpoint", "plot", "plot_size",
)  # fmt: skip


#: What train is run with where nothing else is asked for.
_DEFAULTS = (
    ("epsilon", "Privacy loss epsilon.", "8"),
    ("delta", "Target delta; well below 1 / number of clients.", "1e-5"),
    ("gamma", "Probability that a coordinate is sent.", "0.05"),
    ("population_size", "Number of clients.", "600"),
    ("cohort_size", "Clients per round; with a sampling rate, their expected number.", "200"),
    ("training_rounds", "Rounds of disjoint cohorts in a fixed order of all clients.", "30"),
)
_DEFAULTED = [name for name, *_ in _DEFAULTS]


def run(request: Request) -> ExitCode:
    """Run the experiment that was asked for."""
    if request["what"] == "mean":
        return _mean(request)
    from csgm_cli.cli.commands.train import train

    return train(request, _NOT_PRIVATE)


def complete(request: Request) -> Request:
    """Return ``request`` with what its experiment needs; ``UsageError`` for an option of the other one."""
    what, others = request["what"], _TRAIN if request["what"] == "mean" else _MEAN
    for name in others:
        if request.rank([name]) == Rank.FLAG:
            other = "train" if what == "mean" else "mean"
            message = f"{flag_of(name)} is an option of csgm simulate {other}, not of {what}"
            raise UsageError("conflicting-options", message, "leave it out")
    if what == "train":
        from csgm_cli.cli.inputs.trainings import with_training_defaults

        return with_training_defaults(request.without(_MEAN))
    if request["from"] is None:
        message = "csgm simulate mean needs --from"
        raise UsageError("missing-option", message, "csgm calibrate ... --format json --output RESULT.json")
    return request.without(_TRAIN)


def _mean(request: Request) -> ExitCode:
    """Simulate and report; exit with 1 if an estimate contradicts its formula."""
    from csgm_cli.render.document import simulation_document
    from csgm_cli.simulation.mean import simulate_mean

    with working():
        plan, notices = build_plan(request)
        found = simulate_mean(
            plan, load_vectors(request), request["trials"], request["seed"], load_factors(request, plan)
        )
    inputs = {**{name: request[name] for name in _ASKED}, **plan_inputs(plan)}
    failures = [_failure(prediction) for prediction in found.predictions if not prediction.holds]
    report(request, simulation_document(inputs, found, [*notices, _NOT_PRIVATE]), failures)
    return ExitCode.OK if found.holds else ExitCode.CLAIM_FAILED


def _failure(prediction: Prediction) -> str:
    interval = f"[{prediction.low!r}, {prediction.high!r}]"
    return f"{prediction.quantity}: the formula gives {prediction.predicted!r}, outside {interval}"


command = Command(
    "simulate",
    run,
    help="""Compare simulated errors with the formulas, or train a model.

    mean: run the clients and the server of a saved calibration many times. Exits with 1 if the mean squared
    error or the bias of the mean contradicts the formulas.

    train: train a model on simulated clients with a mechanism that it calibrates, and record the accuracy and
    the bytes of each round. Ctrl-C keeps the rounds so far.

    The results are NOT PRIVATE: all randomness comes from --seed.""",
    options=[
        click.Argument(["what"], type=Choice(["mean", "train"])),
        option("from", text="mean: saved JSON result of calibrate, with dim and cohort size."),
        *options("rotation", "wire", "vectors", "trials"),
        *options("data", "partition", "model", "local_steps", "learning_rate", "momentum"),
        *(option(name, text=f"{words} Default: {value}.") for name, words, value in _DEFAULTS),
        *options(*(name for name in ("mechanism", *MECHANISM, *_COHORT) if name not in _DEFAULTED)),
        *options("accountant"),
        option("seed", text="Seed of all random numbers.", default=0),
        *options("checkpoint", "plot", "plot_size", *OUTPUT),
    ],
    examples=(
        "csgm simulate mean --from result.json",
        "csgm simulate mean --from result.json --trials 50 --wire float16 --format json",
        "csgm simulate train",
        "csgm simulate train --epsilon 4 --gamma 0.02 --training-rounds 5 --format json",
    ),
    complete=complete,
)
