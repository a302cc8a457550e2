"""``--plot``: pictures in files and in the terminal."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest

from csgm_cli import cli
from csgm_cli.storage.schema import load_schema
from tests.cli.questions import GRID


@pytest.mark.parametrize(
    ("line", "suffix"),
    [
        (GRID, "png"),
        (GRID, "svg"),
        (GRID, "pdf"),
        ("sweep --preset figure1", "svg"),
        ("compare --epsilon 5 --delta 1e-8 --gamma 0.1 --gamma 0.01 --norm-ratio 100 --dim 1e6", "svg"),
        ("factorize --T 12", "png"),
        ("factorize --T 12 --compare", "svg"),
        ("factorize --T 12 --workload momentum=0.9 --objective max", "pdf"),
    ],
)
def test_pictures(csgm, line, suffix):
    """A picture is written beside the usual report."""
    report = csgm(line).stdout
    outcome = csgm(f"{line} --plot one.{suffix}")
    assert (outcome.status, outcome.stdout) == (0, report)
    assert (
        Path(f"one.{suffix}")
        .read_bytes()
        .startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    )


@pytest.mark.parametrize("command", ["compare --gamma 0.1 --norm-ratio 100", "sweep --preset figure1"])
def test_size_of_a_picture(csgm, monkeypatch, command):
    """--plot-size, or its variable, is the width and height in inches; a size too small is reported."""
    target = "" if "preset" in command else " --epsilon 5 --delta 1e-8 --rounds 1"
    line = f"{command}{target} --accountant rdp --plot x.svg"
    outcome = csgm(f"{line} --plot-size 7X3.5")
    assert (outcome.status, "plot-too-small" in outcome.stderr) == (0, False)
    assert 'width="504pt" height="252pt"' in Path("x.svg").read_text()
    monkeypatch.setenv("CSGM_PLOT_SIZE", "2x2")
    outcome = csgm(line)
    assert outcome.status == 0
    assert "warning[plot-too-small]: " in outcome.stderr
    assert 'width="144pt" height="144pt"' in Path("x.svg").read_text()


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        *(
            (f"--plot x.svg --plot-size {size}", "out-of-range")
            for size in ("6", "6x", "x", "6x4x2", "nanx4")
        ),
        *(
            (f"--plot x.svg --plot-size {size}", "out-of-range")
            for size in ("1.9x4", "6x40.1", "-6x4", "infx4")
        ),
        ("--plot-size 6x4", "missing-option"),
        ("--plot - --plot-size 6x4", "missing-option"),
    ],
)
@pytest.mark.parametrize("line", [GRID, "factorize --T 12"])
def test_refused_sizes(csgm, line, words, slug):
    """Anything but two numbers in range is refused, and so is a size without a file."""
    outcome = csgm(f"{line} {words}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: --plot-size ")
    assert not Path("x.svg").exists()


def test_size_without_a_plot_in_the_settings(csgm, monkeypatch):
    """A size in the environment is for whenever a plot is asked for."""
    monkeypatch.setenv("CSGM_PLOT_SIZE", "6x4")
    assert csgm(GRID).status == csgm(f"{GRID} --plot -").status == 0


def test_picture_beside_streamed_rows(csgm):
    """CSV rows are the same with a picture, and the picture the same with any format."""
    rows = csgm(f"{GRID} --format csv").stdout
    assert csgm(f"{GRID} --format csv --plot csv.svg").stdout == rows
    csgm(f"{GRID} --plot text.svg")
    assert Path("csv.svg").read_bytes() == Path("text.svg").read_bytes()


def test_chart(csgm):
    """--plot - puts a chart below the text report, and alone on stdout where the report has a file."""
    report = csgm(GRID).stdout
    chart = csgm(f"{GRID} --plot - --format json --output rows").stdout
    assert csgm(f"{GRID} --plot -").stdout == f"{report}\n{chart}"
    assert max(map(len, chart.splitlines())) == 80
    assert chart.isascii()
    jsonschema.validate(json.loads(Path("rows").read_text()), load_schema("sweep"))


def test_matplotlib_is_missing(csgm, monkeypatch):
    """One line names what to install, before any work is done; a chart needs nothing."""
    monkeypatch.setattr("csgm_cli.render.plots.image_file.find_spec", lambda _: None)
    outcome = csgm(f"{GRID} --plot x.png")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[missing-extra]: ")
    assert "pip install 'csgm-cli[plot]'" in outcome.stderr.splitlines()[0]
    assert csgm(f"{GRID} --plot -").status == 0


def test_matplotlib_is_broken(csgm, monkeypatch):
    """One that is there and cannot be imported is named as such, in one line, and is no bug of csgm."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # importing it is an ImportError
    monkeypatch.setattr("csgm_cli.jobs.sweep.answer", lambda _: pytest.fail("a point was solved"))
    outcome = csgm(f"{GRID} --plot x.png")
    assert (outcome.status, outcome.stdout) == (2, "")
    error, hint = outcome.stderr.splitlines()
    assert error.startswith("error[missing-extra]: matplotlib is installed, and cannot be imported: ")
    assert "pip install --force-reinstall 'csgm-cli[plot]'" in hint


