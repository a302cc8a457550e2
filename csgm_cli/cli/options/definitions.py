"""Every option of csgm, once: its type, its default and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from csgm_cli.cli.options.parameter_types import (
    Choice,
    File,
    Number,
    PlotSize,
    SamplingChoice,
    StrategyChoice,
    Switch,
)
from csgm_cli.cli.options.sources import flag_of, variable_of
from csgm_cli.model.mechanism import Accountant, Adjacency
from csgm_cli.model.mechanism_table import MechanismName
from csgm_cli.ranges import FORMER_NAMES
from csgm_cli.render import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Option(click.Option):
    """A click option with its heading in the help."""

    section = "Output"


@dataclass(frozen=True)
class _Spec:
    """The definition of an option for all commands. Without a ``type``, it is a number in RANGES.

    ``type`` makes the type: it may import what most commands do without.
    """

    section: str
    help: str
    type: Callable[[], click.ParamType[Any]] | None = None
    default: float | str | None = None
    metavar: str | None = None


_POINTS, _TARGET, _MECHANISM, _COHORT, _NOISE, _ACCOUNTING, _PROBLEM, _ARRAYS = (
    "Points", "Target", "Mechanism", "Cohort and rounds", "Noise", "Accounting", "Problem", "Arrays",
)  # fmt: skip
_SIMULATION, _TRAINING, _OUTPUT = "Simulation", "Training", "Output"


def _vary() -> click.ParamType[Any]:
    from csgm_cli.cli.options.vary import Vary

    return Vary()


def _objective() -> click.ParamType[Any]:
    from csgm_cli.model.factorization import Objective

    return Choice([name.value for name in Objective])


def _partition() -> click.ParamType[Any]:
    from csgm_cli.cli.options.training_types import PARTITION

    return PARTITION


def _model() -> click.ParamType[Any]:
    from csgm_cli.cli.options.training_types import MODEL

    return MODEL


def _strategy() -> click.ParamType[Any]:
    from csgm_cli.model.factorization import StrategyName

    words = [f"{name.value}:N" if name.has_buffers else name.value for name in StrategyName]
    return StrategyChoice(words)


_SPECS: dict[str, _Spec] = {
    "vary": _Spec(
        _POINTS,
        "Values of an option: a list a,b,c, or N values from LO to HI in equal steps or (log) ratios.",
        _vary,
        metavar="OPTION=LIST|LO:HI:N[log]",
    ),
    "preset": _Spec(_POINTS, "Points of a published figure.", lambda: Choice(["figure1"])),
    "epsilon": _Spec(_TARGET, "Privacy loss epsilon."),
    "delta": _Spec(_TARGET, "Target delta; well below 1 / number of clients."),
    "max_epsilon": _Spec(_TARGET, "Exit with 1 if epsilon is above this."),
    "max_mse_overhead": _Spec(
        _TARGET, "Allowed MSE overhead, relative to the plain Gaussian mechanism's (0.05 is 5 %)."
    ),
    "max_noise_overhead": _Spec(
        _TARGET,
        "Allowed overhead of the effective noise multiplier, relative to the plain Gaussian mechanism's.",
    ),
    "at_equal_mse": _Spec(_TARGET, "Compare epsilon at the plain Gaussian mechanism's MSE.", Switch),
    "with": _Spec(
        _TARGET,
        "Add local privacy behind a shuffler, without a trusted server (replace-one, one round).",
        lambda: Choice(["privunit-shuffle"]),
    ),
    "noise_multiplier": _Spec(_NOISE, "Noise std over the L2 clip norm."),
    "sigma": _Spec(_NOISE, "Noise std on each coordinate of the sum."),
    "from": _Spec(
        _NOISE,
        "Recompute a saved JSON result of calibrate, plan or account and show the drift.",
        File,
        None,
        "RESULT.json",
    ),
    "mechanism": _Spec(
        _MECHANISM,
        "Coordinate-subsampled Gaussian (CSGM), L2 or L-inf, or plain Gaussian.",
        lambda: Choice([name.value for name in MechanismName]),
        MechanismName.L2_CSGM.value,
    ),
    "gamma": _Spec(_MECHANISM, "Probability that a coordinate is sent."),
    "compression": _Spec(_MECHANISM, "Compression factor: gamma = 1 / compression."),
    "norm_ratio": _Spec(_MECHANISM, "L2 clip norm over L-inf clip norm, at least 1."),
    "linf_norm": _Spec(_MECHANISM, "L-inf clip norm; sets the norm ratio."),
    "l2_norm": _Spec(_MECHANISM, "L2 clip norm.", default=1.0),
    "adjacency": _Spec(
        _MECHANISM,
        "Neighbouring relation: add/remove one client, or replace one client's vector.",
        lambda: Choice([name.value for name in Adjacency]),
        Adjacency.ADD_REMOVE.value,
    ),
    "dim": _Spec(_COHORT, "Model dimension, for the MSE; with the cohort size also the default norm ratio."),
    "cohort_size": _Spec(_COHORT, "Clients per round; with a sampling rate, their expected number."),
    "rounds": _Spec(
        _COHORT,
        "Releases that one client can influence; with a sampling rate, all training rounds.",
        default=1,
    ),
    "sampling_rate": _Spec(
        _COHORT,
        "Probability that a client takes part in a round, independently and in secret (Poisson sampling)."
        " Needs --rounds. Default: 1.",
    ),
    "client_sampling": _Spec(
        _COHORT,
        "How cohorts are drawn; with poisson, sampling-rate = cohort-size / population-size.",
        lambda: SamplingChoice(["poisson"]),
    ),
    "population_size": _Spec(
        _COHORT,
        "Number of clients, for disjoint cohorts in a fixed order: rounds = ceil(training-rounds *"
        " cohort-size / population-size); or for --client-sampling. With a factorization, T * cohort-size"
        " must not exceed it.",
    ),
    "training_rounds": _Spec(_COHORT, "Training rounds, for --population-size."),
    "factorization": _Spec(
        _COHORT,
        "Correlated noise B Z: a file written by csgm factorize, or a strategy and its T, such as optimal:32,"
        " tree:32 or streaming:4:1024 (4 buffers, T = 1024).",
        File,
        metavar="FILE|STRATEGY:T",
    ),
    "epochs": _Spec(
        _COHORT,
        "Number of epochs of T steps (training rounds / T, rounded up); a client takes part in at most one"
        " step per epoch. Default: 1.",
    ),
    "participations": _Spec(
        _COHORT,
        "Largest number of participations of one client within the T steps of a factorization. Default: that"
        " of the file; with --min-separation, T / min-separation, rounded up.",
    ),
    "min_separation": _Spec(
        _COHORT,
        "Smallest number of steps from one participation of a client to the next. Default: that of the file;"
        " with --participations, 1.",
    ),
    "accountant": _Spec(
        _ACCOUNTING,
        "Privacy accountant: exact (Gaussian only), rdp (Renyi, fast), paper (Renyi, integer orders), tight"
        " (smallest of privacy profile, rdp and mask-revealed), auto (the tightest available).",
        lambda: Choice([name.value for name in Accountant]),
        Accountant.AUTO.value,
    ),
    "value_bits": _Spec(_ACCOUNTING, "Bits per sent value, for the bits per client.", default=32),
    "verify": _Spec(_ACCOUNTING, "Recompute the answer by independent high-precision code.", Switch),
    "T": _Spec(_PROBLEM, "Rows of the workload: number of steps (rounds of one epoch)."),
    "workload": _Spec(
        _PROBLEM,
        "prefix-sum, momentum=0.9, or a .npy file: a lower-triangular matrix, or one learning rate per step"
        " (with momentum: momentum=0.9,FILE.npy).",
        File,
        "prefix-sum",
        "WORKLOAD",
    ),
    "objective": _Spec(
        _PROBLEM,
        "Squared error to minimise: mean over the rows, or maximum.",
        _objective,
        "mean",
    ),
    "strategy": _Spec(
        _PROBLEM, "Factorization strategy (with --min-separation: banded):", _strategy, "optimal", "STRATEGY"
    ),
    "tolerance": _Spec(
        _PROBLEM, "Certified relative gap at which to stop. Default: 1e-9, or 1e-6 for many rows."
    ),
    "bands": _Spec(
        _PROBLEM,
        "With --min-separation, number of bands of C: C_ij is 0 if i - j is at least this. Default:"
        " min-separation.",
    ),
    "compare": _Spec(_PROBLEM, "Compare all strategies with the certified optimum.", Switch),
    "checkpoint": _Spec(
        _OUTPUT, "Save the state in this file, and resume from it.", File, metavar="FILE.npz"
    ),
    "arrays": _Spec(
        _ARRAYS,
        "Arrays to write: B, C, C_inv, v, generators, bands. Default: all that the strategy has, except dense"
        " ones for streaming:N and blt:N.",
        lambda: click.STRING,
        metavar="LIST",
    ),
    "dtype": _Spec(_ARRAYS, "Precision of the arrays.", lambda: Choice(["float32", "float64"]), "float64"),
    "force": _Spec(_ARRAYS, "Replace an existing file.", Switch),
    "rotation": _Spec(
        _SIMULATION,
        "Random rotation before the L-inf clip.",
        lambda: Choice(["hadamard", "dct", "kashin", "none"]),
        "hadamard",
    ),
    "wire": _Spec(
        _SIMULATION,
        "Format of a sent value.",
        lambda: Choice(["float32", "float16", "int16", "int12", "int8", "int6", "int4"]),
        "float32",
    ),
    "vectors": _Spec(
        _SIMULATION,
        "Client vectors, one per row, for all clients of a cohort (with client sampling, of the population)."
        " Default: random vectors.",
        File,
        metavar="FILE.npy",
    ),
    "trials": _Spec(
        _SIMULATION, "Number of simulated rounds (epochs with a factorization), at least 10.", default=200
    ),
    "data": _Spec(
        _TRAINING,
        "Folder with idx files, gzipped or not, or with one .npz file of x_train, y_train, x_test and y_test."
        " Default: synthetic data generated from the seed.",
        File,
        metavar="DIR",
    ),
    "partition": _Spec(
        _TRAINING,
        "How examples are assigned to clients: at random, or with Dirichlet(A) class proportions.",
        _partition,
        "dirichlet:1",
        "iid|dirichlet:A",
    ),
    "model": _Spec(
        _TRAINING,
        "Softmax regression, or a network with one hidden layer of H units.",
        _model,
        "mlp:64",
        "softmax|mlp:H",
    ),
    "local_steps": _Spec(_TRAINING, "Gradient descent steps per client and round.", default=1),
    "learning_rate": _Spec(_TRAINING, "Learning rate of the local steps.", default=0.5),
    "momentum": _Spec(_TRAINING, "Server momentum.", default=0.9),
    "diff": _Spec(
        _TARGET, "Show what the budget spends compared with this earlier one.", File, metavar="OLD.toml"
    ),
    "against_lock": _Spec(
        _TARGET, "Show what changed since this lock: the budget or the tool.", File, metavar="FILE"
    ),
    "write_lock": _Spec(_OUTPUT, "Record releases and numbers in this lock file.", File, metavar="FILE"),
    "exit_zero": _Spec(_TARGET, "Exit with 0 even if a limit is exceeded.", Switch),
    "format": _Spec(_OUTPUT, "Format of the report.", lambda: Choice(FORMATS), "text"),
    "value": _Spec(_OUTPUT, "Print only the number.", Switch),
    "statement": _Spec(_OUTPUT, "Add the guarantee as a paragraph for publication.", Switch),
    "quiet": _Spec(_OUTPUT, "Suppress warnings and progress.", Switch),
    "plot": _Spec(
        _OUTPUT, "Plot to a file (.png, .svg or .pdf) or in the terminal (-).", File, metavar="FILE|-"
    ),
    "plot_size": _Spec(
        _OUTPUT,
        "Width and height of the plot in inches. Default: 5x4 for each panel.",
        PlotSize,
        metavar="WxH",
    ),
    "jobs": _Spec(_OUTPUT, "Number of worker processes.", default=1),
    "resume": _Spec(_OUTPUT, "Continue an interrupted --output file (csv, jsonl).", Switch),
    "seed": _Spec(_OUTPUT, "Seed of the random choice of rows that --resume recomputes."),
    "output": _Spec(_OUTPUT, "Write the report to this file.", File, metavar="FILE"),
    "config": _Spec(
        _OUTPUT, "Read settings from this file, instead of searching for one.", File, metavar="FILE"
    ),
    "show_inputs": _Spec(_OUTPUT, "Print each value and its source on stderr.", Switch),
}

#: Options allowed in a config file: all but --config.
CONFIGURABLE = frozenset(_SPECS) - {"config"}

#: Defaults of the model, which a config file found by searching may set, but not for a gate.
MODEL_DEFAULTS = ("gamma", "compression", "norm_ratio", "linf_norm", "l2_norm", "dim", "cohort_size")
#: Options allowed in a config file found by searching: whoever wrote the repository wrote it. ``quiet`` is
#: not among them, as it hides warnings; nor are options that name a file or the claim to be checked.
SEARCHABLE = frozenset(
    {*MODEL_DEFAULTS, "value_bits", "format", "value", "statement", "plot_size", "show_inputs"}
)

MECHANISM = ("gamma", "compression", "norm_ratio", "linf_norm", "l2_norm", "adjacency")
COHORT = (
    "dim", "cohort_size", "rounds", "sampling_rate", "client_sampling", "population_size", "training_rounds",
    "factorization", "epochs", "participations", "min_separation",
)  # fmt: skip
OUTPUT = ("format", "output", "config", "show_inputs", "quiet")


def options(*names: str, required: Collection[str] = (), repeated: Collection[str] = ()) -> list[Option]:
    """Return the options called ``names``, in that order."""
    return [option(name, required=name in required, multiple=name in repeated) for name in names]


def option(
    name: str,
    kind: click.ParamType[Any] | None = None,
    *,
    required: bool = False,
    multiple: bool = False,
    text: str = "",
    default: float | None = None,
) -> Option:
    """Return one option; ``kind``, ``text`` and ``default`` replace its own where a command differs."""
    spec = _SPECS[name]
    kind = kind or (spec.type() if spec.type else Number(name))
    explained = text or spec.help
    if spec.metavar and isinstance(kind, Choice):  # too many for the column of options
        explained += f" {', '.join(kind.choices)}."
    # A default of None would count as a value: a required option would never be missed.
    usual = spec.default if default is None else default
    defaults: dict[str, Any] = {} if usual is None else {"default": usual}
    former = [old for old, new in FORMER_NAMES.items() if new == name]
    result = Option(
        [*map(flag_of, (name, *former)), name],
        help=explained + "  [repeatable]" * multiple,
        type=kind,
        show_default=True,
        metavar=spec.metavar or (kind.name.upper() if isinstance(kind, Number) else None),
        is_flag=isinstance(kind, Switch) or None,  # False would let the value be left out
        required=required,
        multiple=multiple,
        envvar=[variable_of(known) for known in (name, *former)] if former else variable_of(name),
        **defaults,
    )
    result.section = spec.section
    return result
