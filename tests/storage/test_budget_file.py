"""Budget files as they are read: which value wins, and how far includes and names may go."""

import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage.budget_file import read_budget


def written(folder, **files):
    """Write ``NAME.toml`` for each of ``files``; return what the budget of the first declares."""
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return read_budget([f"{next(iter(files))}.toml"])


def values(declaration):
    """The value of each key, and the file and line that it is from."""
    return {key: (entry.value, str(entry.place)) for key, entry in declaration.entries.items()}


def test_nearest_defaults_win(place):
    """Key by key, a file's own defaults beat those of the files that include it, the nearer the stronger."""
    declared = written(
        place,
        outer="include = 'middle.toml'\n"
        "[defaults]\nepsilon = 1\ndelta = 1\nrounds = 1\ngamma = 1\nsigma = 1\n",
        middle="include = 'inner.toml'\n[defaults]\nepsilon = 2\nrounds = 2\ngamma = 2\n",
        inner="[defaults]\nepsilon = 3\nrounds = 3\n[population.p.release.r]\n",
    )
    (population,), (release,) = declared.populations, declared.releases
    assert values(population) == {"epsilon": (3, "inner.toml:2"), "delta": (1, "outer.toml:4")}
    assert values(release) == {
        "rounds": (3, "inner.toml:3"),
        "gamma": (2, "middle.toml:5"),
        "sigma": (1, "outer.toml:7"),
    }
    assert all(entry.is_default for entry in (population.entries | release.entries).values())


def test_own_values_beat_defaults(place):
    """What a population or release says itself wins, in the other spelling too."""
    declared = written(
        place,
        budget="[defaults]\nepsilon = 1\ndelta = 1\nnorm-ratio = 1\ngamma = 1\n"
        "[population.p]\nepsilon = 2\n[population.p.release.r]\nnorm_ratio = 2\n",
    )
    (population,), (release,) = declared.populations, declared.releases
    assert values(population) == {"epsilon": (2, "budget.toml:7"), "delta": (1, "budget.toml:3")}
    assert values(release) == {"norm_ratio": (2, "budget.toml:9"), "gamma": (1, "budget.toml:5")}
    assert not population.entries["epsilon"].is_default
    assert not release.entries["norm_ratio"].is_default


def test_defaults_reach_neither_the_including_file_nor_its_other_includes(place):
    """They hold for the file they stand in and for those that it includes."""
    declared = written(
        place,
        outer="include = ['first.toml', 'second.toml']\n[population.p.release.outer]\n",
        first="[defaults]\nrounds = 9\n[population.p.release.first]\n",
        second="[population.p.release.second]\n",
    )
    found = {release.name: values(release) for release in declared.releases}
    assert found == {"outer": {}, "first": {"rounds": (9, "first.toml:2")}, "second": {}}
    assert [key for key, _ in declared.defaults] == ["rounds"]


def chain(length):
    """A file per link, each of which includes the next."""
    links = {f"f{i}": f"include = 'f{i + 1}.toml'\n" for i in range(1, length)}
    return links | {f"f{length}": "[population.p]\n"}


def test_a_chain_of_ten_files_is_read(place):
    """Ten files, of which each but the first is included by the one before."""
    assert written(place, **chain(10)).files == tuple(f"f{i}.toml" for i in range(1, 11))


def test_an_eleventh_file_of_a_chain_is_refused(place):
    """The message names the file that lies too deep."""
    with pytest.raises(UsageError, match=r"^f11\.toml is included more than 10 levels deep$") as refused:
        written(place, **chain(11))
    assert refused.value.slug == "include-depth"


def test_many_files_beside_each_other_are_no_depth(place):
    """The ninth file of a chain may include thirty others, which lie no deeper than a tenth."""
    leaves = {f"leaf{i}": "[population.p]\n" for i in range(30)}
    listed = ", ".join(f"'{name}.toml'" for name in leaves)
    files = chain(9) | {"f9": f"include = [{listed}]\n"} | leaves
    assert len(written(place, **files).files) == 9 + 30


KINDS = {"population": "[population.'{}']\n", "release": "[population.p.release.'{}']\n"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_200_characters_is_read(place, kind):
    """Characters are counted, not bytes."""
    name = "é" * 200
    declared = written(place, budget=KINDS[kind].format(name))
    assert name in [found.name for found in (*declared.populations, *declared.releases)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x" * 201, "", " ", "\u3000 "], ids=["long", "empty", "blank", "wide"])
def test_a_longer_or_blank_name_is_refused(place, kind, name):
    """The message says whether it is the name of a population or of a release, and where."""
    with pytest.raises(UsageError, match=f"^budget.toml:1: the name of a {kind} must be ") as refused:
        written(place, budget=KINDS[kind].format(name))
    assert refused.value.slug == "bad-name"
