"""A population against its limit, and what an earlier budget spent."""

import math
from dataclasses import replace

import pytest

from csgm_cli.accounting.headroom import Headroom
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs import budget as check
from csgm_cli.jobs.budget import check_population, spent_by
from csgm_cli.jobs.budget_diff import population_changes
from csgm_cli.model.budget import Population, Release, Standing
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.result import Guarantee

AUTO = Accountant.AUTO
COUNTS = Release("counts", Mechanism("gaussian", rounds=30), 12.5)
MODEL = Release("model", Mechanism("l2-csgm", 0.05, Geometry(100.0, l2_norm=2.0), 400), 1.8)
PLANNED = replace(MODEL, name="planned", enabled=False)


def population(*releases, epsilon=8.0, name="people"):
    return Population(name, Target(epsilon, 1e-6), releases=releases)


# ---------------------------------------------------------------- standing


def test_within_the_limit():
    """Shares, room and the guarantee; what is disabled does not count."""
    standing = check_population(population(COUNTS, MODEL, PLANNED))
    counts, model, planned = standing.releases
    assert standing.holds
    assert standing.guarantee.bound is Bound.TIGHT_ADD
    assert 0 < standing.guarantee.lower_bound < standing.spent
    assert standing.spent == spent_by(population(COUNTS, MODEL), AUTO)
    assert counts.share + model.share == pytest.approx(1.0)
    assert counts.more_rounds > 0
    assert counts.needed_noise_multiplier is None
    assert (planned.share, planned.more_rounds, planned.needed_noise_multiplier) == (None, None, None)


def test_above_the_limit():
    """Nothing more fits, and the noise that would is said in units of the L2 clip norm."""
    people = population(COUNTS, MODEL, epsilon=5.0)
    standing = check_population(people)
    model = standing.releases[1]
    assert not standing.holds
    assert model.more_rounds == 0
    enough = replace(MODEL, sigma=2.0 * model.needed_noise_multiplier)
    assert spent_by(replace(people, releases=(COUNTS, enough)), AUTO) <= 5.0


@pytest.mark.parametrize("releases", [(), (PLANNED,)])
def test_nothing_is_released(releases):
    """Nothing is spent, all remains, and there is no guarantee to speak of."""
    standing = check_population(population(*releases))
    assert (standing.spent, standing.remaining, standing.holds) == (0.0, 8.0, True)
    assert standing.guarantee is None


def test_masks_need_not_be_secret_for_gaussians():
    """Assumptions are those of the releases that count."""
    assert "masks-secret" not in check_population(population(COUNTS)).guarantee.assumptions
    assert "masks-secret" in check_population(population(COUNTS, MODEL)).guarantee.assumptions


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("accountant", [AUTO, Accountant.RDP, Accountant.PAPER])
def test_verified(accountant, adjacency):
    """High precision agrees with what is spent: in 50 digits, or 15 where a contour decides."""
    releases = tuple(replace(r, mechanism=replace(r.mechanism, adjacency=adjacency)) for r in (COUNTS, MODEL))
    people = Population("people", Target(30.0, 1e-6), adjacency, releases)
    guarantee = check_population(people, accountant, verify=True).guarantee
    assert guarantee.verified.digits >= 15
    assert guarantee.verified.relative_difference < 1e-9


def test_a_wrong_answer_is_not_verified(monkeypatch):
    """Verification fails if the recomputation finds more than was charged: here by a millionth."""
    right = check.spent_epsilon

    def wrong(*arguments):
        spent = right(*arguments)
        return replace(spent, value=spent.value * (1 - 1e-6))

    monkeypatch.setattr(check, "spent_epsilon", wrong)
    with pytest.raises(NoAnswerError, match="exceeds the reported one"):
        check_population(population(COUNTS, MODEL), verify=True)


def standing(spent, limit):
    """A standing with that much spent."""
    guarantee = Guarantee(spent, 1e-6, None, Bound.EXACT, None, ())
    return Standing(population(epsilon=limit), guarantee, ())


@pytest.mark.parametrize(
    ("spent", "limit", "holds"),
    [(3.0, 3.0, True), (2.9999999999999996, 3.0, True), (3.0000000000000004, 3.0, False)],
)
def test_no_limit_is_met_by_rounding(spent, limit, holds):
    """The last bit decides, and what remains has its sign."""
    found = standing(spent, limit)
    assert found.holds is holds
    assert (found.remaining >= 0) is holds


def test_remaining_is_rounded_down():
    """The difference is never more than it is: here the nearest float would be."""
    found = standing(1e-17, 1.0)
    assert 1.0 - 1e-17 == 1.0
    assert found.remaining == 0.9999999999999999


@pytest.mark.parametrize("other", Adjacency)
def test_mixed_adjacency_is_refused(other):
    """A release under another adjacency does not compose with the rest."""
    release = replace(COUNTS, mechanism=Mechanism("gaussian", adjacency=other))
    if other is Adjacency.ADD_REMOVE:
        assert population(release).counted == (release,)
    else:
        with pytest.raises(UsageError, match=r"counts has adjacency\s+replace-one"):
            population(release)


# ---------------------------------------------------------------- changes


def changes(before, after, recorded=None):
    """What changed, for one population each."""
    (found,) = population_changes([before], [check_population(after)], AUTO, recorded)
    return found


