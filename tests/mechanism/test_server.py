"""The server: what it releases, which cohorts it draws, and what it refuses.

Statistical tests have fixed seeds; over other seeds each would fail with probability below 1e-6.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import FLOAT16, Rotation
from csgm_cli.mechanism.rotation import rotate_back
from csgm_cli.mechanism.server import Server
from csgm_cli.mechanism.wire import decode
from tests.mechanism.plans import QUIET, plan_with, released, reply, unit_vectors

CLIENTS = tuple("abcd")
VECTORS = unit_vectors(CLIENTS)
#: Standard deviations beyond which a normal is with probability below 1e-6.
RARE = 5.0


def seeded(plan, seed=1, **rest):
    """A reproducible server; its warning is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Server(plan, seed=seed, **rest)


pytestmark = pytest.mark.filterwarnings("ignore:NOT PRIVATE")


def test_without_masks_the_release_is_the_mean():
    """At gamma 1 and next to no noise."""
    found = released(seeded(plan_with()), CLIENTS, VECTORS)
    assert found == pytest.approx(np.mean(list(VECTORS.values()), axis=0), abs=1e-6)


def test_drop_outs_count_as_zeros():
    """The planned number divides, however many reply."""
    cohort = seeded(plan_with()).draw(CLIENTS)
    cohort.add("b", encode(cohort.plan, VECTORS["b"], cohort.seed_of("b")))
    assert cohort.release() == pytest.approx(VECTORS["b"] / 4, abs=1e-6)


@pytest.mark.parametrize("rotation", [Rotation.HADAMARD, Rotation.DCT, Rotation.NONE])
@pytest.mark.parametrize("wire", [None, FLOAT16])
def test_rotating_back_once_is_rotating_back_each(rotation, wire):
    """The sum of the payloads in the rotated domain, and of the vectors that they stand for."""
    plan = plan_with(QUIET, "l2-csgm", 0.3, dim=11, ratio=1.5, rotation=rotation)
    plan = plan if wire is None else replace(plan, wire=wire)
    vectors = unit_vectors(CLIENTS, dim=11)
    cohort = seeded(plan).draw(CLIENTS)
    each = np.zeros(11)
    for client in CLIENTS:
        payload = encode(plan, vectors[client], cohort.seed_of(client))
        positions, values = decode(plan, payload, cohort.seed_of(client))
        rotated = np.zeros(plan.length)
        rotated[positions] = values
        each += rotate_back(plan, rotated)
        cohort.add(client, payload)
    assert cohort.release() == pytest.approx(each / (4 * plan.gamma), abs=1e-7)


@pytest.mark.parametrize("rotation", [Rotation.HADAMARD, Rotation.DCT, Rotation.NONE])
@pytest.mark.parametrize("who", [(), CLIENTS])
def test_noise_is_added_once_however_many_reply(rotation, who):
    """Its variance on the mean is (sigma/(n gamma))^2, also if nobody replies."""
    dim, sigma = 20_000, 3.0
    plan = plan_with(sigma, "l2-csgm", 0.5, dim=dim, rotation=rotation)
    zeros = dict.fromkeys(CLIENTS, np.zeros(dim))
    cohort = seeded(plan).draw(CLIENTS)
    for client in who:
        cohort.add(client, encode(plan, zeros[client], cohort.seed_of(client)))
    noise = cohort.release() / (sigma / (4 * 0.5))
    assert abs(noise.mean()) < RARE / math.sqrt(dim)
    assert abs((noise**2).mean() - 1) < RARE * math.sqrt(2 / dim)


def test_each_round_has_its_own_noise_and_masks():
    """Neither is drawn again."""
    plan = plan_with(1.0, "l2-csgm", 0.5, dim=5000, ratio=1.0)
    server = seeded(plan)
    seeds, noises = set(), []
    for _ in range(2):
        cohort = server.draw(CLIENTS)
        seeds |= {cohort.seed_of(client) for client in CLIENTS}
        noises.append(cohort.release())
    assert len(seeds) == 8
    assert abs(np.corrcoef(noises)[0, 1]) < RARE / math.sqrt(5000)


