"""``csgm check`` from end to end: exit codes, locks, accountants and warnings."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from csgm_cli.errors import NoAnswerError
from csgm_cli.storage.schema import load_schema
from tests.cli.budgets import MISTAKEN


def test_only_an_exceeded_limit_is_a_failed_claim(csgm, budgets):
    """0 within, 1 above, 0 above with --exit-zero."""
    assert [csgm(f"check {line}").status for line in ("old.toml", "new.toml", "new.toml --exit-zero")] == [
        0,
        1,
        0,
    ]


@pytest.mark.parametrize("line", ["", "--exit-zero "])
def test_exit_zero_does_not_hide_errors(csgm, budgets, line):
    """A bad or missing file ends as it would without."""
    (budgets / "bad.toml").write_text("population = 1")
    assert csgm(f"check {line}bad.toml").status == 2
    assert csgm(f"check {line}none.toml").status == 4
    assert csgm(f"check {line}new.toml --against-lock none.lock").status == 4
    assert csgm(f"check {line}new.toml --write-lock none/there.lock").status == 4


def test_what_was_locked_has_not_moved(csgm, budgets):
    """A lock of the same file: nothing by tool or budget, and the same bytes when written again."""
    csgm("check old.toml --write-lock a.lock")
    changes = csgm("check old.toml --against-lock a.lock --write-lock b.lock --format json").document[
        "result"
    ]["changes"]
    (phones,) = changes["populations"]
    assert (phones["by_tool"], phones["by_budget"], phones["releases"]) == (0.0, 0.0, [])
    assert Path("a.lock").read_bytes() == Path("b.lock").read_bytes()


def edited_lock(csgm, **keys):
    """A lock of old.toml with other top-level keys (None: without it), and 0.01 less spent."""
    csgm("check old.toml --write-lock a.lock")
    lock = {**json.loads(Path("a.lock").read_text()), **keys}
    lock["populations"]["phones"]["spent"] -= 0.01
    Path("a.lock").write_text(json.dumps({key: value for key, value in lock.items() if value is not None}))


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"numbers_version": 1}, "by numbers version 1, and now spend"),
        (
            {"numbers_version": 1},
            " numbers, so the file was edited or a library differs",
        ),
        ({"numbers_version": 7}, "by numbers version 7, and now spend"),
        ({"numbers_version": 7}, " has numbers version 1"),
        ({"numbers_version": None, "csgm_version": "0.1.0"}, "by csgm 0.1.0, and now spend"),
        ({"numbers_version": None, "csgm_version": "0.1.0"}, " has numbers version 1"),
    ],
)
def test_a_number_that_moved_is_told_by_numbers_version(csgm, budgets, monkeypatch, recorded, said):
    """A lock that is older than numbers versions is told by its package version."""
    for module in ("csgm_cli.version", "csgm_cli.storage.lock"):
        monkeypatch.setattr(f"{module}.NUMBERS_VERSION", 1)
    edited_lock(csgm, **recorded)
    outcome = csgm("check old.toml --against-lock a.lock --format json")
    (warning,) = (found for found in outcome.document["warnings"] if found["slug"] == "moved-by-tool")
    assert said in warning["message"]
    assert outcome.document["result"]["changes"]["numbers_version"] == recorded["numbers_version"]
    jsonschema.validate(json.loads(Path("a.lock").read_text()), load_schema("lock"))


@pytest.mark.parametrize(
    "recorded", [{"csgm_version": "9.9"}, {"numbers_version": 7}, {"numbers_version": None}]
)
def test_a_lock_holds_while_no_number_moves(csgm, budgets, recorded):
    """Whatever version wrote it."""
    csgm("check old.toml --write-lock a.lock")
    lock = {**json.loads(Path("a.lock").read_text()), **recorded}
    Path("a.lock").write_text(json.dumps({key: value for key, value in lock.items() if value is not None}))
    outcome = csgm("check old.toml --against-lock a.lock --format json")
    assert outcome.status == 0
    assert "moved-by-tool" not in [found["slug"] for found in outcome.document["warnings"]]


def test_a_lock_has_its_accountant(csgm, budgets):
    """Numbers by different accountants are not compared."""
    csgm("check old.toml --write-lock a.lock --accountant paper")
    outcome = csgm("check old.toml --against-lock a.lock")
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[different-accountant]")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lock: "[1, 2", "not a lock"),
        (lambda lock: "[]", "not a lock"),
        (lambda lock: lock | {"schema": "csgm/lock/2"}, "schema is 'csgm/lock/2'"),
        (lambda lock: lock | {"accountant": "guess"}, "guess"),
        (lambda lock: lock | {"populations": 5}, "not a lock"),
        (lambda lock: {k: v for k, v in lock.items() if k != "csgm_version"}, "csgm_version is missing"),
        (lambda lock: lock | {"numbers_version": "1"}, "numbers_version is '1'"),
        (lambda lock: lock | {"numbers_version": True}, "numbers_version is True"),
        (lambda lock: lock | {"numbers_version": 0}, "numbers_version is 0"),
        (lambda lock: patched(lock, spent=-1.0), "spent is -1.0"),
        (lambda lock: patched(lock, spent=True), "spent must be a number"),
        (lambda lock: patched(lock, spent=float("nan")), "NaN, which is no JSON number"),
        (lambda lock: patched(lock, epsilon=0), "epsilon must be a number in"),
        (lambda lock: patched(lock, releases={"r": {}}), "is missing"),
        (lambda lock: patched(lock, releases={"\x1b[31m": {}}), "not printable"),
        (
            lambda lock: lock | {"csgm_version": "1.0\x1b]0;title\a"},
            "csgm_version is '1.0\\x1b]0;title\\x07', which",
        ),
        (lambda lock: lock | {"csgm_version": "1.0\nerror: forged"}, "which is no version"),
        (lambda lock: lock | {"csgm_version": "newest"}, "which is no version"),
        (lambda lock: lock | {"csgm_version": 1}, "which is no version"),
        (lambda lock: json.dumps(lock)[:-1] + ', "schema": "csgm/lock/1"}', "holds 'schema' twice"),
        (lambda lock: "[" * 100_000, "not a lock"),
        (lambda lock: '{"schema": ' + "9" * 10_000 + "}", "not a lock"),
    ],
)
def test_bad_lock(csgm, budgets, change, said):
    """Whatever is wrong with a lock: exit code 2, one message."""
    csgm("check old.toml --write-lock a.lock")
    changed = change(json.loads(Path("a.lock").read_text()))
    Path("a.lock").write_text(changed if isinstance(changed, str) else json.dumps(changed))
    outcome = csgm("check old.toml --against-lock a.lock")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[bad-lock-file]")
    assert said in outcome.stderr


def patched(lock, **values):
    """The lock with other values in its one population."""
    return lock | {"populations": {"phones": lock["populations"]["phones"] | values}}


def test_one_release_is_account(csgm, place):
    """The command line and the file ask the same question and get the same digits."""
    options = {"gamma": 0.03, "linf-norm": 0.004, "l2-norm": 0.5, "rounds": 70, "sigma": 0.02, "delta": 1e-7}
    lines = "\n".join(f"{key} = {value}" for key, value in options.items() if key != "delta")
    (place / "b.toml").write_text(
        f"[population.p]\nepsilon = 9\ndelta = 1e-7\n[population.p.release.r]\n{lines}\n"
    )
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    account = csgm("account", *words, "--format", "json").document["result"]
    (population,) = csgm("check b.toml --format json").document["result"]["populations"]
    same = ("order", "bound", "conversion", "assumptions")
    assert population["spent"] == account["epsilon"]
    assert [population[key] for key in same] == [account[key] for key in same]


@pytest.mark.parametrize(
    ("accountant", "status"), [("auto", 0), ("rdp", 0), ("paper", 0), ("exact", 2), ("tight", 0), ("rpd", 2)]
)
def test_accountants(csgm, budgets, accountant, status):
    """Those with a bound on a mixture; exact has none here."""
    assert csgm(f"check old.toml --accountant {accountant}").status == status


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_an_effective_multiplier_in_the_wrong_place(csgm, place, enabled):
    """1.22 is the effective multiplier of the release beside it: the file and the line are named."""
    (place / "b.toml").write_text(MISTAKEN.format(delta="1e-8", enabled=enabled, participation="rounds = 1"))
    outcome = csgm("check b.toml --format json")
    assert outcome.status == 0
    said = [f"{found['slug']}: {found['message']}" for found in outcome.document["warnings"]]
    assert len(said) == (enabled == "true")
    for warning in said:
        assert warning.startswith("perhaps-effective: b.toml:11: release wrong: if 1.22 is the effective")
        assert "pass 0.0122;" in warning
        asked = "account --gamma 0.01 --norm-ratio 1000 --delta 1e-8 --accountant rdp --format json"
        found = [csgm(f"{asked} --noise-multiplier {noise}").document["result"] for noise in (0.0122, 1.22)]
        numbers = "epsilon is then {:.3g}, not {:.3g}".format(*(result["epsilon"] for result in found))
        assert warning.endswith(f"{numbers} (this release alone, accountant rdp)")


@pytest.mark.parametrize(("delta", "population", "warned"), [("1e-4", 9_999, 0), ("1e-4", 10_000, 1)])
def test_a_delta_that_lets_a_client_be_published(csgm, place, delta, population, warned):
    """Where releases say how many clients there are, the limit's delta is held against that, once."""
    participation = f"population = {population}\ncohort-size = 10\ntraining-rounds = 20"
    text = MISTAKEN.format(delta=delta, enabled="false", participation=participation)
    (place / "b.toml").write_text(text)
    warnings = csgm("check b.toml --format json").document["warnings"]
    said = [found["message"] for found in warnings if found["slug"] == "delta-large"]
    assert len(said) == warned
    for message in said:
        assert message.startswith(
            "b.toml:1: population people: delta 0.0001 is at least 1 / population_size = "
        )


