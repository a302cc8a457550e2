"""The record of released rounds: durable, append-only, and accounted as csgm account does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import jsonschema
import pytest

import csgm_cli as csgm
from csgm_cli.errors import StorageError, UsageError
from csgm_cli.mechanism import ledger as ledger_module
from csgm_cli.mechanism.ledger import Entry, Ledger, _described
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


def saved_ledger(folder, plan, releases, population=(), factors=None):
    """The path of a ledger with so many releases of ``plan``."""
    path = folder / "l.json"
    server = Server(plan, Ledger(path, plan), factors=factors)
    for _ in range(releases):
        server.draw(population).release()
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"release": 2', '"release": 3'),
        ('"release": 2', '"release": 1'),
        ('"release": 1,', '"release": 1, "release": 1,'),
        ('"participations": 2', '"participations": 0'),
        ('"participations": 2', '"participations": 1'),
        ('"participations": 2', '"participations": 2.5'),
        ('"participations": 2', '"participations": true'),
        ('"participations": 2', '"participations": null'),
        ('"participations": 2', '"participations": 2, "participations": 1'),
        ('"participations": 1', '"participations": 3'),
        ('"participations": 1', '"participation": 1'),
        ('"population_size": null', '"population_size": 100'),
        (', "population_size": null', ""),
        ("csgm/ledger/1", "csgm/ledger/2"),
        ('"csgm_version": "', '"csgm_version": "v'),
        ('"sigma": ', '"sigma": 5.0, "sigma": '),
        ("\n}", ""),
        ('"plan"', '"plans"'),
        ('"plan"', '"releases": [], "plan"'),
        ('"dim": 8,', ""),
        ('"dim": 8,', '"dim": "8",'),
        ('"dim": 8,', '"dim": NaN,'),
    ],
)
def test_damaged_ledgers_are_refused(tmp_path, old, new):
    """Truncated, edited or of another version: no run goes on from a guess."""
    plan = plan_with()
    path = saved_ledger(tmp_path, plan, 2)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        Ledger(path, plan)
    assert caught.value.slug == "bad-ledger"
    assert str(path) in caught.value.message


@pytest.mark.parametrize("name", list(_described(plan_with())))
def test_every_field_of_the_plan_in_a_ledger_counts(tmp_path, name):
    """Without it, or with another value, the ledger is refused."""
    plan = plan_with()
    path = saved_ledger(tmp_path, plan, 1)
    document = json.loads(path.read_text())
    for value in (None, 7, 0.5, "text", [], {}, not document["plan"][name]):
        changed = document["plan"] | {name: value}
        if changed == document["plan"]:
            continue
        path.write_text(json.dumps(document | {"plan": changed}))
        with pytest.raises(UsageError) as caught:
            Ledger(path, plan)
        assert caught.value.slug in ("bad-ledger", "other-plan")
    del document["plan"][name]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"plan.{name} is missing"):
        Ledger(path, plan)


#: Entries (release, participations, population) that no run records; the first lists are right.
HISTORIES = {
    # every client may be in every release; three of them
    "plain": (
        {},
        [(1, 1, None), (2, 2, None), (3, 3, None)],
        [
            [(1, 2, None)],
            [(1, 1, None), (2, 1, None)],
            [(1, 1, None), (2, 3, None)],
            [(1, 1, 4)],
            [(1, 1, None), (3, 3, None)],
            [(2, 2, None)],
            [(1, 1, None), (2, 2, None), (3, 3, None), (4, 4, None)],
        ],
    ),
    # four of ten clients: ceil(4 r/10), and at most twice
    "in turn": (
        {"disjoint_cohorts": True, "rounds": 2},
        [(1, 1, 10), (2, 1, 10), (3, 2, 10), (4, 2, 10), (5, 2, 10)],
        [
            [(1, 1, None)],
            [(1, 1, 3)],
            [(1, 1, 10), (2, 1, 9)],
            [(1, 1, 10), (2, 1, None)],
            [(1, 1, 10), (2, 3, 10)],
            [(1, 1, 10), (2, 1, 10), (3, 1, 10)],
            [(1, 1, 10), (2, 2, 10), (3, 1, 10)],
            [(r, -(-4 * r // 10), 10) for r in range(1, 7)],
        ],
    ),
    # two epochs of two steps, the first one interrupted
    "stream": (
        {"epochs": 2},
        [(1, 1, None), (2, 2, None), (3, 2, None)],
        [
            [(1, 2, None)],
            [(1, 1, 4)],
            [(1, 1, None), (2, 1, None), (3, 1, None)],
            [(1, 1, None), (2, 3, None)],
            [(1, 1, None), (2, 2, None), (3, 1, None)],
            [(1, 1, None), (2, 2, None), (3, 3, None)],
            [(1, 1, None), (2, 2, None), (3, 2, None), (4, 2, None)],
        ],
    ),
}


def record_all(ledger, history):
    for entry in history:
        ledger.record(Entry(*entry))


@pytest.mark.parametrize("kind", HISTORIES)
def test_only_histories_of_the_plan_are_read_or_recorded(tmp_path, kind):
    """The number of participations and the population follow from the plan and the releases before."""
    changes, right, wrong = HISTORIES[kind]
    if kind == "stream":
        changes = changes | {"factorization": csgm.factor_norms(csgm.factorize(2))}
    plan, path = plan_with(**changes), tmp_path / "l.json"
    ledger = Ledger(path, plan)
    record_all(ledger, right)
    document = json.loads(path.read_text())
    assert [tuple(entry.values()) for entry in document["releases"]] == right
    for history in wrong:
        entries = [dict(zip(document["releases"][0], entry, strict=True)) for entry in history]
        path.write_text(json.dumps(document | {"releases": entries}))
        with pytest.raises(UsageError) as caught:
            Ledger(path, plan)
        assert caught.value.slug == "bad-ledger"
        path.unlink()
        ledger = Ledger(path, plan)
        with pytest.raises(UsageError) as caught:
            record_all(ledger, history)
        assert caught.value.slug in ("bad-entry", "ledger-changed")


@pytest.mark.parametrize("entry", [(0, 1), (1, 0), (1.5, 1), ("1", 1), (1, None), (1, 1, 0), (1, 1, "x")])
def test_entries_are_positive_whole_numbers(entry):
    with pytest.raises(UsageError) as caught:
        Entry(*entry)
    assert caught.value.slug in ("out-of-range", "invalid-type")


def test_a_seeded_run_has_no_ledger(tmp_path):
    """What is not private does not count as a release."""
    plan = plan_with()
    with pytest.raises(UsageError, match="NOT PRIVATE") as caught:
        Server(plan, Ledger(tmp_path / "l.json", plan), seed=1)
    assert caught.value.slug == "conflicting-options"


# ---------------------------------------------------------------- several processes, and crashes

#: Releases until the plan is used up, each after a fresh look at the ledger; prints their number.
_GREEDY = """
import sys
from csgm_cli.errors import CsgmError
from csgm_cli.mechanism.ledger import Ledger
from csgm_cli.mechanism.server import Server
from tests.mechanism.plans import plan_with

