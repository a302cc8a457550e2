"""Rounds of the strategy and the mod: what is released, to the last digit, and what ends a run."""

import json
import math
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr.app", reason="flwr is not installed: pip install 'csgm-cli[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

import csgm_cli as csgm
from csgm_cli.cli import main
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.flower import CsgmStrategy, csgm_mod
from csgm_cli.flower.messages import payload_content, payload_of
from tests.flower.federation import DIM, Federation, give_identity, model, strategy, train, values
from tests.mechanism.plans import plan_with

CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    give_identity(monkeypatch)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr("csgm_cli.flower.strategy._PAUSE", 0.0)


def unit(node):
    """An update of norm below 1 that differs between nodes."""
    return np.random.default_rng(node).normal(size=DIM) / 10


def mean_of(nodes, planned):
    """Sum of the updates over the planned number of clients."""
    return sum(map(unit, nodes)) / planned


def entries(folder):
    """Number of releases in the ledger."""
    path = folder / "ledger.json"
    return len(json.loads(path.read_text())["releases"]) if path.exists() else 0


def error_of_flower(federation):
    """The reply to a message whose node is gone; its source is the SuperLink."""
    error = Message(Error(5, "Node Unavailable"), reply_to=federation.sent[-1][0])
    error.metadata.__dict__["_src_node_id"] = 999
    return error


# ---------------------------------------------------------------- what is released


def test_clients_count_alike(tmp_path):
    """The update of the model is the sum over n, whatever numbers of examples clients report."""
    found = train(Federation(4, unit), strategy(tmp_path, plan_with()))
    np.testing.assert_allclose(values(found), mean_of(range(1, 5), 4), **CLOSE)


def test_updates_are_clipped(tmp_path):
    """To the L2 norm 1: the sum of four equal updates of norm 10 has norm 4."""
    update = np.full(DIM, 10 / math.sqrt(DIM))
    found = train(Federation(4, lambda _: update), strategy(tmp_path, plan_with()))
    np.testing.assert_allclose(values(found), update / 10, **CLOSE)


def test_zero_updates_stay_zero(tmp_path):
    found = train(Federation(4, lambda _: np.zeros(DIM)), strategy(tmp_path, plan_with()))
    np.testing.assert_allclose(values(found), 0, **CLOSE)


@pytest.mark.parametrize("lost", ["silent", "failed", "gone", "nan"])
def test_lost_replies_change_neither_divisor_nor_noise(tmp_path, lost):
    """One client in ten counts as zero: it times out, fails, is gone, or diverges. The round is released."""
    plan = plan_with(cohort_size=10)
    federation = Federation(10, lambda node: unit(node) * (math.nan if (node, lost) == (3, "nan") else 1))
    kept = {
        "silent": lambda reply: [],
        "failed": lambda reply: [Message(Error(2, "failed"), reply_to=federation.sent[-1][0])],
        # As Flower says on behalf of a node: its own id is the source.
        "gone": lambda reply: [error_of_flower(federation)],
        "nan": lambda reply: [reply],
    }[lost]
    federation.tamper = lambda replies: [
        kept_reply
        for reply in replies
        for kept_reply in (kept(reply) if reply.metadata.src_node_id == 3 else [reply])
    ]
    found = train(federation, strategy(tmp_path, plan))
    np.testing.assert_allclose(values(found), mean_of({*range(1, 11)} - {3}, 10), **CLOSE)
    assert entries(tmp_path) == 1


@pytest.mark.parametrize(("name", "gamma"), [("gaussian", 1.0), ("l2-csgm", 0.5), ("linf-csgm", 0.5)])
def test_noise_is_added_once(tmp_path, name, gamma):
    """All-zero updates: 240 values of standard deviation sigma/(n gamma), within five standard errors."""
    plan = plan_with(2.0, name, gamma, cohort_size=4, rounds=30, ratio=2.0 if gamma < 1 else 1.0)
    federation = Federation(4, lambda _: np.zeros(DIM))
    runs = strategy(tmp_path, plan)
    drawn = np.concatenate([values(train(federation, runs)) for _ in range(30)])
    assert abs(np.std(drawn) / (2.0 / (4 * gamma)) - 1) < 5 / math.sqrt(2 * len(drawn))


