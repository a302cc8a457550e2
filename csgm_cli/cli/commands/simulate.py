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
#: Options of only one experiment.
_MEAN = ("from", "vectors", "trials")
_TRAIN = (
    "data", "partition", "model", "local_steps", "learning_rate", "momentum", "epsilon", "delta", "mechanism",
    *MECHANISM, *_COHORT, "accountant", "checkpoint", "plot", "plot_size",
)  # fmt: skip


#: Defaults of train.
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
        vectors, factors = load_vectors(request, plan), load_factors(request, plan)
        found = simulate_mean(plan, vectors, request["trials"], request["seed"], factors)
    inputs = {**{name: request[name] for name in _ASKED}, **plan_inputs(plan)}
    failures = [_failure(prediction) for prediction in found.predictions if not prediction.holds]
    report(request, simulation_document(inputs, found, [*notices, _NOT_PRIVATE]), failures)
    return ExitCode.OK if found.holds else ExitCode.CLAIM_FAILED


def _failure(prediction: Prediction) -> str:
    interval = f"[{prediction.low!r}, {prediction.high!r}]"
    return f"{prediction.quantity}: the formula gives {prediction.predicted!r}, outside {interval}"


class _Simulate(Command):
    """The command, whose help after the name of an experiment is that of the experiment alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and remember which experiment was named, for `get_help`."""
        ctx.meta[__name__] = next((_EXPERIMENTS[word] for word in args if word in _EXPERIMENTS), None)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help of the experiment if one was named."""
        experiment: Command | None = ctx.meta.get(__name__)
        return super().get_help(ctx) if experiment is None else experiment.get_help(ctx)


_ABOUT = {
    "mean": "run the clients and the server of a saved calibration many times. Exits with 1 if the mean"
    " squared error or the bias of the mean contradicts the formulas.",
    "train": "calibrate a mechanism, train a model with it on simulated clients, and record the accuracy and"
    " the bytes of each round. Ctrl-C keeps the rounds so far.",
}
_PRIVACY = "The results are NOT PRIVATE: all randomness comes from --seed."
_EXAMPLES = (
    "csgm simulate mean --from result.json",
    "csgm simulate mean --from result.json --trials 50 --wire float16 --format json",
    "csgm simulate train",
    "csgm simulate train --epsilon 4 --gamma 0.02 --training-rounds 5 --format json",
)
_OPTIONS = [
    option("from", text="mean: saved JSON result of calibrate, with dim and cohort size."),
    *options("rotation", "wire", "vectors", "trials"),
    *options("data", "partition", "model", "local_steps", "learning_rate", "momentum"),
    *(option(name, text=f"{words} Default: {value}.") for name, words, value in _DEFAULTS),
    *options(*(name for name in ("mechanism", *MECHANISM, *_COHORT) if name not in _DEFAULTED)),
    *options("accountant"),
    option("seed", text="Seed of all random numbers.", default=0),
    *options("checkpoint", "plot", "plot_size", *OUTPUT),
]


def _experiment(what: str, others: tuple[str, ...]) -> Command:
    """The command as it is with one experiment, for its help: without the options of the other one."""
    named = click.Argument(["what"], type=Choice([what]), metavar=what)
    return Command(
        "simulate",
        run,
        help=f"{_ABOUT[what][0].upper()}{_ABOUT[what][1:]}\n\n{_PRIVACY}",
        options=[named, *(known for known in _OPTIONS if known.name not in others)],
        examples=[example for example in _EXAMPLES if what in example],
    )


_EXPERIMENTS = {"mean": _experiment("mean", _TRAIN), "train": _experiment("train", _MEAN)}

command = _Simulate(
    "simulate",
    run,
    help="\n\n".join(
        [
            "Compare simulated errors with the formulas, or train a model.",
            *(f"{what}: {about}" for what, about in _ABOUT.items()),
            _PRIVACY,
            "csgm simulate mean --help and csgm simulate train --help show the options of one of them.",
        ]
    ),
    options=[click.Argument(["what"], type=Choice(list(_EXPERIMENTS))), *_OPTIONS],
    examples=_EXAMPLES,
    complete=complete,
)