def test_without_a_seed_nothing_repeats():
    """Entropy comes from the operating system, and nothing is said to lack privacy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        servers = [Server(plan_with(1.0)) for _ in range(2)]
        cohorts = [server.draw(CLIENTS) for server in servers]
        assert cohorts[0].seed_of("a") != cohorts[1].seed_of("a")
        assert not np.array_equal(*(cohort.release() for cohort in cohorts))
    assert all(server.is_private for server in servers)


def test_a_seeded_server_says_not_private_with_every_result():
    """At the start and with each release; the same seed gives the same."""
    results = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="NOT PRIVATE"):
            server = Server(plan_with(1.0), seed=7)
        cohort = server.draw(CLIENTS)
        reply(cohort, VECTORS)
        with pytest.warns(UserWarning, match="NOT PRIVATE"):
            results.append(cohort.release())
        assert not server.is_private
    assert np.array_equal(*results)


# ---------------------------------------------------------------- client sampling


def sampled(rate=0.25, clients=200, **rest):
    """A plan whose cohorts are drawn from so many clients."""
    return plan_with(
        cohort_size=round(rate * clients), sampling_rate=rate, rounds=rest.pop("rounds", 400), **rest
    )


def test_each_client_is_drawn_independently_with_the_sampling_rate():
    """Frequencies of clients, and sizes of cohorts, are binomial."""
    server = seeded(sampled())
    draws = np.zeros((400, 200))
    for row in draws:
        row[list(server.draw(range(200)).clients)] = 1
    q, trials = 0.25, draws.size
    assert abs(draws.mean() - q) < RARE * math.sqrt(q * (1 - q) / trials)
    # Variances over rounds and over clients: of binomial counts, whose relative error is sqrt(2/samples).
    for axis in (0, 1):
        counts = draws.sum(axis=axis)
        expected = draws.shape[axis] * q * (1 - q)
        assert abs(counts.var(ddof=1) / expected - 1) < RARE * math.sqrt(2 / len(counts))


def test_the_planned_cohort_divides_whoever_is_drawn():
    """q N, not the number of clients drawn."""
    server = seeded(sampled(0.5, 8))
    vectors = dict.fromkeys(range(8), np.full(8, 0.25))
    cohort = server.draw(range(8))
    assert len(cohort.clients) != 4, "the test needs a cohort of another size"
    reply(cohort, vectors)
    assert cohort.release() == pytest.approx(len(cohort.clients) / 4 * np.full(8, 0.25), abs=1e-6)


def test_an_empty_cohort_releases_noise():
    """Its release looks like any other."""
    plan = sampled(1e-6, 10**6, sigma=1.0, dim=64)
    server = seeded(plan)
    cohort = server.draw(range(10**6))
    while cohort.clients:
        cohort = server.draw(range(10**6))
    noise = cohort.release()
    assert abs((noise**2).mean() - 1) < RARE * math.sqrt(2 / 64)


def test_a_population_of_another_size_is_refused():
    """The divisor would be wrong; the message has the plan's numbers alone."""
    with pytest.raises(UsageError, match="planned cohort_size 50") as caught:
        seeded(sampled()).draw(range(100))
    assert caught.value.slug == "bad-cohort"


@pytest.mark.parametrize(
    ("clients", "fits"), [(1, False), (499, False), (500, True), (1500, True), (1501, False)]
)
def test_the_population_is_that_of_the_plan_up_to_rounding(clients, fits):
    """A planned cohort of one client and q = 0.001: q N may be 0.5 to 1.5."""
    server = seeded(plan_with(cohort_size=1, sampling_rate=1e-3, rounds=5))
    if fits:
        server.draw(range(clients))
        return
    with pytest.raises(UsageError, match="planned cohort_size 1"):
        server.draw(range(clients))


def test_no_message_depends_on_who_was_drawn():
    """Refusals are the same words in every round."""
    server = seeded(sampled(0.5, 8))
    messages = set()
    for _ in range(30):
        cohort = server.draw(range(8))
        said = []
        for client, payload in ((9, b""), *((c, b"") for c in cohort.clients[:1])):
            with pytest.raises(UsageError) as caught:
                cohort.add(client, payload)
            said.append(str(caught.value))
        if cohort.clients:
            messages.add(tuple(said))
    assert len(messages) == 1


# ---------------------------------------------------------------- cohorts in a fixed order


def in_turn(rounds=2, **rest):
    """Cohorts of 4 that take turns."""
    return plan_with(rounds=rounds, disjoint_cohorts=True, **rest)


def test_cohorts_take_turns():
    """Ten clients in cohorts of four: nobody takes part a second time before all have once."""
    server, clients = seeded(in_turn()), "abcdefghij"
    drawn = []
    while server.remaining:
        cohort = server.draw(clients)
        drawn.append("".join(cohort.clients))
        cohort.release()
    assert drawn == ["abcd", "efgh", "ijab", "cdef", "ghij"]  # twice each: ceil(5 * 4/10) = 2


