"""The server: draws cohorts, sums payloads and releases noisy means.

The sum stays in the rotated domain. A release adds noise once, divides by n gamma with the planned n, and
rotates back. No message and no record reveals the number of clients in a round.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.added_noise import AddedNoise, CorrelatedNoise, Factors, Floats, FreshNoise
from csgm_cli.mechanism.ledger import Entry, Ledger
from csgm_cli.mechanism.plan import Plan
from csgm_cli.mechanism.randomness import Randomness
from csgm_cli.mechanism.rotation import rotate_back
from csgm_cli.mechanism.wire import decode
from csgm_cli.ranges import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Length of a mask seed.
_SEED_BYTES = 16
#: Largest difference between q N and the planned n, which is rounded to an integer.
_ROUNDING = 0.5


class Server:
    """Runs the rounds of ``plan``.

    ``ledger`` records each release before it is returned. A run with the ledger of an earlier run continues
    it; after an interruption a factorization starts a new epoch. ``factors``: for a plan with a
    factorization, a `Factorization` or the array B of the calibrated file. ``new_order``: clients that take
    turns are listed in another order than in earlier runs of the ledger, so a new turn begins, and an
    interrupted one counts in full. ``seed``: seed of all random numbers in a simulation; the results are NOT
    PRIVATE, so no ledger is allowed. A server is thread-safe.

    Raises:
        UsageError: the ledger is for another plan (slug ``other-plan``), the factors do not match
            (``other-factorization``), or there are both a seed and a ledger (``conflicting-options``).
    """

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger | None = None,
        seed: int | None = None,
        factors: Factors | None = None,
        *,
        new_order: bool = False,
    ) -> None:
        check_type("plan", plan, Plan)
        self.plan = plan
        self._randomness = Randomness(seed)
        if ledger is not None:
            _check_ledger(ledger, plan, self._randomness)
        self._ledger = ledger
        self._released = 0 if ledger is None else len(ledger.entries)
        self._participations = 0 if ledger is None else ledger.participations
        self._population = None if ledger is None else ledger.population_size
        #: Releases and participations before the first turn in the present order.
        self._before = (self._released, self._participations) if new_order else (0, 0)
        self._stream = self._correlated(factors)
        self._noise: AddedNoise = self._stream or FreshNoise(plan, self._randomness)
        self._took_part: set[Hashable] = set()  # in this epoch
        self._order: list[Hashable] | None = None  # of clients that take turns
        self._lock = RLock()
        self._round: Round | None = None
        self._warn(2)

    @property
    def is_private(self) -> bool:
        """Whether the noise, the masks and the cohorts come from the operating system's entropy."""
        return self._randomness.is_private

    @property
    def released(self) -> int:
        """Number of releases so far, including those of earlier runs in the ledger."""
        return self._released

    @property
    def remaining(self) -> int:
        """Number of releases that the plan still allows.

        For cohorts that take turns this is a lower bound before the first draw.
        """
        rounds = self.plan.mechanism.releases
        if self._stream is not None:
            return self._stream.remaining(rounds)
        if self._population is not None:
            releases, turns = self._before
            return releases + (rounds - turns) * self._population // self.plan.cohort_size - self._released
        return rounds - self._participations

    @property
    def next_row(self) -> int:
        """The row of the factorization, from 0, of the next release; 0 without a factorization."""
        return 0 if self._stream is None else self._stream.next_row

    def draw(self, clients: Iterable[Hashable]) -> Round:
        """Begin the next round with a cohort from ``clients``; a round that was not released is dropped.

        * With client sampling, ``clients`` are the whole population, and each takes part with probability q.
        * With disjoint cohorts, they are the whole population, in the same order in every round, and the
          next n of them take part.
        * Otherwise they are the cohort itself, at most n clients; with a factorization, none of them has
          taken part in this epoch.

        Raises:
            UsageError: all planned releases have been made (slug ``no-rounds-left``), or the plan does not
                allow these clients (``bad-cohort``).
        """
        listed = _listed(clients)
        with self._lock:
            if self.remaining < 1:
                raise UsageError(
                    "no-rounds-left",
                    "all releases that the plan allows have been made",
                    "calibrate for more rounds (or epochs) before the next training",
                )
            cohort = self._cohort(listed)
            if self._round is not None:
                self._round.close()
            seeds = {client: self._randomness.take(_SEED_BYTES) for client in cohort}
            self._round = Round(self.plan, seeds, self._publish, self._lock)
            return self._round

    def _correlated(self, factors: Factors | None) -> CorrelatedNoise | None:
        if self.plan.mechanism.factorization is not None:
            return CorrelatedNoise(self.plan, factors, self._randomness, self._participations)
        if factors is not None:
            raise UsageError("conflicting-options", "the plan has no factorization, but factors were given")
        return None

    def _cohort(self, clients: list[Hashable]) -> list[Hashable]:
        plan, mechanism = self.plan, self.plan.mechanism
        rate, n = mechanism.sampling_rate, plan.cohort_size
        if rate < 1.0:
            if abs(rate * len(clients) - n) > _ROUNDING:
                raise UsageError(
                    "bad-cohort",
                    f"sampling_rate times the number of clients must be the planned cohort_size {n}",
                    "list all clients, including those who have left",
                )
            coins = self._randomness.coins(len(clients), rate)
            return [client for client, takes_part in zip(clients, coins, strict=True) if takes_part]
        if mechanism.takes_turns:
            return self._next_in_turn(clients)
        if len(clients) > n:
            raise UsageError("bad-cohort", f"a cohort has at most the planned {n} clients")
        in_epoch = self._stream is not None and not self._stream.starts_epoch
        if in_epoch and not self._took_part.isdisjoint(clients):
            raise UsageError("bad-cohort", "a client has taken part in this epoch already")
        return clients

    def _next_in_turn(self, clients: list[Hashable]) -> list[Hashable]:
        size, n = len(clients), self.plan.cohort_size
        if size < n or self._population not in (None, size) or self._order not in (None, clients):
            raise UsageError(
                "bad-cohort",
                "cohorts that take turns need the same clients in every round, at least the planned"
                f" {n} of them, in the same order",
                "list all clients in the same order, including those who have left",
            )
        self._population, self._order = size, clients
        if self._turns(self._released) != self._participations:
            raise UsageError(
                "bad-cohort",
                "the ledger has an interrupted turn, so it is unknown which clients are next",
                "pass new_order=True to begin a new turn",
            )
        first = (self._released - self._before[0]) * n % size
        return [clients[(first + i) % size] for i in range(n)]

    def _next_participations(self) -> int:
        """How many releases, or epochs, one client may have influenced after the next release."""
        if self._stream is not None:
            return self._stream.epochs_after_next
        if self._population is not None:
            return self._turns(self._released + 1)
        return self._released + 1

    def _turns(self, releases: int) -> int:
        """How often the first client in the order has had its turn after so many releases."""
        assert self._population is not None
        before, turns = self._before
        return turns + -(-(releases - before) * self.plan.cohort_size // self._population)

    def _publish(self, cohort: Round) -> Floats:
        """Record the release of a round, then compute it."""
        participations = self._next_participations()
        if self._ledger is not None:
            self._ledger.record(Entry(self._released + 1, participations, self._population))
        total, clients = cohort.total, cohort.clients
        cohort.close()
        self._released += 1
        self._participations = participations
        if self._stream is not None:
            kept = () if self._stream.starts_epoch else self._took_part
            self._took_part = {*kept, *clients}
        noisy = self._noise.release(total)
        noisy *= 1.0 / (self.plan.cohort_size * self.plan.gamma)
        self._warn(3)
        return rotate_back(self.plan, noisy)

    def _warn(self, stacklevel: int) -> None:
        if not self.is_private:
            warnings.warn("NOT PRIVATE: random numbers come from a seed", stacklevel=stacklevel + 1)


class Round:
    """One round of a server: the cohort, its secret mask seeds, and the sum of the payloads so far.

    The seeds are secret: send each client only its own. With client sampling the cohort is secret too.
    ``publish`` turns the sum into the release, while ``lock`` keeps other threads out.
    """

    def __init__(
        self, plan: Plan, seeds: Mapping[Hashable, bytes], publish: Callable[[Round], Floats], lock: RLock
    ) -> None:
        self.plan = plan
        self._seeds, self._publish, self._lock = seeds, publish, lock
        self._replied: set[Hashable] = set()
        self._open = True
        #: Sum of the payloads in the rotated domain, without noise: secret.
        self.total = np.zeros(plan.length)

    @property
    def clients(self) -> tuple[Hashable, ...]:
        """The clients who take part."""
        return tuple(self._seeds)

    def seed_of(self, client: Hashable) -> bytes:
        """Return the mask seed to send to ``client``; ``UsageError`` (slug ``bad-reply``) for others."""
        if not isinstance(client, Hashable) or client not in self._seeds:
            raise UsageError("bad-reply", "this client does not take part in the round")
        return self._seeds[client]

    def add(self, client: Hashable, payload: bytes) -> None:
        """Add what ``client`` sent, once; a refused payload leaves the sum unchanged.

        Raises:
            UsageError: the client does not take part or has replied (slug ``bad-reply``), the round is over
                (``round-over``), or a payload that `decode` refuses.
        """
        self._check_awaited(client)
        positions, values = decode(self.plan, payload, self.seed_of(client))
        with self._lock:
            self._check_awaited(client)  # again: another thread may have added it meanwhile
            self._replied.add(client)
            self.total[positions] += values

    def release(self) -> Floats:
        """Return the noisy mean (with a factorization, the prefix sum of means) and end the round.

        Clients who have not replied count as zeros: neither the divisor nor the noise depends on them. With a
        ledger the release counts once it is recorded, even if the process then stops.

        Raises:
            UsageError: the round is over (slug ``round-over``), or the ledger was changed
                (``ledger-changed``).
            StorageError: the ledger cannot be written; nothing is released, and the round stays open.
        """
        with self._lock:
            self._check_open()
            return self._publish(self)

    def close(self) -> None:
        """End the round and discard its sum."""
        self._open = False
        self.total = np.zeros(0)

    def _check_awaited(self, client: Hashable) -> None:
        self._check_open()
        self.seed_of(client)
        if client in self._replied:
            raise UsageError("bad-reply", "this client has replied already")

    def _check_open(self) -> None:
        if not self._open:
            raise UsageError("round-over", "this round is over", "draw the next one")


def _listed(clients: Iterable[Hashable]) -> list[Hashable]:
    """The clients as a list; ``UsageError`` (slug ``bad-cohort``) unless they are distinct and hashable."""
    try:
        listed = list(clients)
        distinct = len(set(listed))
    except TypeError:
        raise UsageError("bad-cohort", "clients must be a sequence of names or numbers") from None
    if distinct < len(listed):
        raise UsageError("bad-cohort", "a client is listed twice")
    return listed


def _check_ledger(ledger: Ledger, plan: Plan, randomness: Randomness) -> None:
    check_type("ledger", ledger, Ledger)
    ledger.check_plan(plan)
    if not randomness.is_private:
        raise UsageError(
            "conflicting-options",
            "a run with a seed is NOT PRIVATE and cannot have a ledger",
            "leave out the seed in a real run, or the ledger in a simulation",
        )
