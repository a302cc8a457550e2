"""The work for a budget grows no faster than the budget; steps are counted, not seconds."""

import sys

import pytest

from csgm_cli.accounting import accountants
from csgm_cli.cli.commands import check
from csgm_cli.cli.inputs import budgets
from csgm_cli.cli.inputs.budgets import load_budget
from csgm_cli.jobs import budget_diff
from csgm_cli.jobs.budget import check_population
from csgm_cli.model.budget import Changes, Population, Release
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.render.check_document import check_document
from csgm_cli.render.formats import as_github

#: Twice the releases may take this many times the steps; quadratic work takes four times.
MOST_GROWTH = 2.3


def steps(function):
    """How many functions, those in C included, ``function`` calls."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    function()  # imports and caches
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def population(count, name="r", *, sigma=1000.0, step=1.0):
    releases = (
        Release(f"{name}{i}", Mechanism("gaussian", rounds=2), sigma + step * i) for i in range(count)
    )
    return Population("people", Target(8.0, 1e-6), releases=tuple(releases))


def declared(tmp_path, count, header):
    """A budget of ``count`` populations, each headed by ``header``."""
    tables = "".join(
        f'{header.format(i)}\n[population.p{i}.release.r]\nmechanism = "gaussian"\nsigma = 99\n'
        for i in range(count)
    )
    path = tmp_path / f"{count}.toml"
    path.write_text(f"[defaults]\nepsilon = 9\ndelta = 1e-6\n{tables}[population.other]\nepsilon = 3\n")
    return str(path)


@pytest.mark.parametrize("header", ["[population.p{}]\nepsilon = 8", ""], ids=["own-table", "undeclared"])
def test_reading(tmp_path, header, monkeypatch):
    monkeypatch.setattr(budgets, "_MOST_COMPARED", 20)
    small, large = (declared(tmp_path, count, header) for count in (100, 200))
    assert steps(lambda: load_budget([large])) < MOST_GROWTH * steps(lambda: load_budget([small]))


def test_names_not_compared_are_reported(tmp_path, monkeypatch):
    """Above the limit one notice says that misspelled names may remain; below it there is none."""
    path = declared(tmp_path, 30, "")
    assert not load_budget([path]).notices or all(
        notice.slug != "many-undeclared-populations" for notice in load_budget([path]).notices
    )
    monkeypatch.setattr(budgets, "_MOST_COMPARED", 20)
    [notice] = [n for n in load_budget([path]).notices if n.slug == "many-undeclared-populations"]
    assert notice.message.startswith("30 populations have no table")


def test_hints_ask_about_few_releases(monkeypatch):
    """However many releases there are, and however different, at most a hundred are asked about."""
    asked = []
    monkeypatch.setattr(check, "_mistaken", lambda *release: asked.append(release) or ())
    check._mistaken_for_effective([population(300)])
    assert len(asked) == 100


@pytest.mark.parametrize("kind", ["changed", "renamed", "added", "unrelated"])
def test_changes_count_releases_again_up_to_a_limit(monkeypatch, kind):
    """What each change spends takes a count of all releases: they are counted for some changes only."""
    counted = []

    def counting(releases, *arguments, **options):
        counted.append(len(releases))
        return accountants.spent_epsilon(releases, *arguments, **options)

    monkeypatch.setattr("csgm_cli.jobs.budget.spent_epsilon", counting)
    monkeypatch.setattr(budget_diff, "_MOST_RECOUNTED", 1000)
    before = population(0 if kind == "added" else 100)
    after = {
        "changed": population(100, sigma=900.0),
        "renamed": population(100, "other"),
        "added": population(100),
        "unrelated": population(100, "other", sigma=2000.0),
    }[kind]
    standing = check_population(after)
    counted.clear()
    [change] = budget_diff.population_changes([before], [standing], Accountant.AUTO)
    assert sum(counted) <= 1000 + 2 * 101
    spends = [release.spends for release in change.releases]
    known = [value for value in spends if value is not None]
    assert len(known) == {"changed": 9, "renamed": 100, "added": 100, "unrelated": 9}[kind]
    if kind == "renamed":
        assert set(spends) == {0.0}
    document = check_document({}, [standing], Changes("old.toml", None, None, (change,)), ())
    slugs = {warning["slug"] for warning in document["warnings"]}
    assert ("changes-not-counted" in slugs) == (len(known) < len(spends))


def test_pairing_of_renamed_releases():
    def pairing(count):
        old, new = population(count).releases, population(count, "other").releases[::-1]
        return lambda: budget_diff._paired(old, new)

    assert steps(pairing(200)) < MOST_GROWTH * steps(pairing(100))


def test_github_annotations_of_many_populations_with_warnings():
    def rendering(count):
        tables = [
            {
                "population": f"p{i}", "file": "budget.toml", "line": i, "spent": 9.0, "limit": 8.0,
                "delta": 1e-6, "adjacency": "add-remove", "remaining": -1.0, "holds": False,
                "releases": [{
                    "release": "r", "file": "budget.toml", "line": 10000 + i, "enabled": True, "share": 1.0,
                    "noise_multiplier": 1.0, "needed_noise_multiplier": 2.0,
                }],
            }
            for i in range(1, count + 1)
        ]  # fmt: skip
        changed = [
            {"population": f"p{i}", "releases": [{"release": "r", "spends": 1.0}]}
            for i in range(1, count + 1)
        ]
        warnings = [
            {"slug": "one-round", "message": f"budget.toml:{10000 + i}: x"} for i in range(1, count + 1)
        ]
        result = {"populations": tables, "changes": {"populations": changed}}
        document = {"schema": "csgm/check/1", "result": result, "warnings": warnings}
        assert f"::warning file=budget.toml,line={10000 + count}," in as_github.render(document)
        return lambda: as_github.render(document)

    assert steps(rendering(200)) < MOST_GROWTH * steps(rendering(100))