def test_compressed_updates_are_unbiased_and_of_the_expected_size(tmp_path):
    """Means over 150 rounds, within five standard errors of the masks.

    An update varies by sqrt((1 - gamma)/gamma) |x|, a payload by 4 sqrt(8 gamma (1 - gamma)) bytes.
    """
    plan = plan_with(name="l2-csgm", gamma=0.5, rounds=150, ratio=1.0)
    federation, runs = Federation(4, unit), strategy(tmp_path, plan)
    found = np.mean([values(train(federation, runs)) for _ in range(150)], axis=0)
    spread = np.sqrt(sum(unit(node) ** 2 for node in range(1, 5))) / 4 / math.sqrt(150)
    assert (np.abs(found - mean_of(range(1, 5), 4)) < 5 * spread).all()
    sizes = [len(payload_of(reply.content)) for replies in federation.received for reply in replies]
    assert runs.bytes_per_client == 16 + 4 * 4  # the header and half of eight values
    assert abs(np.mean(sizes) - runs.bytes_per_client) < 5 * 4 * math.sqrt(8 / 4 / len(sizes))


@pytest.mark.parametrize("inner", [FedAvg, FedAvgM, FedAdam])
def test_excluded_arrays_stay_as_they_are(tmp_path, inner):
    """A counter keeps its value and its type whatever the inner strategy computes."""
    found = train(Federation(4, unit), strategy(tmp_path, plan_with(rounds=2), inner()), rounds=2)
    counter = found["steps"].numpy()
    assert (counter.dtype, counter.tolist()) == (np.dtype(int), 3)


def test_the_inner_strategy_uses_the_noisy_mean(tmp_path):
    """FedAvgM with momentum 0.5 and learning rate 1: the second step adds half of the first."""
    inner = FedAvgM(server_learning_rate=1.0, server_momentum=0.5)
    found = train(Federation(4, unit), strategy(tmp_path, plan_with(rounds=2), inner), rounds=2)
    np.testing.assert_allclose(values(found), 2.5 * mean_of(range(1, 5), 4), **CLOSE)


# ---------------------------------------------------------------- cohorts


def test_each_client_is_sent_its_own_fresh_seed(tmp_path):
    """Sixteen bytes, all different; the noise and the size of the cohort are not sent."""
    federation = Federation(4, unit)
    train(federation, strategy(tmp_path, plan_with(rounds=3)), rounds=3)
    tasks = [message.content["csgm"] for messages in federation.sent[::2] for message in messages]
    assert len(tasks) == 12 == len({task["seed"] for task in tasks})
    assert {len(task["seed"]) for task in tasks} == {16}
    assert all({"sigma", "cohort_size"}.isdisjoint(task) for task in tasks)


def test_a_fixed_order_takes_turns(tmp_path):
    """Ten clients in cohorts of four: nobody takes part again before all others have."""
    plan = plan_with(rounds=2, disjoint_cohorts=True)
    federation = Federation(10, unit)
    train(federation, strategy(tmp_path, plan, population_size=10), rounds=5)
    order = [reply.metadata.src_node_id for replies in federation.received[::2] for reply in replies]
    assert Counter(order) == dict.fromkeys(range(1, 11), 2)
    assert order == 2 * list(range(1, 11))


def test_with_client_sampling_the_strategy_draws(tmp_path):
    """Cohorts of random size; the divisor is the planned n = q N in each round."""
    plan = plan_with(rounds=40, sampling_rate=0.2, cohort_size=4)
    federation = Federation(20, unit)
    seen, before = set(), np.zeros(DIM)

    def check(server_round, arrays):
        nonlocal before
        if server_round:
            drawn = [message.metadata.dst_node_id for message in federation.sent[-2]]
            np.testing.assert_allclose(values(arrays) - before, mean_of(drawn, 4), **CLOSE)
            seen.add(len(drawn))
        before = values(arrays)

    strategy(tmp_path, plan).start(federation, model(), num_rounds=40, evaluate_fn=check)
    assert len(seen) > 3


