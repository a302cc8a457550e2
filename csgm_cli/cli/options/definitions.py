"""Every option of csgm, once: its type, its default and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from csgm_cli.cli.options.parameter_types import Choice, File, Number, StrategyChoice, Switch
from csgm_cli.cli.options.sources import flag_of, variable_of
from csgm_cli.model.mechanism import Accountant, Adjacency, MechanismName
from csgm_cli.render import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Option(click.Option):
    """A click option that knows under which heading of the help it stands."""

    section = "Output"


@dataclass(frozen=True)
class _Spec:
    """What is the same wherever an option appears; no ``type`` means the number that RANGES has for it.

    ``type`` makes the type: it may import what most commands do without.
    """

    section: str
    help: str
    type: Callable[[], click.ParamType[Any]] | None = None
    default: float | str | None = None
    metavar: str | None = None


_POINTS, _TARGET, _MECHANISM, _COHORT, _NOISE, _ACCOUNTING, _PROBLEM, _ARRAYS, _OUTPUT = (
    "Points", "Target", "Mechanism", "Cohort and rounds", "Noise", "Accounting", "Problem", "Arrays", "Output"
)  # fmt: skip


def _vary() -> click.ParamType[Any]:
    from csgm_cli.cli.options.vary import Vary

    return Vary()


def _objective() -> click.ParamType[Any]:
    from csgm_cli.model.factorization import Objective

    return Choice([name.value for name in Objective])


def _strategy() -> click.ParamType[Any]:
    from csgm_cli.model.factorization import StrategyName

    words = [name.value if name is not StrategyName.STREAMING else "streaming:N" for name in StrategyName]
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
    "delta": _Spec(_TARGET, "Probability delta with which epsilon may be exceeded; well below 1 / clients."),
    "max_epsilon": _Spec(_TARGET, "A check: exit with 1 if an epsilon is above this."),
    "max_mse_overhead": _Spec(_TARGET, "MSE may be (1 + this) times the plain Gaussian mechanism's."),
    "max_noise_overhead": _Spec(
        _TARGET, "Effective noise multiplier may be (1 + this) times the plain Gaussian mechanism's."
    ),
    "at_equal_mse": _Spec(
        _TARGET, "Ask which epsilon each mechanism has at the plain Gaussian's MSE.", Switch
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
        "Coordinate-subsampled Gaussian (CSGM) by the L2 or L-inf clip norm, or plain Gaussian.",
        lambda: Choice([name.value for name in MechanismName]),
        MechanismName.L2_CSGM.value,
    ),
    "gamma": _Spec(_MECHANISM, "Probability that a coordinate is sent."),
    "compression": _Spec(_MECHANISM, "The same as a factor: gamma = 1 / compression."),
    "norm_ratio": _Spec(_MECHANISM, "L2 clip norm over L-inf clip norm, at least 1."),
    "linf_norm": _Spec(_MECHANISM, "L-inf clip norm, another way to give the ratio."),
    "l2_norm": _Spec(_MECHANISM, "L2 clip norm.", default=1.0),
    "adjacency": _Spec(
        _MECHANISM,
        "What must not show: that one client takes part, or which of two vectors it has.",
        lambda: Choice([name.value for name in Adjacency]),
        Adjacency.ADD_REMOVE.value,
    ),
    "dim": _Spec(
        _COHORT, "Dimension; with the cohort size it gives the ratio if nothing else does, and the MSE."
    ),
    "cohort_size": _Spec(_COHORT, "Clients per round."),
    "rounds": _Spec(_COHORT, "Releases that one client can influence.", default=1),
    "population": _Spec(
        _COHORT,
        "Clients in all: rounds = ceil(training-rounds * cohort-size / population). With a factorization T *"
        " cohort-size may be no more than that.",
    ),
    "training_rounds": _Spec(_COHORT, "Rounds of training, for --population."),
    "factorization": _Spec(
        _COHORT,
        "Noise B Z of a factorization, for running sums of T steps: a file of csgm factorize, or solved now,"
        " optimal:32, tree:32, streaming:4:1024 (4 buffers, T = 1024), ...",
        File,
        metavar="FILE|STRATEGY:T",
    ),
    "epochs": _Spec(
        _COHORT,
        "Times that the T steps are run (training rounds / T, rounded up), each client in at most one step of"
        " each epoch; 1 if left out.",
    ),
    "accountant": _Spec(
        _ACCOUNTING,
        "How the loss is bounded: exact (Gaussian only), rdp (Renyi, fast), paper (Renyi, integer orders),"
        " tight (the smallest of privacy profile, rdp and mask-revealed), auto (the smallest there is: exact"
        " or tight).",
        lambda: Choice([name.value for name in Accountant]),
        Accountant.AUTO.value,
    ),
    "value_bits": _Spec(_ACCOUNTING, "Bits of one sent value, for the bits per client.", default=32),
    "verify": _Spec(_ACCOUNTING, "Recompute in high precision by independent code first.", Switch),
    "T": _Spec(
        _PROBLEM, "Rows of the workload: steps (rounds of one epoch) whose running sums are released."
    ),
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
        "Which squared error counts: of all rows on average, or of the worst row.",
        _objective,
        "mean",
    ),
    "strategy": _Spec(_PROBLEM, "How to factorize.", _strategy, "optimal"),
    "tolerance": _Spec(_PROBLEM, "Certified relative gap to solve to; if left out 1e-9, for many rows 1e-6."),
    "compare": _Spec(_PROBLEM, "Put all strategies side by side against the certified optimum.", Switch),
    "checkpoint": _Spec(
        _PROBLEM, "Keep the solver's state in this file, and go on from it.", File, metavar="FILE.npz"
    ),
    "arrays": _Spec(
        _ARRAYS,
        "What to write, of B,C,C_inv,v,generators; by default all that the strategy has, of streaming:N"
        " generators,v.",
        lambda: click.STRING,
        metavar="LIST",
    ),
    "dtype": _Spec(_ARRAYS, "Precision of the arrays.", lambda: Choice(["float32", "float64"]), "float64"),
    "force": _Spec(_ARRAYS, "Replace an existing file.", Switch),
    "diff": _Spec(_TARGET, "Show what the budget spends beyond this earlier one.", File, metavar="OLD.toml"),
    "against_lock": _Spec(
        _TARGET, "Show what has moved since this lock, and what moved it.", File, metavar="FILE"
    ),
    "write_lock": _Spec(_OUTPUT, "Record releases and numbers in this lock file.", File, metavar="FILE"),
    "exit_zero": _Spec(_TARGET, "Exit with 0 even if a limit is exceeded.", Switch),
    "format": _Spec(_OUTPUT, "Format of the report.", lambda: Choice(FORMATS), "text"),
    "value": _Spec(_OUTPUT, "Print one bare number.", Switch),
    "plot": _Spec(
        _OUTPUT, "Draw a picture (.png, .svg or .pdf), or in the terminal (-).", File, metavar="FILE|-"
    ),
    "jobs": _Spec(_OUTPUT, "Processes that share the work.", default=1),
    "resume": _Spec(_OUTPUT, "Go on with the rows that --output has already (csv, jsonl).", Switch),
    "output": _Spec(_OUTPUT, "Write the report to this file.", File, metavar="FILE"),
    "config": _Spec(
        _OUTPUT, "Read settings from this file, instead of searching for one.", File, metavar="FILE"
    ),
    "show_inputs": _Spec(_OUTPUT, "Show each value and where it comes from, on stderr.", Switch),
}

#: Options that may stand in a config file: all but the one that names it.
CONFIGURABLE = frozenset(_SPECS) - {"config"}

MECHANISM = ("gamma", "compression", "norm_ratio", "linf_norm", "l2_norm", "adjacency")
COHORT = ("dim", "cohort_size", "rounds", "population", "training_rounds", "factorization", "epochs")
OUTPUT = ("format", "output", "config", "show_inputs")


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
) -> Option:
    """Return one option; ``kind`` and ``text`` replace its usual type and help where a command differs."""
    spec = _SPECS[name]
    kind = kind or (spec.type() if spec.type else Number(name))
    # A default of None would count as a value: a required option would never be missed.
    default: dict[str, Any] = {} if spec.default is None else {"default": spec.default}
    result = Option(
        [flag_of(name), name],
        help=(text or spec.help) + "  [repeatable]" * multiple,
        type=kind,
        show_default=True,
        metavar=spec.metavar or (kind.name.upper() if isinstance(kind, Number) else None),
        is_flag=isinstance(kind, Switch) or None,  # False would let the value be left out
        required=required,
        multiple=multiple,
        envvar=variable_of(name),
        **default,
    )
    result.section = spec.section
    return result
