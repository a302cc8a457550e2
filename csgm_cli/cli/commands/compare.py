"""``csgm compare``: the mechanisms side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import (
    asked_factorization,
    build_geometry,
    build_participation,
    common_arguments,
    delta_notices,
    inputs,
    one_round,
    resolved_sizes,
)
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, OUTPUT, options
from csgm_cli.cli.options.missing import participation, rate, ratio, target
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.plot import check_plot, report_with_picture
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Target

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.mechanism import FactorNorms
    from csgm_cli.model.result import Notice


def run(request: Request) -> ExitCode:
    """Compare and report."""
    from csgm_cli.jobs.compare import compare, compare_at_equal_mse
    from csgm_cli.render.document import comparison_document

    check_plot(request)
    if request["at_equal_mse"] and request["with"] is not None:
        message = "--at-equal-mse and --with exclude each other"
        hint = "rows of privunit-shuffle have epsilon and delta as given, and their own MSE"
        raise UsageError("conflicting-options", message, hint)
    gammas = _gammas(request)
    geometry, geometry_notices = build_geometry(request)
    took_part, participation_notices = build_participation(request)
    others, epochs_notices = _other_strategies(request, took_part.epochs)
    target = Target(request["epsilon"], request["delta"])
    arguments = {
        "gammas": gammas,
        "other_strategies": others,
        **common_arguments(request, took_part),
    }
    with working():
        if request["at_equal_mse"]:
            comparison = compare_at_equal_mse(geometry, target, **arguments)
        else:
            with_privunit = request["with"] is not None
            comparison = compare(geometry, target, **arguments, with_privunit_shuffle=with_privunit)
    notices = (
        *geometry_notices,
        *participation_notices,
        *one_round(request),
        *epochs_notices,
        *delta_notices(request, [request["delta"]]),
    )
    comparison = replace(comparison, notices=(*notices, *comparison.notices))
    factors = request["compression"] or tuple(1.0 / gamma for gamma in gammas)
    settled = {"gamma": gammas, "compression": factors, **resolved_sizes(request, geometry, took_part)}
    report_with_picture(request, comparison_document(inputs(request, **settled), comparison))
    return ExitCode.OK


def _gammas(request: Request) -> tuple[float, ...]:
    gammas = request["gamma"] or tuple(1.0 / factor for factor in request["compression"] or ())
    if not gammas:
        raise UsageError(
            "missing-option",
            "compare needs --gamma or --compression",
            "for example --gamma 0.01; either may be repeated",
        )
    return tuple(gammas)


def _other_strategies(
    request: Request, epochs: int | None
) -> tuple[tuple[FactorNorms, ...], tuple[Notice, ...]]:
    """Return the factorizations to compare with the given one, and whether it is for other epochs."""
    if request["factorization"] is None:
        return (), ()
    from csgm_cli.cli.inputs.factorizations import epochs_notice, usual_strategies

    asked = asked_factorization(request)
    return usual_strategies(asked), epochs_notice(asked, epochs or 1)


command = Command(
    "compare",
    run,
    help="""Compare mechanisms at one target.

    All rows use the same accountant, so that differences are those of the mechanisms.""",
    options=[
        *options("epsilon", "delta", "at_equal_mse", "with", required=("epsilon", "delta")),
        *options(*MECHANISM, *COHORT, repeated=("gamma", "compression")),
        *options("accountant", "value_bits", "verify", "plot", "plot_size", *OUTPUT),
    ],
    examples=(
        "csgm compare --epsilon 5 --delta 1e-8 --gamma 0.1 --gamma 0.01 --norm-ratio 1000 --dim 1e6",
        "csgm compare --epsilon 5 --delta 1e-8 --gamma 0.1 --dim 1e6 --cohort-size 1000 --at-equal-mse",
        "csgm compare --epsilon 1 --delta 1e-6 --gamma 0.01 --dim 1e6 --cohort-size 1000"
        " --adjacency replace-one --with privunit-shuffle",
    ),
    needs=(target, rate, ratio, participation),
)