def test_a_resumed_run_takes_the_next_turn(tmp_path):
    """By the number of releases in the ledger, and of the same population."""
    plan, clients = in_turn(), "abcdefghij"
    server = Server(plan, csgm_ledger(tmp_path, plan))
    server.draw(clients).release()
    again = Server(plan, csgm_ledger(tmp_path, plan))
    assert again.remaining == 4
    assert "".join(again.draw(clients).clients) == "efgh"
    with pytest.raises(UsageError, match="the same clients"):
        again.draw(clients + "k")


def test_in_a_new_order_nobody_exceeds_the_participations_in_the_ledger(tmp_path):
    """Whatever the order after each restart, ten clients in cohorts of four take part at most as counted."""
    plan, clients = in_turn(rounds=5), list("abcdefghij")
    rng, took_part = np.random.default_rng(0), Counter()
    for releases in (1, 2, 4, 99):  # before each restart
        ledger = csgm_ledger(tmp_path, plan)
        server, order = Server(plan, ledger, new_order=True), rng.permutation(clients).tolist()
        for _ in range(releases):
            if not server.remaining:
                break
            cohort = server.draw(order)
            took_part.update(cohort.clients)
            cohort.release()
            assert max(took_part.values()) <= ledger.participations
    # turns begun by each process: 1, 1, 2 by four cohorts of ten clients, and 1 by two cohorts
    assert (ledger.participations, len(ledger.entries)) == (5, 1 + 2 + 4 + 2)
    with pytest.raises(UsageError, match="all releases"):
        server.draw(clients)


def test_the_old_order_does_not_go_on_after_a_new_one(tmp_path):
    """The ledger does not say who was in the turn that was interrupted."""
    plan, clients = in_turn(rounds=5), "abcdefghij"
    Server(plan, csgm_ledger(tmp_path, plan)).draw(clients).release()
    Server(plan, csgm_ledger(tmp_path, plan), new_order=True).draw(clients[::-1]).release()
    with pytest.raises(UsageError, match="interrupted"):
        Server(plan, csgm_ledger(tmp_path, plan)).draw(clients)


@pytest.mark.parametrize("other", ["jihgfedcba", "abcdefghji", "abcdefghix"])
def test_clients_that_take_turns_keep_their_order(other):
    """In another order, or with a new client, somebody could take part more often than calibrated."""
    server = seeded(in_turn())
    server.draw("abcdefghij").release()
    with pytest.raises(UsageError, match="in the same order") as caught:
        server.draw(other)
    assert caught.value.slug == "bad-cohort"
    assert "".join(server.draw("abcdefghij").clients) == "efgh"


def csgm_ledger(folder, plan):
    """The ledger of a test."""
    from csgm_cli.mechanism.ledger import Ledger

    return Ledger(folder / "ledger.json", plan)


# ---------------------------------------------------------------- factorized streams


@pytest.fixture(scope="module")
def solved():
    """Prefix sums of four steps."""
    return csgm.factorize(4)


def stream_plan(solved, sigma=QUIET, epochs=2, **rest):
    """A plan for the factorization."""
    return plan_with(sigma, factorization=csgm.factor_norms(solved), epochs=epochs, **rest)


def test_a_stream_releases_prefix_sums_and_restarts(solved):
    """Row t is the sum of the first t means of its epoch."""
    server = seeded(stream_plan(solved), factors=solved)
    clients = [f"{step}{i}" for step in range(4) for i in range(4)]
    vectors = unit_vectors(clients)
    for _ in range(2):
        expected = np.zeros(8)
        for step in range(4):
            cohort = clients[4 * step : 4 * step + 4]
            expected += np.mean([vectors[c] for c in cohort], axis=0)
            assert released(server, cohort, vectors) == pytest.approx(expected, abs=1e-6)
    assert server.remaining == 0


@pytest.mark.parametrize("given", ["factorization", "array"])
@pytest.mark.parametrize(("name", "gamma"), [("gaussian", 1.0), ("l2-csgm", 0.5), ("linf-csgm", 0.5)])
def test_covariance_of_a_stream(solved, given, name, gamma):
    """sigma^2 B B^T/(n gamma)^2 within an epoch, and none between epochs; coordinates are the samples."""
    dim, sigma = 40_000, 2.0
    b = csgm.dense_factors(solved).B
    plan = stream_plan(solved, sigma, name=name, gamma=gamma, dim=dim, ratio=1.0)
    server = seeded(plan, factors=solved if given == "factorization" else b)
    rows = np.array([server.draw([]).release() for _ in range(8)]) / (sigma / (4 * gamma))
    expected = np.kron(np.eye(2), b @ b.T)
    variances = np.diag(expected)
    # Of a sample covariance: (C_ii C_jj + C_ij^2)/samples; 36 entries.
    std = np.sqrt((np.outer(variances, variances) + expected**2) / dim)
    assert (np.abs(rows @ rows.T / dim - expected) < 6 * std).all()