@pytest.mark.parametrize("rest", [{"sampling_rate": 0.4}, {"disjoint_cohorts": True}])
def test_a_sample_of_fixed_size_is_refused(tmp_path, rest):
    """Flower's fraction_train samples without replacement, which is not what was calibrated."""
    size = {"population_size": 10}
    runs = strategy(tmp_path, plan_with(**rest), FedAvg(fraction_train=0.5), **size)
    with pytest.raises(UsageError, match="a sample of fixed size is not what was calibrated"):
        train(Federation(10, unit), runs)
    assert entries(tmp_path) == 0


def test_where_each_client_counts_in_every_round_the_inner_strategy_may_sample(tmp_path):
    """At most n clients; the plan counts all of them in all rounds."""
    federation = Federation(8, unit)
    found = train(federation, strategy(tmp_path, plan_with(), FedAvg(fraction_train=0.5)))
    drawn = [message.metadata.dst_node_id for message in federation.sent[0]]
    assert len(drawn) == 4
    np.testing.assert_allclose(values(found), mean_of(drawn, 4), **CLOSE)
    with pytest.raises(UsageError, match="at most the planned 4"):
        train(federation, strategy(tmp_path, plan_with(), FedAvg()))


def test_nodes_that_leave_count_as_zeros_and_new_ones_are_not_admitted(tmp_path):
    """The population is that of the first round."""
    plan = plan_with(rounds=3, disjoint_cohorts=True)
    federation = Federation(4, unit)

    def change(server_round, _):
        if server_round == 1:
            federation.nodes = [2, 3, 4, 9]

    runs = strategy(tmp_path, plan, population_size=4)
    found = runs.start(federation, model(), num_rounds=2, evaluate_fn=change).arrays
    expected = mean_of([1, 2, 3, 4], 4) + mean_of([2, 3, 4], 4)
    np.testing.assert_allclose(values(found), expected, **CLOSE)


def test_the_first_round_waits_for_the_population(tmp_path):
    """And refuses more nodes than were calibrated for."""
    plan = plan_with(disjoint_cohorts=True)
    federation = Federation(6, unit)
    looks = iter([[1], [1, 2], [1, 2, 3, 4, 5]])
    federation.get_node_ids = lambda: next(looks, [1, 2, 3, 4, 5, 6])
    train(federation, strategy(tmp_path, plan, population_size=6))
    with pytest.raises(UsageError, match="6 nodes are connected"):
        train(federation, strategy(tmp_path, plan, population_size=5))


# ---------------------------------------------------------------- correlated noise


@pytest.fixture(scope="module")
def solved():
    """The factors of four rounds."""
    return csgm.factorize(4)


def test_a_factorized_stream_trains_on_increments(tmp_path, solved):
    """Without noise the model is the sum of all means; each client takes part once per epoch."""
    plan = plan_with(factorization=csgm.factor_norms(solved), epochs=2)
    federation = Federation(16, unit)
    found = train(federation, strategy(tmp_path, plan, factors=solved), rounds=8)
    np.testing.assert_allclose(values(found), 2 * mean_of(range(1, 17), 4), **CLOSE)
    order = [message.metadata.dst_node_id for messages in federation.sent[::2] for message in messages]
    assert order == 2 * list(range(1, 17))


@pytest.mark.parametrize(("name", "gamma"), [("gaussian", 1.0), ("l2-csgm", 0.5)])
def test_noise_of_a_factorized_stream(tmp_path, solved, name, gamma):
    """The model after round t has row t of B Z: variance (sigma |B_t|/(n gamma))^2, within five errors."""
    plan = plan_with(2.0, name, gamma, factorization=csgm.factor_norms(solved), epochs=20)
    federation = Federation(16, lambda _: np.zeros(DIM))
    runs = strategy(tmp_path, plan, factors=solved)
    found = np.zeros((20, 4, DIM))
    for epoch in range(20):

        def keep(server_round, arrays, epoch=epoch):
            if server_round:
                found[epoch, server_round - 1] = values(arrays)

        runs.start(federation, model(), num_rounds=4, evaluate_fn=keep)
    expected = 2.0 / (4 * gamma) * np.linalg.norm(csgm.dense_factors(solved).B, axis=1)
    assert (np.abs(found.std(axis=(0, 2)) / expected - 1) < 5 / math.sqrt(2 * 20 * DIM)).all()


