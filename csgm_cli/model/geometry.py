"""Resolve the geometry of clipped vectors and the number of rounds from what the caller gives."""

from __future__ import annotations

import math

from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.result import Notice
from csgm_cli.ranges import check_range

#: Two sources of the same ratio may differ by rounding of what the user typed.
_AGREEMENT = 1e-6


def rotation_linf_norm(l2_norm: float, dim: int, cohort_size: int) -> float:
    """Delta_inf after a random rotation: Delta_2 sqrt(2 ln(d n)/d) (paper, section 6)."""
    return l2_norm * math.sqrt(2 * math.log(dim * cohort_size) / dim)


def resolve_geometry(
    *,
    norm_ratio: float | None = None,
    linf_norm: float | None = None,
    l2_norm: float = 1.0,
    dim: int | None = None,
    cohort_size: int | None = None,
) -> tuple[Geometry, tuple[Notice, ...]]:
    """The Geometry and what was assumed to get it.

    The ratio Delta_2 / Delta_inf comes from ``norm_ratio``, else from ``linf_norm`` (same units as
    ``l2_norm``), else from ``dim`` and ``cohort_size`` by the rotation rule. It is raised to 1
    (clipping at Delta_inf > Delta_2 does nothing) and lowered to sqrt(dim) (a vector of norm
    Delta_2 has a coordinate that large), with a notice.

    Raises:
        UsageError: a value out of range, a ratio below 1, two sources that disagree, or no source.
    """
    l2_norm = check_range("l2_norm", l2_norm)
    linf_norm = None if linf_norm is None else check_range("linf_norm", linf_norm)
    dim = None if dim is None else int(check_range("dim", dim))
    cohort_size = None if cohort_size is None else int(check_range("cohort_size", cohort_size))
    ratio, notices = _ratio(norm_ratio, linf_norm, l2_norm, dim, cohort_size)
    if dim is not None and ratio**2 > dim:
        if ratio > math.sqrt(dim) * (1 + 1e-12):
            notices.append(
                Notice(
                    "ratio-capped",
                    f"norm_ratio {ratio:g} exceeds sqrt(dim) = {math.sqrt(dim):g} and is capped: no vector"
                    " clipped at linf_norm has an L2 norm above linf_norm sqrt(dim) ="
                    f" {l2_norm / ratio * math.sqrt(dim):g}, so l2_norm could be reduced to that",
                )
            )
        ratio = math.sqrt(dim)
    return Geometry(ratio, l2_norm, dim, cohort_size), tuple(notices)


def _ratio(
    norm_ratio: float | None,
    linf_norm: float | None,
    l2_norm: float,
    dim: int | None,
    cohort_size: int | None,
) -> tuple[float, list[Notice]]:
    if norm_ratio is not None:
        norm_ratio = check_range("norm_ratio", norm_ratio)
        if linf_norm is not None and not math.isclose(l2_norm / linf_norm, norm_ratio, rel_tol=_AGREEMENT):
            raise UsageError(
                "ratio-conflict",
                f"norm_ratio {norm_ratio!r} disagrees with l2_norm / linf_norm = {l2_norm / linf_norm!r}",
                "pass one of them",
            )
        return norm_ratio, []
    if linf_norm is not None:
        check_range("norm_ratio", max(1.0, l2_norm / linf_norm))
        if linf_norm > l2_norm:
            return 1.0, [
                Notice(
                    "linf-norm-capped",
                    f"linf_norm {linf_norm:g} exceeds l2_norm {l2_norm:g}, so that norm_ratio is 1:"
                    " were they swapped?",
                )
            ]
        return l2_norm / linf_norm, []
    if dim is not None and cohort_size is not None:
        return _rotation_ratio(l2_norm, dim, cohort_size)
    raise _no_ratio(dim, cohort_size)


def _no_ratio(dim: int | None, cohort_size: int | None) -> UsageError:
    unknown = "norm_ratio is missing: nothing gives the ratio l2_norm / linf_norm of the clip norms"
    others = "`norm_ratio`, or `linf_norm` with `l2_norm`"
    if dim is None and cohort_size is None:
        hint = f"pass {others}, or `dim` and `cohort_size` for the rotation rule"
        return UsageError("missing-norm-ratio", unknown, hint)
    given, missing = ("dim", "cohort_size") if dim is not None else ("cohort_size", "dim")
    message = f"{unknown}; the rotation rule needs {missing} beside {given}"
    return UsageError("missing-norm-ratio", message, f"pass `{missing}` beside `{given}`, or {others}")


def _rotation_ratio(l2_norm: float, dim: int, cohort_size: int) -> tuple[float, list[Notice]]:
    linf_norm = rotation_linf_norm(l2_norm, dim, cohort_size)
    told = Notice(
        "rotation-rule",
        "assumes randomly rotated updates, clipped at the L-inf norm",
    )
    if linf_norm >= l2_norm or linf_norm == 0.0:
        capped = Notice(
            "linf-norm-capped", "the rotation rule gives linf_norm above l2_norm: norm_ratio is 1"
        )
        return 1.0, [told, capped]
    ratio = l2_norm / linf_norm
    check_range("norm_ratio", ratio)
    return ratio, [told]