@pytest.mark.parametrize("option", ["--plot", "--output"])
def test_unwritable_file_is_found_before_the_work(csgm, monkeypatch, option):
    """A file that cannot be written ends a sweep before its first point."""
    monkeypatch.setattr("csgm_cli.jobs.sweep.answer", lambda _: pytest.fail("a point was solved"))
    for path in ("missing/x.svg", "folder.svg"):
        Path("folder.svg").mkdir(exist_ok=True)
        outcome = csgm(*GRID.split(), option, path)
        assert (outcome.status, outcome.stdout) == (4, "")
        assert outcome.stderr.startswith("error[cannot-write]: ")


#: Commands that write two files: old.svg, which exists, and one in a folder that is missing.
TWO_FILES = [
    f"{GRID} --rounds 1 --plot old.svg --output missing/x.svg",
    f"{GRID} --rounds 1 --plot missing/x.svg --output old.svg",
    f"{GRID} --rounds 1 --plot old.svg --format csv --output missing/x.svg",
    f"{GRID} --rounds 1 --plot missing/x.svg --format jsonl --output old.svg",
    "compare --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 10 --plot old.svg --output missing/x.svg",
    "compare --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 10 --plot missing/x.svg --output old.svg",
    "factorize --T 4 --plot old.svg --output missing/x.npz",
    "check new.toml --write-lock old.svg --output missing/x.svg",
    "check new.toml --write-lock missing/x.svg --output old.svg",
]


@pytest.mark.parametrize("line", TWO_FILES)
def test_both_destinations_are_checked_before_one_is_replaced(csgm, budgets, line):
    """Where one of two files cannot be written, the other one keeps what it holds."""
    Path("old.svg").write_text("old")
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (4, "")
    assert Path("old.svg").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(
    "line", [line.partition(" --output")[0] for line in TWO_FILES if "old.svg --" in line]
)
def test_nothing_is_replaced_where_stdout_is_full(budgets, line):
    """A result that cannot be printed replaces no picture and no lock either."""
    Path("old.svg").write_text("old")
    command = [sys.executable, "-m", "csgm_cli", *line.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])},
            timeout=120,
            check=False,
        )
    assert done.returncode == 4
    assert b"error[cannot-write]: cannot write to standard output" in done.stderr
    assert Path("old.svg").read_text() == "old"


def test_nothing_to_draw(csgm):
    """Rows that all failed make no picture; an old one stays."""
    Path("x.svg").write_text("old")
    line = "sweep --epsilon 5 --vary delta=0.9,0.1 --gamma 1e-9 --dim 100 --norm-ratio 2 --plot x.svg"
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout.count("delta-covers-target")) == (3, 2)
    assert outcome.stderr.startswith("warning[nothing-to-draw]: ")
    assert Path("x.svg").read_text() == "old"


def test_chart_of_a_factorization(csgm, place):
    """Below the report, and beside the arrays."""
    report = csgm("factorize --T 12").stdout
    outcome = csgm("factorize --T 12 --plot - --output f.npz")
    assert outcome.status == 0
    assert "row 12 of C" in outcome.stdout
    assert outcome.stdout.startswith(report.splitlines()[0])
    assert "honaker-full" in csgm("factorize --T 12 --compare --plot -").stdout


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ("--plot p.gif", "unknown-choice"),
        ("--plot - --format json", "conflicting-options"),
        ("--plot - --format json --output f.npz", "conflicting-options"),
        ("--plot - --value", "conflicting-options"),
        ("--plot p.png --strategy tree", "no-rows"),
    ],
)
def test_picture_of_a_factorization_refused_before_work(csgm, place, monkeypatch, words, slug):
    """Nothing is solved or written first."""
    module = import_module("csgm_cli.factorization.factorize")  # the package has a function of that name
    monkeypatch.setattr(module, "solve", None)
    outcome = csgm(f"factorize --T 12 {words}")
    assert outcome.status == 2
    assert slug in outcome.stderr
    assert not list(place.glob("[!.]*"))