def test_a_client_takes_part_once_per_epoch(solved):
    """A second step in the same epoch is refused, one in the next is not."""
    server = seeded(stream_plan(solved), factors=solved)
    server.draw(["a", "b"]).release()
    with pytest.raises(UsageError, match="this epoch already"):
        server.draw(["c", "b"])
    for _ in range(3):
        server.draw([]).release()
    server.draw(["b"]).release()


def test_the_next_row_counts_the_releases_of_an_epoch(solved):
    """From 0 to T - 1, and anew."""
    server, rows = seeded(stream_plan(solved), factors=solved), []
    while server.remaining:
        rows.append(server.next_row)
        server.draw([]).release()
    assert rows == [0, 1, 2, 3, 0, 1, 2, 3]


def test_an_interrupted_epoch_counts_as_one(tmp_path, solved):
    """The next run begins a new stream, and the clients of the old one may take part again."""
    plan = stream_plan(solved)
    server = Server(plan, csgm_ledger(tmp_path, plan), factors=solved)
    server.draw(["a"]).release()
    assert server.remaining == 7
    again = Server(plan, csgm_ledger(tmp_path, plan), factors=solved)
    assert again.remaining == 4
    again.draw(["a"]).release()
    assert [entry.participations for entry in csgm_ledger(tmp_path, plan).entries] == [1, 2]


def test_factors_that_change_after_the_check_change_nothing(solved):
    """An array of zeros would release sums without noise."""
    b = csgm.dense_factors(solved).B.copy()
    server = seeded(stream_plan(solved, 1.0), factors=b)
    b[:] = 0.0
    assert np.abs(server.draw([]).release()).min() > 0


def test_other_factors_are_refused(solved):
    """Another number of rows, another scale, no prefix sums, or none at all."""
    plan = stream_plan(solved)
    b = csgm.dense_factors(solved).B
    for factors, slug in (
        (csgm.factorize(5), "other-factorization"),
        (b / 2, "other-factorization"),
        (csgm.factorize(csgm.parse_workload("momentum=0.5", 4)), "other-factorization"),
        (None, "missing-factors"),
    ):
        with pytest.raises(UsageError) as caught:
            seeded(plan, factors=factors)
        assert caught.value.slug == slug
    momentum = csgm.factorize(csgm.parse_workload("momentum=0.5", 4))
    with pytest.raises(UsageError, match="prefix sums"):
        seeded(stream_plan(momentum), factors=momentum)
    with pytest.raises(UsageError, match="no factorization"):
        seeded(plan_with(), factors=solved)


# ---------------------------------------------------------------- refusals


def test_replies_that_are_refused_leave_the_sum_as_it_was():
    """A second one, a stranger's, and broken ones; the round goes on."""
    server = seeded(plan_with())
    cohort = server.draw("abc")
    reply(cohort, VECTORS)
    payload = encode(cohort.plan, VECTORS["d"], b"0" * 16)
    for client, sent in (("a", payload), ("d", payload), ("d", b""), (["a"], payload)):
        with pytest.raises(UsageError) as caught:
            cohort.add(client, sent)
        assert caught.value.slug == "bad-reply"
    expected = sum(VECTORS[c] for c in "abc") / 4
    assert cohort.release() == pytest.approx(expected, abs=1e-6)


def test_rounds_that_are_over_take_nothing():
    """Once released, or once the next is drawn."""
    server = seeded(plan_with())
    first = server.draw(CLIENTS)
    second = server.draw(CLIENTS)
    second.release()
    for cohort in (first, second):
        with pytest.raises(UsageError, match="over"):
            cohort.release()
        with pytest.raises(UsageError, match="over"):
            cohort.add("a", encode(cohort.plan, VECTORS["a"], cohort.seed_of("a")))
    assert server.released == 1


@pytest.mark.parametrize("clients", ["abcde", "aa", 3, [["a"]]])
def test_cohorts_that_were_not_planned_are_refused(clients):
    """Too many clients, one of them twice, or none that could be told apart."""
    with pytest.raises(UsageError) as caught:
        seeded(plan_with()).draw(clients)
    assert caught.value.slug == "bad-cohort"


def test_no_more_releases_than_planned():
    """Each of `rounds` releases may hold one client's vector."""
    server = seeded(plan_with(rounds=2))
    for left in (2, 1):
        assert server.remaining == left
        server.draw(CLIENTS).release()
    with pytest.raises(UsageError) as caught:
        server.draw(CLIENTS)
    assert caught.value.slug == "no-rounds-left"
