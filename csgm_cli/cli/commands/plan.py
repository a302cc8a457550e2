"""``csgm plan``: how far one can compress within an overhead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import (
    build_geometry,
    build_participation,
    common_arguments,
    delta_notices,
    inputs,
    one_round,
    resolved_sizes,
)
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, OUTPUT, option, options
from csgm_cli.cli.options.missing import overhead, participation, ratio, target
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.options.request import Exclusive
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Target
from csgm_cli.model.mechanism_table import WITH_GAMMA, MechanismName
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request

_ALLOWED = {"max_mse_overhead": "MSE", "max_noise_overhead": "effective noise multiplier"}
_OVERHEADS = tuple(_ALLOWED)
_RATE = ("gamma", "compression")


def run(request: Request) -> ExitCode:
    """Plan and report."""
    from csgm_cli.jobs.plan import plan
    from csgm_cli.render.document import plan_document

    if not list(request.given((*_OVERHEADS, *_RATE))):
        missing = "plan needs --max-mse-overhead or --max-noise-overhead, or --compression to show its cost"
        raise UsageError("missing-option", missing, "for example --max-noise-overhead 0.05, 5 % more")
    geometry, geometry_notices = build_geometry(request)
    took_part, participation_notices = build_participation(request)
    with working():
        answer = plan(
            MechanismName(request["mechanism"]),
            geometry,
            Target(request["epsilon"], request["delta"]),
            gamma=_gamma(request),
            max_mse_overhead=request["max_mse_overhead"],
            max_noise_overhead=request["max_noise_overhead"],
            **common_arguments(request, took_part),
        )
    notices = _large_overhead(request)
    notices += (
        *geometry_notices,
        *participation_notices,
        *one_round(request),
        *delta_notices(request, [request["delta"]]),
    )
    answer = replace(answer, notices=(*notices, *answer.notices))
    settled = resolved_sizes(request, geometry, took_part)
    if (gamma := _gamma(request)) is not None:
        settled |= {"gamma": gamma, "compression": answer.compression}
    report(request, plan_document(inputs(request, **settled), answer))
    return ExitCode.OK


def _gamma(request: Request) -> float | None:
    gamma: float | None = request["gamma"]
    return gamma if request["compression"] is None else 1.0 / float(request["compression"])


def _large_overhead(request: Request) -> tuple[Notice, ...]:
    """A percentage that was given as such would be met by any compression."""
    name = next(request.given(_OVERHEADS), None)
    if name is None or (overhead := request[name]) <= 1.0:
        return ()
    whose = "Gaussian" if request["factorization"] is None else "matrix"
    allowed = f"{overhead!r} allows {1 + overhead:g} times the {whose} mechanism's {_ALLOWED[name]}"
    message = f"{request.label([name])} {allowed}; {overhead:g} % is {overhead / 100:g}"
    return (Notice("overhead-large", message),)


command = Command(
    "plan",
    run,
    help="""Find the strongest compression within an allowed overhead.

    The overhead is relative to the plain Gaussian mechanism at the same target and accountant.

    With --gamma or --compression in place of an allowed overhead, shows what that compression costs.""",
    options=[
        *options("epsilon", "delta", *_OVERHEADS, required=("epsilon", "delta")),
        option(
            "mechanism",
            Choice([name.value for name in WITH_GAMMA]),
            text="Coordinate-subsampled Gaussian (CSGM), L2 or L-inf.",
        ),
        *options(*MECHANISM, *COHORT),
        *options("accountant", "value_bits", "verify", "value", "statement", *OUTPUT),
    ],
    examples=(
        "csgm plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05",
        "csgm plan --epsilon 5 --delta 1e-8 --norm-ratio 1000 --max-noise-overhead 0.02 --value",
        "csgm plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --compression 50",
    ),
    needs=(target, overhead, ratio, participation),
    exclusives=(Exclusive(_RATE, _OVERHEADS),),
)
