"""``csgm account``: what a given noise guarantees."""

from __future__ import annotations

from dataclasses import replace

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import (
    NOISE,
    build_mechanism,
    build_noise,
    delta_notices,
    inputs,
    one_round,
    resolved,
)
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, MODEL_DEFAULTS, OUTPUT, option, options
from csgm_cli.cli.options.missing import noise_and_question, participation, rate, ratio
from csgm_cli.cli.options.parameter_types import Number
from csgm_cli.cli.options.request import Exclusive, Request
from csgm_cli.cli.options.sources import Rank, flag_of
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Accountant, Mechanism
from csgm_cli.model.result import Account, Notice
from csgm_cli.ranges import EPSILON_OR_ZERO

#: What a saved result settles, so that it must not be given beside one.
_SAVED = (*NOISE, "mechanism", *MECHANISM, *COHORT)


def run(request: Request) -> ExitCode:
    """Account and report; exit with 1 where an epsilon is above --max-epsilon."""
    from csgm_cli.render.document import account_document

    _refuse_searched(request)
    mechanism, notices = build_mechanism(request) if request["from"] is None else _saved_mechanism(request)
    noise_multiplier, sigma = _noise(request, mechanism.geometry.l2_norm)
    with working():
        account = _account(request, mechanism, sigma)
    notices = (*_limit_set_aside(request), *notices)
    if request["from"] is None:
        notices += one_round(request)
    notices += delta_notices(request, [found.delta for found in account.guarantees])
    if request["from"] is not None:
        from csgm_cli.cli.inputs.saved_results import drift

        notices += drift(request, account)
    elif request["epsilon"] is None and request["noise_multiplier"] is not None:
        from csgm_cli.jobs.account import mistaken_for_effective

        with working():
            accountant = Accountant(request["accountant"])
            notices += mistaken_for_effective(
                mechanism, sigma, account.guarantees[0], accountant, request["max_epsilon"]
            )
    account = replace(account, notices=(*notices, *account.notices))
    noise = {"noise_multiplier": noise_multiplier, "sigma": sigma}
    noise["effective_noise_multiplier"] = account.effective_noise_multiplier
    document = account_document(inputs(request, **resolved(request, mechanism), **noise), account)
    failures = _failures(request, account)
    report(request, document, failures)
    return ExitCode.CLAIM_FAILED if failures else ExitCode.OK


def _refuse_searched(request: Request) -> None:
    """Refuse a privacy parameter of a claim that comes from a config file nobody named."""
    for name in request.given(MODEL_DEFAULTS if request["max_epsilon"] is not None else ()):
        if (source := request.sources[name]).searched:
            message = f"--max-epsilon is not checked with {source.label}, which csgm found by searching"
            raise UsageError(
                "untrusted-key", message, f"pass {flag_of(name)}, or name the file with --config"
            )


def _saved_mechanism(request: Request) -> tuple[Mechanism, tuple[Notice, ...]]:
    """The mechanism of a saved result, which must agree with all else that the file says."""
    from csgm_cli.cli.inputs.saved_results import check_factorization
    from csgm_cli.saved_result import check_agreement
    from csgm_cli.storage.files import naming

    with naming(request["from"]):
        mechanism, notices = build_mechanism(request)
        check_factorization(request["saved"], mechanism)
        return mechanism, notices + check_agreement(request["saved"], mechanism)


def _with_saved(request: Request) -> Request:
    if request["from"] is None:
        return request
    from csgm_cli.cli.inputs.saved_results import with_saved

    return with_saved(request)


def _limit_set_aside(request: Request) -> tuple[Notice, ...]:
    """A notice where the flag --epsilon sets a configured --max-epsilon aside."""
    limit = request.sources["max_epsilon"]
    if request["max_epsilon"] is not None or limit.rank == Rank.DEFAULT:
        return ()
    why = "--epsilon asks for delta; pass --delta instead to check an epsilon"
    return (Notice("limit-set-aside", f"{limit.label} is not checked: {why}"),)


def _noise(request: Request, l2_norm: float) -> tuple[float, float]:
    noise = build_noise(request, l2_norm)
    if noise is None:
        raise UsageError(
            "missing-option",
            "account needs --noise-multiplier or --sigma",
            "for example --noise-multiplier 0.0122, or --from RESULT.json",
        )
    return noise


def _account(request: Request, mechanism: Mechanism, sigma: float) -> Account:
    from csgm_cli.jobs.account import account_delta, account_epsilon

    accountant = Accountant(request["accountant"])
    if request["epsilon"] is not None:
        if request["max_epsilon"] is not None:  # only a saved result comes here with both
            raise UsageError(
                "conflicting-options",
                f"{request.label(['max_epsilon'])} checks an epsilon, but {request['from']!r} asks for delta",
                "pass --delta too",
            )
        return account_delta(mechanism, sigma, request["epsilon"], accountant, verify=request["verify"])
    if not request["delta"] and request["max_epsilon"] is not None:
        limit = request.label(["max_epsilon"])
        raise UsageError("missing-option", f"{limit} checks an epsilon, which needs a delta", "pass --delta")
    if not request["delta"]:
        hint = "--delta asks for epsilon and may be repeated, --epsilon asks for delta"
        raise UsageError("missing-option", "account needs --delta or --epsilon", hint)
    if request["value"] and len(request["delta"]) > 1:
        raise UsageError("no-single-value", "several deltas have no single value", "use --format csv")
    return account_epsilon(mechanism, sigma, request["delta"], accountant, verify=request["verify"])


def _failures(request: Request, account: Account) -> list[str]:
    limit = request["max_epsilon"]
    worst = max(guarantee.epsilon for guarantee in account.guarantees)
    if limit is None or worst <= limit:
        return []
    above = f"epsilon {worst!r} is above {limit!r} ({request.label(['max_epsilon'])})"
    return [f"{above}; csgm calibrate --epsilon {limit!r} with the same options finds the noise needed"]


command = Command(
    "account",
    run,
    help="""Find the epsilon or delta that a given noise guarantees.

    --delta asks for epsilon, --epsilon asks for delta.

    With --max-epsilon, exits with 1 if epsilon is above it.""",
    options=[
        *options(*NOISE, "from"),
        option(
            "epsilon",
            Number("epsilon", EPSILON_OR_ZERO),
            text="Ask for the delta at this epsilon; 0 is allowed.",
        ),
        option("delta", multiple=True, text="Ask for the epsilon at this delta."),
        *options("max_epsilon", "mechanism", *MECHANISM, *COHORT),
        *options("accountant", "verify", "value", "statement", *OUTPUT),
    ],
    examples=(
        "csgm account --noise-multiplier 0.0122 --gamma 0.01 --norm-ratio 1000 --delta 1e-8",
        "csgm account --sigma 4 --mechanism gaussian --delta 1e-6 --delta 1e-8 --max-epsilon 2",
    ),
    needs=(noise_and_question, rate, ratio, participation),
    exclusives=(
        Exclusive(("from",), _SAVED),
        # A shared config has the target of calibrate: what is asked of account then is its epsilon.
        Exclusive(
            ("delta", "max_epsilon"),
            ("epsilon",),
            left_by_default=True,
            hint="pass --delta to compute epsilon (checked by --max-epsilon), or --epsilon to compute delta",
            checks=("max_epsilon",),
        ),
    ),
    complete=_with_saved,
)
