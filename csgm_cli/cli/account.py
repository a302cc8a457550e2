"""``csgm account``: what a given noise guarantees."""

from __future__ import annotations

from dataclasses import replace

from csgm_cli.cli import console
from csgm_cli.cli.build import build_mechanism, delta_notices, inputs, resolved
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.options import COHORT, MECHANISM, OUTPUT, option, options
from csgm_cli.cli.params import Number
from csgm_cli.cli.report import report
from csgm_cli.cli.request import Exclusive, Request
from csgm_cli.cli.sources import Rank
from csgm_cli.errors import CsgmError, UsageError
from csgm_cli.model import Account, Accountant, Mechanism, Notice, Range

_NOISE = ("noise_multiplier", "sigma")
#: What a saved result settles, so that it must not be given beside one.
_SAVED = (*_NOISE, "mechanism", *MECHANISM, *COHORT)
#: An epsilon below the first is rare, one between the others usual.
_SMALL, _USUAL = 0.5, (2.0, 20.0)


def run(request: Request) -> ExitCode:
    """Account and report; an epsilon above --max-epsilon is a claim that fails."""
    from csgm_cli.render.document import account_document

    saved = None
    notices = _limit_set_aside(request)
    if request["from"] is not None:
        from csgm_cli.cli.rerun import check_factorization, drift, load, request_from

        saved = load(request["from"])
        request = request_from(saved, request)
    mechanism, how_completed = build_mechanism(request)
    if saved is not None:
        check_factorization(saved, mechanism)
    noise_multiplier, sigma = _noise(request, mechanism.geometry.l2_norm)
    account = _account(request, mechanism, sigma)
    notices += (*how_completed, *delta_notices(request, [found.delta for found in account.guarantees]))
    if saved is not None:
        notices += drift(saved, account, request)
    else:
        notices += _mistaken_for_effective(request, account, sigma)
    account = replace(account, notices=(*notices, *account.notices))
    noise = {"noise_multiplier": noise_multiplier, "sigma": sigma}
    noise["effective_noise_multiplier"] = account.effective_noise_multiplier
    report(request, account_document(inputs(request, **resolved(request, mechanism), **noise), account))
    return _checked(request, account)


def _limit_set_aside(request: Request) -> tuple[Notice, ...]:
    """A check that was configured must not be left out unsaid."""
    limit = request.sources["max_epsilon"]
    if request["max_epsilon"] is not None or limit.rank == Rank.DEFAULT:
        return ()
    return (Notice("limit-set-aside", f"{limit.label} is not checked: with --epsilon, delta is the answer"),)


def _mistaken_for_effective(request: Request, account: Account, sigma: float) -> tuple[Notice, ...]:
    """A hint where epsilon is far below what people ask for, but would not be with gamma times the noise."""
    from csgm_cli.core.account import account_epsilon

    mechanism, found = account.mechanism, account.guarantees[0]
    if request["epsilon"] is not None or mechanism.is_gaussian or found.epsilon >= _SMALL:
        return ()
    given, meant = account.noise_multiplier, account.noise_multiplier * mechanism.gamma
    try:
        [other] = account_epsilon(
            mechanism, mechanism.gamma * sigma, [found.delta], account.accountant
        ).guarantees
    except CsgmError:  # a hint is not worth an error
        return ()
    if not _USUAL[0] <= other.epsilon <= _USUAL[1]:
        return ()
    said = (
        f"if noise multiplier {given:g} is the effective one, sigma / (gamma l2_norm), give {meant:g} instead"
    )
    return (
        Notice("perhaps-effective", f"{said}: then epsilon is {other.epsilon:.3g}, not {found.epsilon:.3g}"),
    )


def _noise(request: Request, l2_norm: float) -> tuple[float, float]:
    """Return the noise multiplier and sigma; one of them was given."""
    if request["sigma"] is not None:
        return request["sigma"] / l2_norm, request["sigma"]
    if request["noise_multiplier"] is not None:
        return request["noise_multiplier"], request["noise_multiplier"] * l2_norm
    raise UsageError("missing-option", "account needs --noise-multiplier or --sigma", "or --from RESULT.json")


def _account(request: Request, mechanism: Mechanism, sigma: float) -> Account:
    from csgm_cli.core.account import account_delta, account_epsilon

    accountant = Accountant(request["accountant"])
    if request["epsilon"] is not None:
        if request["max_epsilon"] is not None:  # only a saved result comes here with both
            raise UsageError(
                "conflicting-options",
                f"{request.label(['max_epsilon'])} checks an epsilon, but {request['from']!r} asks for delta",
                "give --delta too",
            )
        return account_delta(mechanism, sigma, request["epsilon"], accountant, verify=request["verify"])
    if not request["delta"]:
        raise UsageError("missing-option", "account needs --delta or --epsilon", "--delta may be repeated")
    if request["value"] and len(request["delta"]) > 1:
        raise UsageError("no-single-value", "several deltas have no single value", "use --format csv")
    return account_epsilon(mechanism, sigma, request["delta"], accountant, verify=request["verify"])


def _checked(request: Request, account: Account) -> ExitCode:
    limit = request["max_epsilon"]
    worst = max(guarantee.epsilon for guarantee in account.guarantees)
    if limit is None or worst <= limit:
        return ExitCode.OK
    console.note(f"failed: epsilon {worst!r} is above {limit!r} ({request.label(['max_epsilon'])})")
    return ExitCode.CLAIM_FAILED


command = Command(
    "account",
    run,
    help="""Find the epsilon or delta that a given noise guarantees.

    With --delta the answer is epsilon, with --epsilon it is delta.

    --max-epsilon makes it a check: exit code 1 where an epsilon is above it.""",
    options=[
        *options(*_NOISE, "from"),
        option(
            "epsilon",
            Number("epsilon", Range(0.0, 1e4)),
            text="Ask for the delta at this epsilon; 0 is allowed.",
        ),
        option("delta", multiple=True, text="Ask for the epsilon at this delta."),
        *options("max_epsilon", "mechanism", *MECHANISM, *COHORT),
        *options("accountant", "verify", "value", *OUTPUT),
    ],
    examples=(
        "csgm account --noise-multiplier 0.0122 --gamma 0.01 --norm-ratio 1000 --delta 1e-8",
        "csgm account --sigma 4 --mechanism gaussian --delta 1e-6 --delta 1e-8 --max-epsilon 2",
    ),
    exclusives=(
        Exclusive(("from",), _SAVED),
        # A shared config has the target of calibrate: what is asked of account then is its epsilon.
        Exclusive(("delta", "max_epsilon"), ("epsilon",), left_by_default=True),
    ),
)