plan, done = plan_with(rounds=20), 0
while True:
    try:
        server = Server(plan, Ledger(sys.argv[1], plan))
        while server.remaining:
            server.draw("ab").release()
            done += 1
        break
    except CsgmError as error:
        assert error.slug in ("ledger-changed", "no-rounds-left", "in-use"), error
print(done)
"""


def test_processes_together_release_what_the_plan_allows(tmp_path):
    """Four servers that open one ledger again and again: each release has an entry of its own."""
    command = [sys.executable, "-c", _GREEDY, str(tmp_path / "l.json")]
    root = Path(__file__).parents[2]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(4)]
    assert sum(int(server.communicate()[0]) for server in servers) == 20
    plan = plan_with(rounds=20)
    assert Ledger(tmp_path / "l.json", plan).entries == tuple(Entry(r, r) for r in range(1, 21))


def killed_at(line, work):
    """Run ``work`` in a process that ends, as if killed, before so many lines of csgm have run.

    Returns what it wrote to a pipe, and whether it came to its end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        left = line

        def trace(frame, event, argument):
            nonlocal left
            if "csgm_cli" not in frame.f_code.co_filename:
                return None
            left -= event == "line"
            if left < 0:
                os._exit(9)
            return trace

        sys.settrace(trace)
        os.write(writer, work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    return written, os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize(("stream", "step"), [(False, 5), (True, 23)])
def test_a_crash_at_any_point_counts_all_that_was_released(tmp_path, stream, step):
    """Whichever line is the last: the ledger is that before or after the release, the latter if anything left
    the server, and the next run continues from there.
    """
    factors = csgm.factorize(2) if stream else None
    plan = plan_with(factorization=csgm.factor_norms(factors), epochs=9) if stream else plan_with(rounds=9)
    path = tmp_path / "l.json"
    Server(plan, Ledger(path, plan), factors=factors).draw(CLIENTS).release()
    before, outcomes = path.read_text(), set()
    cohort = Server(plan, Ledger(path, plan), factors=factors).draw(CLIENTS)

    def release():
        cohort.release()
        return b"released"

    for line in count(0, step):
        path.write_text(before)
        left, finished = killed_at(line, release)
        entries = Ledger(path, plan).entries
        assert entries in ((Entry(1, 1),), (Entry(1, 1), Entry(2, 2)))
        assert len(entries) == 2 or not left
        outcomes.add((len(entries), bool(left)))
        if finished:
            break
    assert outcomes == {(1, False), (2, False), (2, True)}
    cohort = Server(plan, Ledger(path, plan), factors=factors).draw(CLIENTS)
    cohort.release()
    assert Ledger(path, plan).entries[2:] == (Entry(3, 3),)