def check_epoch(rows: int, population_size: int, cohort_size: int) -> None:
    """Raise ``UsageError`` unless disjoint cohorts suffice for an epoch of ``rows`` steps: T n <= N.

    Slug ``repeats-in-epoch``: more places than clients, so that some client is in several steps of an epoch,
    which the largest column norm of C does not cover.
    """
    _check_cohort(population_size, cohort_size)
    if rows * cohort_size > population_size:
        most = population_size // cohort_size
        raise UsageError(
            "repeats-in-epoch",
            f"T = {rows} steps of cohort_size {cohort_size} take {rows * cohort_size} places, more than"
            f" population_size {population_size}: some client is in several steps of an epoch, which sigma"
            " does not cover",
            f"use T up to {most} and more epochs",
        )


def check_separation(min_separation: int, population_size: int, cohort_size: int) -> None:
    """Raise ``UsageError`` unless disjoint cohorts suffice for so many steps in a row.

    Slug ``returns-too-soon``: with fewer clients some client takes part again before that.
    """
    _check_cohort(population_size, cohort_size)
    if min_separation * cohort_size > population_size:
        raise UsageError(
            "returns-too-soon",
            f"min_separation {min_separation} with cohort_size {cohort_size} takes"
            f" {min_separation * cohort_size} clients, more than population_size {population_size}: some"
            " client takes part again too soon, which sigma does not cover",
            f"use min_separation up to {population_size // cohort_size}",
        )


def check_fixed_order(min_separation: int, population_size: int, cohort_size: int) -> None:
    """Raise ``UsageError`` (slug ``other-order``) unless that many cohorts are all clients.

    Else clients that take turns in a fixed order come back sooner, or later.
    """
    if min_separation * cohort_size != population_size:
        raise UsageError(
            "other-order",
            f"in a fixed order, min_separation {min_separation} with cohort_size {cohort_size} takes"
            f" {min_separation * cohort_size} clients, not population_size {population_size}: clients come"
            " back after another number of steps, which sigma does not cover",
            "use a factorization with bands, which covers all larger separations",
        )


def _check_cohort(population_size: int, cohort_size: int) -> None:
    if cohort_size > population_size:
        raise UsageError(
            "cohort-above-population", f"cohort_size {cohort_size} exceeds population_size {population_size}"
        )


def rate_from_population(population_size: int, cohort_size: int) -> tuple[float, Notice]:
    """The sampling rate at which the expected cohort size is ``cohort_size``: n/N.

    Raises:
        UsageError: a value out of range, or a cohort larger than the population.
    """
    population_size = int(check_range("population_size", population_size))
    cohort_size = int(check_range("cohort_size", cohort_size))
    _check_cohort(population_size, cohort_size)
    rate = check_range("sampling_rate", cohort_size / population_size)
    notice = Notice(
        "rate-from-population",
        f"sampling rate = {cohort_size} / {population_size} = {rate:g}, for clients that each take part in a"
        " round independently with that probability; cohorts of a fixed size are not covered",
    )
    return rate, notice


def check_rate(sampling_rate: float, population_size: int, cohort_size: int) -> None:
    """Raise ``UsageError`` (slug ``rate-conflict``) unless the sampling rate agrees with n/N."""
    rate, _ = rate_from_population(population_size, cohort_size)
    if not math.isclose(sampling_rate, rate, rel_tol=_AGREEMENT):
        raise UsageError(
            "rate-conflict",
            f"sampling_rate {sampling_rate!r} disagrees with cohort_size / population_size = {rate!r}",
            "pass `sampling_rate`, or `cohort_size` and `population_size` with `client_sampling`",
        )


def rounds_from_participation(
    population_size: int, cohort_size: int, training_rounds: int
) -> tuple[int, Notice]:
    """Releases that one client can influence with cohorts in a fixed order of clients: ceil(R n/N).

    Raises:
        UsageError: a value out of range, or a cohort larger than the population.
    """
    population_size = int(check_range("population_size", population_size))
    cohort_size = int(check_range("cohort_size", cohort_size))
    training_rounds = int(check_range("training_rounds", training_rounds))
    _check_cohort(population_size, cohort_size)
    rounds = -(-training_rounds * cohort_size // population_size)
    check_range("rounds", rounds)
    notice = Notice(
        "rounds-from-participation",
        f"rounds = ceil({training_rounds} x {cohort_size} / {population_size}) = {rounds}, for disjoint"
        " cohorts that take turns in a fixed order of all clients; if cohorts are drawn at random, pass"
        " rounds = all training rounds",
    )
    return rounds, notice
