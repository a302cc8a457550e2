"""``csgm calibrate``: the least noise for a target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import build_mechanism, delta_notices, inputs, one_round, resolved
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, OUTPUT, options
from csgm_cli.cli.options.missing import participation, rate, ratio, target
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.model.mechanism import Accountant, Target

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request


def run(request: Request) -> ExitCode:
    """Calibrate and report."""
    from csgm_cli.jobs.calibrate import calibrate
    from csgm_cli.render.document import calibration_document

    mechanism, notices = build_mechanism(request)
    with working():
        calibration = calibrate(
            mechanism,
            Target(request["epsilon"], request["delta"]),
            Accountant(request["accountant"]),
            verify=request["verify"],
            value_bits=request["value_bits"],
        )
    notices += (*one_round(request), *delta_notices(request, [request["delta"]]))
    calibration = replace(calibration, notices=(*notices, *calibration.notices))
    report(request, calibration_document(inputs(request, **resolved(request, mechanism)), calibration))
    return ExitCode.OK


command = Command(
    "calibrate",
    run,
    help="""Find the smallest noise that meets (epsilon, delta).

    The answer is on the safe side: `csgm account` on any printed number meets the target.""",
    options=[
        *options("epsilon", "delta", required=("epsilon", "delta")),
        *options("mechanism", *MECHANISM, *COHORT),
        *options("accountant", "value_bits", "verify", "value", "statement", *OUTPUT),
    ],
    examples=(
        "csgm calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000",
        "csgm calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --rounds 100 --value",
    ),
    needs=(target, rate, ratio, participation),
)