def test_a_restarted_stream_begins_a_new_epoch(tmp_path, solved):
    """The interrupted epoch counts in full, so that one of the three is left, of four rounds."""
    plan = plan_with(factorization=csgm.factor_norms(solved), epochs=3)
    federation = Federation(16, unit)
    train(federation, strategy(tmp_path, plan, factors=solved), rounds=6)
    again = strategy(tmp_path, plan, factors=solved)
    assert again.remaining == 4
    train(federation, again, rounds=4)
    assert [message.metadata.dst_node_id for message in federation.sent[12]] == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="all releases"):
        train(federation, strategy(tmp_path, plan, factors=solved))


# ---------------------------------------------------------------- forged and broken replies


def raw(federation, replies):
    """A client without the mod: the trained model itself."""
    content = RecordDict({"arrays": model(), "metrics": MetricRecord({"num-examples": 1})})
    return [Message(content, reply_to=federation.sent[-1][0]), *replies[1:]]


def with_payload(change):
    """The first reply with its payload changed."""

    def tamper(federation, replies):
        payload = change(payload_of(replies[0].content))
        return [Message(payload_content(payload), reply_to=federation.sent[-1][0]), *replies[1:]]

    return tamper


def with_metrics(_, replies):
    """A mod before csgm_mod that adds a record."""
    replies[0].content["more"] = MetricRecord({"loss": 1.0})
    return replies


def with_arrays(_, replies):
    """A mod before csgm_mod that adds an array."""
    replies[0].content["csgm"]["w"] = Array(np.zeros(3))
    return replies


def as_npy(federation, replies):
    """The payload as an array of numbers."""
    payload = np.frombuffer(payload_of(replies[0].content), np.uint8)
    content = RecordDict({"csgm": ArrayRecord({"payload": Array(payload)})})
    return [Message(content, reply_to=federation.sent[-1][0]), *replies[1:]]


def from_outside(_, replies):
    """A reply of a node that was not asked."""
    replies[0].metadata.__dict__["_src_node_id"] = 99
    return replies


def swapped(federation, replies):
    """The payload of another client of the round."""
    content = payload_content(payload_of(replies[1].content))
    return [Message(content, reply_to=federation.sent[-1][0]), *replies[1:]]


def replayed(federation, replies):
    """The reply of the same client in an earlier round."""
    content = payload_content(payload_of(federation.received[0][0].content))
    return [Message(content, reply_to=federation.sent[-1][0]), *replies[1:]]


def huge(payload):
    """Values at the L-inf clip: together beyond the L2 clip."""
    return payload[:16] + np.ones(DIM, "<f4").tobytes()


