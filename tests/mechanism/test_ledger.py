"""The record of released rounds: durable, append-only, and accounted as csgm account does."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

import csgm_cli as csgm
from csgm_cli.errors import StorageError, UsageError
from csgm_cli.mechanism import ledger as ledger_module
from csgm_cli.mechanism.ledger import Entry, Ledger
from csgm_cli.mechanism.server import Server
from csgm_cli.storage.schema import load_schema
from tests.mechanism.plans import plan_with, released, unit_vectors

CLIENTS = tuple("abcd")
VECTORS = unit_vectors(CLIENTS)


def test_epsilon_is_that_of_account(tmp_path):
    """Of as many rounds as were released, for each accountant."""
    plan = plan_with(1.0, "l2-csgm", 0.5, ratio=2.0, rounds=5)
    ledger = Ledger(tmp_path / "l.json", plan)
    server = Server(plan, ledger)
    for rounds in (1, 2, 3):
        released(server, CLIENTS, VECTORS)
        asked = replace(plan.mechanism, rounds=rounds)
        for accountant in ("auto", "rdp"):
            [found] = csgm.account_epsilon(asked, plan.sigma, [1e-5], accountant).guarantees
            assert ledger.epsilon(1e-5, accountant) == found.epsilon


def test_nothing_released_spends_nothing(tmp_path):
    """Epsilon 0, and no file yet."""
    ledger = Ledger(tmp_path / "l.json", plan_with())
    assert ledger.epsilon(1e-5) == 0.0
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_continues(tmp_path):
    """The rounds of two runs count together, and end where the plan does."""
    plan = plan_with(rounds=3)
    released(Server(plan, Ledger(tmp_path / "l.json", plan)), CLIENTS, VECTORS)
    ledger = Ledger(tmp_path / "l.json", plan)
    server = Server(plan, ledger)
    assert (server.released, server.remaining) == (1, 2)
    released(server, CLIENTS, VECTORS)
    released(server, CLIENTS, VECTORS)
    assert ledger.entries == (Entry(1, 1), Entry(2, 2), Entry(3, 3))
    with pytest.raises(UsageError, match="all releases") as caught:
        server.draw(CLIENTS)
    assert caught.value.slug == "no-rounds-left"


def test_the_file_meets_its_schema_and_holds_no_clients(tmp_path):
    """Neither names nor numbers of clients: two runs with other cohorts leave the same bytes."""
    texts = []
    for clients in (["alice"], ["bob", "carol", "dan"]):
        path = tmp_path / f"{len(clients)}.json"
        plan = plan_with()
        server = Server(plan, Ledger(path, plan))
        released(server, clients, unit_vectors(clients))
        texts.append(path.read_text())
        jsonschema.validate(json.loads(texts[-1]), load_schema("ledger"))
    assert texts[0] == texts[1]


def test_an_entry_is_on_the_disk_before_the_release(tmp_path, monkeypatch):
    """A process that stops between the two has counted the release."""
    plan = plan_with()
    ledger = Ledger(tmp_path / "l.json", plan)
    server = Server(plan, ledger)
    cohort = server.draw(CLIENTS)

    def stop(total):
        raise KeyboardInterrupt

    monkeypatch.setattr(server._noise, "release", stop)
    with pytest.raises(KeyboardInterrupt):
        cohort.release()
    assert Ledger(tmp_path / "l.json", plan).participations == 1
    with pytest.raises(UsageError, match="over"):
        cohort.release()


def test_a_ledger_that_cannot_be_written_stops_the_release(tmp_path, monkeypatch):
    """Nothing is released or counted; the round goes on once the disk has room."""
    plan = plan_with()
    ledger = Ledger(tmp_path / "l.json", plan)
    server = Server(plan, ledger)
    cohort = server.draw(CLIENTS)

    def full(path, text):
        raise StorageError("cannot-write", "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "write_durably", full)
        with pytest.raises(StorageError):
            cohort.release()
    assert (server.released, ledger.entries) == (0, ())
    assert cohort.release().shape == (plan.dim,)
    assert ledger.entries == (Entry(1, 1),)


def test_rejected_payloads_leave_the_ledger_as_it_was(tmp_path):
    """Only a release is recorded."""
    plan = plan_with()
    path = tmp_path / "l.json"
    server = Server(plan, Ledger(path, plan))
    released(server, CLIENTS, VECTORS)
    before = path.read_bytes()
    cohort = server.draw(CLIENTS)
    with pytest.raises(UsageError):
        cohort.add("a", b"nonsense")
    server.draw(CLIENTS)
    assert path.read_bytes() == before


@pytest.mark.parametrize("apart", [True, False])
def test_two_servers_with_one_ledger_are_refused(tmp_path, apart):
    """The second to release would count too few rounds, in another process or in this one."""
    plan = plan_with()
    ledger = Ledger(tmp_path / "l.json", plan)
    servers = [
        Server(plan, used) for used in (ledger, Ledger(tmp_path / "l.json", plan) if apart else ledger)
    ]
    released(servers[0], CLIENTS, VECTORS)
    with pytest.raises(UsageError, match="has changed") as caught:
        released(servers[1], CLIENTS, VECTORS)
    assert caught.value.slug == "ledger-changed"


@pytest.mark.parametrize(
    "changed", [{"sigma": 2.0}, {"rounds": 9}, {"dim": 9}, {"cohort_size": 5}, {"adjacency": "replace-one"}]
)
def test_ledgers_of_other_plans_are_refused(tmp_path, changed):
    """By the file, and by a server that is handed one."""
    plan, other = plan_with(), plan_with(**changed)
    ledger = Ledger(tmp_path / "l.json", plan)
    released(Server(plan, ledger), CLIENTS, VECTORS)
    for refused in (lambda: Ledger(tmp_path / "l.json", other), lambda: Server(other, ledger)):
        with pytest.raises(UsageError) as caught:
            refused()
        assert caught.value.slug == "other-plan"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"release": 2', '"release": 3'),
        ('"participations": 2', '"participations": 0'),
        ('"participations": 1', '"participations": 3'),
        ('"participations": 1', '"participation": 1'),
        ("csgm/ledger/1", "csgm/ledger/2"),
        ("\n}", ""),
        ('"plan"', '"plans"'),
        ('"dim": 8,', ""),
    ],
)
def test_damaged_ledgers_are_refused(tmp_path, old, new):
    """Truncated, edited or of another version: no run goes on from a guess."""
    plan = plan_with()
    path = tmp_path / "l.json"
    server = Server(plan, Ledger(path, plan))
    released(server, CLIENTS, VECTORS)
    released(server, CLIENTS, VECTORS)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        Ledger(path, plan)
    assert caught.value.slug == "bad-ledger"
    assert str(path) in caught.value.message


def test_a_seeded_run_has_no_ledger(tmp_path):
    """What is not private does not count as a release."""
    plan = plan_with()
    with pytest.raises(UsageError, match="NOT PRIVATE") as caught:
        Server(plan, Ledger(tmp_path / "l.json", plan), seed=1)
    assert caught.value.slug == "conflicting-options"
