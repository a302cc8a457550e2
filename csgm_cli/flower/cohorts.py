"""The clients from which the cohort of a round is drawn."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.ranges import check_range

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan
    from csgm_cli.mechanism.server import Server


def planned_population(plan: Plan, size: int | None) -> int | None:
    """The number of clients that cohorts are drawn from; None if the inner strategy chooses the cohorts.

    ``size``: as passed by the user; the default is n/q with client sampling and T n with a factorization.

    Raises:
        UsageError: a required size is missing (slug ``missing-option``), or a size is given but not used
            (``conflicting-options``), out of range or too small for an epoch (``too-few-clients``).
    """
    mechanism, n = plan.mechanism, plan.cohort_size
    draws = mechanism.sampling_rate < 1.0 or mechanism.disjoint_cohorts or mechanism.factorization is not None
    if not draws:
        if size is not None:
            raise UsageError(
                "conflicting-options",
                "population_size is for plans with client sampling, disjoint cohorts or a factorization;"
                " the inner strategy chooses the cohorts of this one",
            )
        return None
    least = n if mechanism.factorization is None else mechanism.factorization.T * n
    if size is None:
        if mechanism.disjoint_cohorts and mechanism.factorization is None:
            raise UsageError("missing-option", "disjoint cohorts need population_size", "as calibrated")
        return round(n / mechanism.sampling_rate) if mechanism.sampling_rate < 1.0 else least
    size = int(check_range("population_size", size))
    if size < least:
        what = "cohorts" if mechanism.factorization is None else "the disjoint cohorts of an epoch"
        raise UsageError(
            "too-few-clients", f"population_size must be at least {least} for {what}, got {size}"
        )
    return size


def check_addressed(addressed: Collection[Hashable], reachable: Collection[Hashable]) -> None:
    """Raise ``UsageError`` (slug ``bad-cohort``) unless all ``reachable`` clients are addressed.

    csgm draws the cohorts: an inner strategy that samples a fraction of the nodes would change how often each
    one takes part.
    """
    if not set(reachable) <= set(addressed):
        raise UsageError(
            "bad-cohort",
            "the inner strategy leaves out connected nodes; the cohorts of this plan are drawn by csgm, and a"
            " sample of fixed size is not what was calibrated",
            "set fraction_train=1.0 in the inner strategy",
        )


def eligible(server: Server, population: Sequence[int]) -> Sequence[int]:
    """The clients to pass to `Server.draw` in the next round, out of a population in a fixed order.

    With a factorization, step t of each epoch is for the t-th group of n clients.
    """
    if server.plan.mechanism.factorization is None:
        return population
    n = server.plan.cohort_size
    return population[server.next_row * n : (server.next_row + 1) * n]