FORGED = {
    "not encoded": (raw, "not encoded by csgm"),
    "empty": (lambda f, r: [Message(RecordDict(), reply_to=f.sent[-1][0])], "not encoded by csgm"),
    "metrics added": (with_metrics, "changed after csgm encoded it"),
    "arrays added": (with_arrays, "changed after csgm encoded it"),
    "npy": (as_npy, "changed after csgm encoded it"),
    "no payload": (with_payload(lambda _: b""), "not a payload"),
    "truncated": (with_payload(lambda p: p[:-1]), "length of the payload"),
    "too long": (with_payload(lambda p: p + b"\0\0\0\0"), "length of the payload"),
    "nan": (with_payload(lambda p: p[:-4] + b"\xff\xff\xff\x7f"), "NaN or infinite"),
    "infinite": (with_payload(lambda p: p[:-4] + b"\0\0\x80\x7f"), "NaN or infinite"),
    "above the L-inf clip": (with_payload(lambda p: p[:-4] + b"\0\0\0\x40"), "L-inf clip"),
    "above the L2 clip": (with_payload(huge), "L2 clip"),
    "of another client": (swapped, "another plan, client or round"),
    "replayed": (replayed, "another plan, client or round"),
    "twice": (lambda _, r: [*r, r[0]], "replied already"),
    "surplus": (from_outside, "does not take part"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_replies_release_nothing(tmp_path, kind):
    """The run ends, the ledger is unchanged, and the round can be tried again."""
    change, message = FORGED[kind]
    federation, runs = Federation(4, unit), strategy(tmp_path, plan_with())
    train(federation, runs)
    federation.tamper = lambda replies: change(federation, replies)
    with pytest.raises(UsageError, match=message):
        train(federation, runs)
    assert entries(tmp_path) == 1
    assert runs.remaining == 2
    federation.tamper = list
    found = train(federation, runs)
    np.testing.assert_allclose(values(found), mean_of(range(1, 5), 4), **CLOSE)


def test_a_reply_from_before_a_restart_is_refused(tmp_path):
    """The seeds of the earlier process are gone."""
    federation = Federation(4, unit)
    train(federation, strategy(tmp_path, plan_with()))
    federation.tamper = lambda replies: replayed(federation, replies)
    with pytest.raises(UsageError, match="another plan, client or round"):
        train(federation, strategy(tmp_path, plan_with()))
    assert entries(tmp_path) == 1


def test_replies_to_no_question_are_refused(tmp_path):
    """A round is aggregated once, after it was configured."""
    federation, runs = Federation(4, unit), strategy(tmp_path, plan_with())
    with pytest.raises(UsageError, match="configure_train must come before"):
        runs.aggregate_train(1, [])
    train(federation, runs)
    with pytest.raises(UsageError, match="configure_train must come before"):
        runs.aggregate_train(1, federation.received[0])
    assert entries(tmp_path) == 1


# ---------------------------------------------------------------- set-ups that are wrong


def adds_metrics(message, context, call_next):
    """A mod that reports something of its own."""
    reply = call_next(message, context)
    if reply.has_content():
        reply.content["mine"] = MetricRecord({"time": 1.0})
    return reply


def halves(message, context, call_next):
    """A mod that scales the model that was trained."""
    reply = call_next(message, context)
    for name, array in list(reply.content["arrays"].items()):
        if array.numpy().dtype.kind == "f":
            reply.content["arrays"][name] = Array(array.numpy() / 2)
    return reply


def test_the_mod_must_be_first(tmp_path):
    """Mods after it see the trained model; one before it that adds to the reply ends the run."""
    federation = Federation(4, unit, mods=[csgm_mod, adds_metrics, halves])
    found = train(federation, strategy(tmp_path, plan_with()))
    np.testing.assert_allclose(values(found), mean_of(range(1, 5), 4) / 2, **CLOSE)
    federation = Federation(4, unit, mods=[adds_metrics, csgm_mod])
    with pytest.raises(UsageError, match="changed after csgm encoded it") as raised:
        train(federation, strategy(tmp_path, plan_with()))
    assert "must be the first mod" in raised.value.hint
    assert entries(tmp_path) == 1


def test_a_client_without_the_mod_ends_the_run(tmp_path):
    federation = Federation(4, unit, mods=[lambda m, c, n: (m.content.pop("csgm"), n(m, c))[1]])
    with pytest.raises(UsageError, match="not encoded by csgm") as raised:
        train(federation, strategy(tmp_path, plan_with()))
    assert "must be the first mod" in raised.value.hint
    assert entries(tmp_path) == 0


def test_a_server_without_the_wrapper_gets_no_update(tmp_path):
    """The mod replies with an error, never with the model."""
    federation = Federation(4, unit)
    inner = FedAvg()
    messages = inner.configure_train(1, model(), ConfigRecord(), federation)
    for reply in federation.send_and_receive(messages):
        assert reply.has_error()
        assert not reply.has_content()
        assert "wrap the server's strategy in CsgmStrategy" in reply.error.reason


def test_a_client_that_trains_another_model_ends_the_run(tmp_path):
    """Its error says why; other errors count as lost replies."""

    def other(message, _, __):
        return Message(RecordDict({"arrays": ArrayRecord({"v": Array(np.zeros(2))})}), reply_to=message)

    federation = Federation(4, unit, mods=[csgm_mod, other])
    with pytest.raises(UsageError, match="a client refused the task: the trained model has other arrays"):
        train(federation, strategy(tmp_path, plan_with()))
    assert entries(tmp_path) == 0


def test_the_reason_of_a_client_is_made_safe_to_print(tmp_path):
    """It comes from the network: one short line without control characters."""
    federation = Federation(4, unit)
    federation.tamper = lambda _: [
        Message(Error(1102, "\x1b[2J\n" + 10**5 * "x"), reply_to=federation.sent[-1][0])
    ]
    with pytest.raises(UsageError, match="refused the task") as raised:
        train(federation, strategy(tmp_path, plan_with()))
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 1100


def test_no_release_if_all_clients_fail(tmp_path):
    """Noise alone would cost a release and ruin the model."""
    federation, runs = Federation(4, lambda _: np.full(DIM, np.nan)), strategy(tmp_path, plan_with())
    with pytest.raises(UsageError, match="no client could train; one reported: vector holds NaN"):
        train(federation, runs)
    assert entries(tmp_path) == 0


def test_counters_must_be_excluded_by_name(tmp_path):
    """The server finds an integer array, or a name that is not there, before any client trains."""
    for exclude, message in (((), "array 'steps' holds int64"), (["step"], "no array 'step'")):
        federation = Federation(4, unit)
        with pytest.raises(UsageError, match=message):
            train(federation, strategy(tmp_path, plan_with(), exclude=exclude))
        assert federation.sent == []


def test_a_plan_for_fewer_values_is_refused(tmp_path):
    federation = Federation(4, unit)
    with pytest.raises(UsageError, match="8 trained values, the plan is for dim 7"):
        train(federation, strategy(tmp_path, plan_with(dim=7)))
    assert federation.sent == []


def test_a_plan_for_more_values_pads_with_zeros(tmp_path):
    """As Kashin's and Hadamard's rotation need for some mechanisms."""
    found = train(Federation(4, unit), strategy(tmp_path, plan_with(dim=11)))
    np.testing.assert_allclose(values(found), mean_of(range(1, 5), 4), **CLOSE)


def test_an_inner_strategy_that_addresses_a_node_twice_is_refused(tmp_path):
    class Twice(FedAvg):
        """Sends every message twice."""

        def configure_train(self, *args):
            return 2 * list(super().configure_train(*args))

    with pytest.raises(UsageError, match="two messages"):
        train(Federation(4, unit), strategy(tmp_path, plan_with(), Twice()))


def test_the_ledger_needs_an_absolute_path(monkeypatch, tmp_path):
    """Flower runs the server elsewhere, and a second ledger would begin at zero."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="absolute path"):
        CsgmStrategy(FedAvg(), plan_with(), "ledger.json")


# ---------------------------------------------------------------- metrics


def test_metrics_of_clients_are_dropped(tmp_path):
    """Neither training nor evaluation reports any; replies to training hold the payload alone."""
    federation = Federation(4, unit)
    result = strategy(tmp_path, plan_with()).start(federation, model(), num_rounds=1)
    assert (result.train_metrics_clientapp, result.evaluate_metrics_clientapp) == ({}, {})
    assert federation.sent[1] == []
    assert [list(reply.content) for reply in federation.received[0]] == 4 * [["csgm"]]


def test_clients_evaluate_if_asked_to(tmp_path):
    """Their metrics are outside the guarantee."""
    runs = strategy(tmp_path, plan_with(), client_metrics=True)
    result = runs.start(Federation(4, unit), model(), num_rounds=1)
    assert result.train_metrics_clientapp == {}
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


# ---------------------------------------------------------------- the ledger


def test_the_ledger_agrees_with_account(tmp_path, capsys):
    """After 3 and, in a new process, 5 of 6 rounds."""
    options = ["--gamma", "0.5", "--dim", "8", "--cohort-size", "4", "--norm-ratio", "1.5"]
    calibration = tmp_path / "calibration.json"
    command = ["calibrate", *options, "--epsilon", "4", "--delta", "1e-5", "--rounds", "6"]
    assert main([*command, "--format", "json", "--output", str(calibration)]) == 0
    sigma = json.loads(calibration.read_text())["result"]["sigma"]
    for total, more in ((3, 3), (5, 2)):
        runs = strategy(tmp_path, calibration)
        train(Federation(4, unit), runs, rounds=more)
        capsys.readouterr()
        account = ["account", *options, "--noise-multiplier", repr(sigma), "--delta", "1e-5"]
        assert main([*account, "--rounds", str(total), "--value"]) == 0
        assert runs.privacy_spent(1e-5) == pytest.approx(float(capsys.readouterr().out), rel=1e-9)
        assert (entries(tmp_path), runs.remaining) == (total, 6 - total)


def test_a_run_that_needs_more_releases_does_not_begin(tmp_path):
    """No client trains, and the ledger does not exist."""
    federation = Federation(4, unit)
    with pytest.raises(UsageError, match="the plan allows 3 more releases, the run needs 4"):
        train(federation, strategy(tmp_path, plan_with()), rounds=4)
    assert (federation.sent, entries(tmp_path)) == ([], 0)


def test_training_stops_before_the_release_that_would_exceed_the_plan(tmp_path):
    """For cohorts that take turns the limit is that of the participations: 10 clients twice, 4 a round."""
    plan = plan_with(rounds=2, disjoint_cohorts=True)
    federation = Federation(10, unit)
    with pytest.raises(UsageError, match="the plan allows 5 more releases, the run needs 6"):
        train(federation, strategy(tmp_path, plan, population_size=10), rounds=6)
    train(federation, strategy(tmp_path, plan, population_size=10), rounds=3)
    # Two turns were begun: after the restart none is left.
    with pytest.raises(UsageError, match="all releases"):
        train(federation, strategy(tmp_path, plan, population_size=10), rounds=1)
    assert entries(tmp_path) == 3


def test_a_server_that_dies_after_the_ledger_was_written_loses_the_release(tmp_path, monkeypatch):
    """It counts, and what the ledger allows is less by one."""

    def killed(*_):
        raise KeyboardInterrupt

    federation, runs = Federation(4, unit), strategy(tmp_path, plan_with())
    with monkeypatch.context() as patched:
        patched.setattr("csgm_cli.mechanism.server.rotate_back", killed)
        with pytest.raises(KeyboardInterrupt):
            train(federation, runs)
    assert entries(tmp_path) == 1
    assert strategy(tmp_path, plan_with()).remaining == 2


def test_two_servers_with_one_ledger_do_not_both_release(tmp_path):
    """Whichever comes second is refused."""
    first = strategy(tmp_path, plan_with())
    train(Federation(4, unit), first)
    try:
        second = strategy(tmp_path, plan_with())
    except UsageError:
        return  # locked
    train(Federation(4, unit), second)
    with pytest.raises(UsageError, match="changed since"):
        train(Federation(4, unit), first)
    assert entries(tmp_path) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [("sigma", 0.5), ("noise_multiplier", 0.5), ("rounds", 2.0), ("sampling_rate", 2.0), ("gamma", 0.25)],
)
def test_an_edited_calibration_is_refused(tmp_path, key, value):
    """A factor on one number that makes the guarantee in the file wrong, or the file inconsistent."""
    path = tmp_path / "calibration.json"
    command = ["calibrate", "--gamma", "0.5", "--dim", "8", "--cohort-size", "4", "--norm-ratio", "1.5"]
    command += ["--epsilon", "4", "--delta", "1e-5", "--rounds", "6", "--sampling-rate", "0.2"]
    assert main([*command, "--format", "json", "--output", str(path)]) == 0
    document = json.loads(path.read_text())
    part = document["result" if key in document["result"] else "inputs"]
    part[key] = type(part[key])(part[key] * value)
    path.write_text(json.dumps(document))
    with pytest.raises((NoAnswerError, UsageError)):
        strategy(tmp_path, path)
    assert not (tmp_path / "ledger.json").exists()