def test_every_kind_of_change():
    """Changed, renamed, added, removed; each with what it alone spends, and in that order."""
    slow = replace(MODEL, mechanism=replace(MODEL.mechanism, rounds=500))
    old = population(COUNTS, MODEL, replace(COUNTS, name="dropped", sigma=30.0))
    new = population(slow, replace(COUNTS, name="totals"), replace(COUNTS, name="new", sigma=50.0))
    found = changes(old, new)
    kinds = [(change.status, (change.after or change.before).name) for change in found.releases]
    assert kinds == [("changed", "model"), ("renamed", "totals"), ("added", "new"), ("removed", "dropped")]
    assert found.releases[0].settings == {"rounds": (400, 500)}
    base = spent_by(old, AUTO)
    alone = spent_by(replace(old, releases=(COUNTS, slow, old.releases[2])), AUTO)
    assert found.releases[0].spends == alone - base > 0
    assert found.releases[1].spends == 0
    assert found.releases[2].spends > 0 > found.releases[3].spends
    assert found.by_budget == spent_by(new, AUTO) - base
    assert found.by_tool is None  # no earlier number to compare with


def test_two_equal_releases_are_renamed_to_two():
    """Each earlier release explains one new name at most."""
    old = population(COUNTS, MODEL)
    new = population(replace(COUNTS, name="a"), replace(COUNTS, name="b"), MODEL)
    assert [change.status for change in changes(old, new).releases] == ["renamed", "added"]


def test_moved_by_the_tool():
    """The same releases with another number recorded: nothing but the program can have moved it."""
    people = population(COUNTS, MODEL)
    now = spent_by(people, AUTO)
    found = changes(people, people, {"people": now - 0.25})
    assert (found.by_tool, found.by_budget, found.releases) == (pytest.approx(0.25), 0.0, ())
    assert changes(people, people, {"people": now * (1 + 1e-12)}).by_tool == 0.0


def test_populations_that_come_and_go():
    """A new population spends all it spends; one that is gone spends nothing."""
    old, new = population(COUNTS, name="old"), population(MODEL, name="new")
    first, second = population_changes([old], [check_population(new)], AUTO)
    assert (first.before, second.after) == (None, None)
    assert first.by_budget == spent_by(new, AUTO)
    assert second.by_budget == -spent_by(old, AUTO)
    assert [r.status for r in (*first.releases, *second.releases)] == ["added", "removed"]


def test_another_adjacency():
    """Under a new adjacency the earlier releases are asked again, so that one change stands for itself."""
    replaced = replace(COUNTS, mechanism=replace(COUNTS.mechanism, adjacency=Adjacency.REPLACE_ONE))
    new = Population("people", Target(8.0, 1e-6), Adjacency.REPLACE_ONE, (replaced,))
    found = changes(population(COUNTS), new)
    assert found.releases == ()
    assert found.by_budget > 0


def test_room_of_many_releases_is_rough():
    """Of more than eight releases the simpler bounds say what fits, and the population says so."""
    many = [replace(COUNTS, name=f"counts-{i}", sigma=50.0 + i) for i in range(8)]
    few = check_population(population(MODEL, *many[:7]))
    rough = check_population(population(MODEL, *many))
    assert [notice.slug for notice in rough.guarantee.notices] == ["rough-room"]
    assert few.guarantee.notices == ()
    assert few.releases[0].more_rounds > rough.releases[0].more_rounds > 0
    by_renyi = check_population(population(MODEL, *many), Accountant.RDP)
    assert rough.releases[0].more_rounds > by_renyi.releases[0].more_rounds > 0
    assert by_renyi.guarantee.notices == ()


def test_equal_questions_are_answered_once(monkeypatch):
    """Equal releases have the same room, equal populations the same answer, each found once."""
    asked = []
    more = Headroom.more_rounds
    monkeypatch.setattr(Headroom, "more_rounds", lambda self, index: asked.append(index) or more(self, index))
    mechanism = Mechanism("l2-csgm", 0.125, Geometry(7.0))
    equal = [Release(f"r{i}", mechanism, 50.0) for i in range(30)]
    other = Release("other", mechanism, 60.0, enabled=False)
    odd = Release("odd", mechanism, 70.0)
    releases = (*equal[:10], other, odd, *equal[10:])
    found = [
        check_population(Population(name, Target(5.0, 1e-6), releases=releases), Accountant.RDP)
        for name in ("a", "b")
    ]
    assert len(asked) == 2
    assert [standing.population.name for standing in found] == ["a", "b"]
    assert found[0].guarantee == found[1].guarantee
    alone = Population(
        "c", Target(5.0, 1e-6), releases=(Release("r", mechanism.with_releases(30), 50.0), odd)
    )
    together = check_population(alone, Accountant.RDP)
    assert found[0].spent == together.spent
    rooms = {part.release.name[0]: part.more_rounds for part in found[0].releases if part.release.enabled}
    assert len({part.more_rounds for part in found[0].releases if part.release.name[0] == "r"}) == 1
    for name, exact in zip("ro", together.releases, strict=True):  # of many releases room is known roughly
        assert 0.98 * exact.more_rounds <= rooms[name] <= exact.more_rounds
    shares = [part.share for part in found[0].releases if part.share is not None]
    assert math.isclose(math.fsum(shares), 1.0, rel_tol=1e-12)
