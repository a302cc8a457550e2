"""No command writes over what it reads, and none writes one file twice."""

import json
import os

import numpy as np
import pytest

BUDGET = """
include = "inner.toml"
[population.a]
epsilon = 5
delta = 1e-6
[population.a.release.x]
mechanism = "gaussian"
noise-multiplier = 3
"""
GAUSSIAN = "calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian"
SWEEP = "sweep --epsilon 5 --delta 1e-6 --mechanism gaussian --vary rounds=1,2"


@pytest.fixture
def files(csgm, place):
    """A file of each kind, and what they hold."""
    (place / "b.toml").write_text(BUDGET)
    inner = '[population.b]\nepsilon = 5\ndelta = 1e-6\n[population.b.release.y]\nmechanism = "gaussian"\n'
    (place / "inner.toml").write_text(f'{inner}noise-multiplier = 3\nfactorization = "f.npz"\n')
    (place / "c.toml").write_text("[tool.csgm]\ngamma = 0.5\n")
    (place / "folder").mkdir()
    np.save("folder/B.npy", np.tri(4))
    np.save("folder/C.npy", np.eye(4))
    assert csgm("factorize --T 4 --output f.npz").status == 0
    assert csgm(f"{GAUSSIAN} --format json --output r.json").status == 0
    assert csgm("check b.toml --write-lock l.lock").status == 0
    (place / "link").symlink_to("f.npz")
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


READ = [
    "inspect f.npz --output f.npz",
    "inspect link --output f.npz",
    "inspect f.npz --output link",
    "inspect f.npz --output ./folder/../f.npz",
    "inspect folder --output folder/B.npy",
    f"{GAUSSIAN} --factorization f.npz --output f.npz",
    f"{GAUSSIAN} --config c.toml --output c.toml",
    "account --from r.json --output r.json",
    "check b.toml --output b.toml",
    "check b.toml --write-lock b.toml",
    "check b.toml --output inner.toml",
    "check b.toml --write-lock f.npz",
    "check inner.toml --diff b.toml --output b.toml",
    "check b.toml --against-lock l.lock --output l.lock",
    f"{SWEEP} --factorization f.npz --output f.npz",
]
TWICE = [
    "check b.toml --output new --write-lock new",
    "check b.toml --output new --write-lock folder/../new",
    f"{SWEEP} --plot p.svg --output p.svg",
    "compare --epsilon 5 --delta 1e-6 --gamma 0.1 --norm-ratio 10 --plot p.svg --output p.svg",
    "factorize --T 4 --checkpoint new.npz --output new.npz",
]


@pytest.mark.parametrize("line", [*READ, *TWICE])
def test_refused(csgm, files, place, line):
    """Exit code 2, one message, before anything is computed; every file is what it was."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[same-file]: ")
    assert ("are the same file" in outcome.stderr) == (line in TWICE)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == files


def test_a_config_file_that_was_found(csgm, place):
    """Also one that nobody named."""
    (place / "csgm.toml").write_text("[tool.csgm]\ngamma = 0.5\n")
    assert csgm(f"{GAUSSIAN} --output csgm.toml").stderr.startswith("error[same-file]")


@pytest.mark.parametrize(
    "line",
    [
        "inspect f.npz --output new",
        "inspect folder --output folder/new.txt",
        "check b.toml --against-lock l.lock --write-lock l.lock",
        f"{SWEEP} --format csv --resume --output rows.csv",
        "check b.toml --output /dev/null --write-lock /dev/null",
        "factorize --T 4 --checkpoint ck.npz --output ck.npz --force",
    ],
)
def test_allowed(csgm, files, line):
    """What goes on with a file, brings it up to date or throws it away."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stderr.count("error[")) == (0, 0)


def test_json(csgm, files):
    """Programs are told too."""
    outcome = csgm("inspect f.npz --output f.npz --format json")
    assert json.loads(outcome.stdout)["error"]["slug"] == "same-file"


# ---------------------------------------------------------------- pipes and folders


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("check pipe", "cannot-read"),
        ("check pipe.toml", "cannot-read"),
        ("check --diff pipe b.toml", "cannot-read"),
        ("account --from pipe", "cannot-read"),
        (f"{SWEEP} --config pipe", "cannot-read"),
        ("inspect pipe.npz", "cannot-read"),
        ("factorize --T 4 --workload pipe.npy", "cannot-read"),
        ("factorize --T 4 --checkpoint pipe.npz", "cannot-write"),
        ("account --sigma 1 --mechanism gaussian --delta 1e-5 --factorization pipe.npz", "cannot-read"),
        ("check b.toml --against-lock pipe", "cannot-read"),
        ("check b.toml --write-lock pipe", "cannot-write"),
        ("check b.toml --output pipe", "cannot-write"),
        (f"{SWEEP} --format csv --output pipe", "cannot-write"),
        ("inspect f.npz --output pipe", "cannot-write"),
    ],
)
def test_a_pipe_without_another_end(csgm, files, place, monkeypatch, line, slug):
    """A file of any kind that is one, read or written: exit code 4, after a moment at most."""
    os.mkfifo("pipe")
    os.mkfifo("pipe.npz")
    os.mkfifo("pipe.npy")
    (place / "pipe.toml").write_text(BUDGET.replace("inner.toml", "pipe"))
    monkeypatch.setattr("csgm_cli.storage.files._PATIENCE", 0.05)
    outcome = csgm(line)
    assert outcome.status == 4
    assert outcome.stdout == "" or "--write-lock" in line  # a lock follows the report
    assert f"error[{slug}]: " in outcome.stderr


@pytest.mark.parametrize("name", ["dir.npz/", "dir.json/", "dir.npz/.", ""])
def test_arrays_for_a_directory(csgm, place, name):
    """A directory's name is no file's, nor are there files without a name."""
    outcome = csgm("factorize", "--T", "4", "--output", name)
    assert (outcome.status, outcome.stdout) == (4 if name else 2, "")
    assert [path.name for path in place.iterdir()] == [".git"]