def test_no_answer_names_the_population(csgm, budgets, monkeypatch):
    """What cannot be computed is exit code 3, with the place and name of the population."""

    def refuse(*_, **__):
        raise NoAnswerError("out-of-reach", "it is beyond what can be computed")

    monkeypatch.setattr("csgm_cli.jobs.budget.check_population", refuse)
    outcome = csgm("check old.toml")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert outcome.stderr == (
        "error[out-of-reach]: old.toml:4: population phones: it is beyond what can be computed\n"
    )


ONCE = """\
[population.people]
epsilon = 8
delta = 1e-8

[population.people.release.once]
mechanism = "gaussian"
noise-multiplier = 40
"""


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", True),
        ("rounds = 1", False),
        ("enabled = false", False),
        ("population = 1000\ncohort-size = 10\ntraining-rounds = 100", False),
    ],
)
def test_a_release_whose_rounds_nobody_states(csgm, place, line, warned):
    """It counts once, and that is said at its place; one that is stated, or not enabled, is not mentioned."""
    (place / "b.toml").write_text(ONCE + line)
    outcome = csgm("check b.toml --format json")
    assert outcome.status == 0
    said = [found["message"] for found in outcome.document["warnings"] if found["slug"] == "one-round"]
    what = "rounds not given; pass rounds (use rounds = 1 if each client takes part once)"
    assert said == [f"b.toml:5: release once: {what}"] * warned


def test_rounds_from_defaults_are_stated(csgm, place):
    """What [defaults] says of all releases is said."""
    (place / "b.toml").write_text("[defaults]\nrounds = 1\n" + ONCE)
    assert "one-round" not in csgm("check b.toml").stderr


def test_without_a_file_budget_toml_is_checked(csgm, place):
    refused = csgm("check --format json")
    assert (refused.status, refused.document["error"]["slug"]) == (2, "missing-argument")
    (place / "budget.toml").write_text(ONCE + "rounds = 1\n")
    assert csgm("check").stdout == csgm("check budget.toml").stdout
