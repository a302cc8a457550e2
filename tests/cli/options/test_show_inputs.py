"""``--show-inputs``: each value with its source, and what is said where one is missing."""

import re

import pytest

from tests.cli.questions import configure

LINE = "calibrate --epsilon 5 --delta 1e-8 --format json"


def test_show_inputs_of_a_saved_result(csgm, monkeypatch):
    """What came from the file is shown with it, and what it replaced as set aside."""
    line = "calibrate --gamma 0.25 --norm-ratio 2 --rounds 3 --epsilon 5 --delta 1e-8 --accountant rdp"
    csgm(f"{line} --format json --output r.json")
    monkeypatch.setenv("CSGM_DELTA", "1e-3")
    monkeypatch.setenv("CSGM_GAMMA", "0.5")
    monkeypatch.setenv("CSGM_EPSILON", "3")
    shown = csgm("account --from r.json --show-inputs").stderr.splitlines()
    assert "from = r.json  (flag --from)" in shown
    assert "delta = 1e-08  (saved in 'r.json'; 0.001 of env CSGM_DELTA is set aside)" in shown
    assert "gamma = 0.25  (saved in 'r.json'; 0.5 of env CSGM_GAMMA is set aside)" in shown
    assert "epsilon = 3.0  (env CSGM_EPSILON, set aside)" in shown
    assert "rounds = 3  (saved in 'r.json')" in shown
    assert "accountant = rdp  (saved in 'r.json')" in shown
    asked = csgm("account --from r.json --delta 1e-6 --show-inputs").stderr.splitlines()
    assert "delta = 1e-06  (flag --delta)" in asked


def test_show_inputs(csgm, place, monkeypatch):
    """Each value is shown with its source, on stderr, and the answer is the same."""
    configure("[tool.csgm]\ncompression = 10\nnorm-ratio = 9\n")
    monkeypatch.setenv("CSGM_DELTA", "1e-8")
    line = "calibrate --epsilon 5 --gamma 0.1"
    outcome = csgm(f"{line} --show-inputs")
    assert outcome.stdout == csgm(line).stdout
    shown = outcome.stderr.splitlines()
    assert "epsilon = 5.0  (flag --epsilon)" in shown
    assert "delta = 1e-08  (env CSGM_DELTA)" in shown
    assert f"norm_ratio = 9.0  (config norm-ratio in {place / 'csgm.toml'} [tool.csgm])" in shown
    assert (
        f"compression = 10.0  (config compression in {place / 'csgm.toml'} [tool.csgm], set aside)" in shown
    )
    assert "rounds = 1  (default)" in shown
    assert "dim is not given" in shown


def test_show_inputs_where_something_is_missing(csgm, place, monkeypatch, configured):
    """What is known is shown as it was written, and the error names the file that was read."""
    configured("[tool.csgm]\ndelta = 1e-8\n")
    monkeypatch.setenv("CSGM_ROUNDS", "1e2")
    outcome = csgm("calibrate --gamma 0.01 --norm-ratio 3 --show-inputs")
    assert (outcome.status, outcome.stdout) == (2, "")
    lines = outcome.stderr.splitlines()
    for line in (
        "epsilon is not given",
        f"delta = 1e-08  (config delta in {place / 'csgm.toml'} [tool.csgm])",
        "gamma = 0.01  (flag --gamma)",
        "norm_ratio = 3  (flag --norm-ratio)",
        "compression is not given",
        "rounds = 1e2  (env CSGM_ROUNDS)",
        "l2_norm = 1.0  (default)",
        "verify = False  (default)",
    ):
        assert line in lines
    assert lines[-2:] == [
        "error[missing-option]: --epsilon is required",
        f"  try: csgm calibrate --help; the config file that was read is {place / 'csgm.toml'}",
    ]
    assert csgm("calibrate --gamma 0.01 --norm-ratio 3").stderr.splitlines() == lines[-2:]
    monkeypatch.setenv("CSGM_SHOW_INPUTS", "1")
    assert "gamma = 0.01  (flag --gamma)" in csgm("calibrate --gamma 0.01").stderr


@pytest.mark.parametrize(
    "line",
    [
        "calibrate --epsilon 5 --gamma 0.01",
        "calibrate --epsilon 5 --norm-ratio 9",
        "account --gamma 0.01 --norm-ratio 9",
        "plan --epsilon 5 --norm-ratio 9",
    ],
)
def test_a_missing_option_names_the_file_that_was_read(csgm, place, line, configured):
    """Whoever thought that the file has it sees which one was read; without a file nothing is said."""
    assert "config file" not in csgm(f"{line} --delta 1e-8").stderr
    configured("[tool.csgm]\ndelta = 1e-8\n")
    outcome = csgm(line)
    assert outcome.status == 2
    assert outcome.stderr.splitlines()[-1].endswith(f"the config file that was read is {place / 'csgm.toml'}")


def test_show_inputs_that_others_settle(csgm):
    """Rounds are those that count, and what the mechanism or the sweep does not use is set aside."""
    cohort = "--population 1000 --cohort-size 30 --training-rounds 101 --norm-ratio 9"
    shown = csgm(f"{LINE} {cohort} --gamma 0.5 --accountant rdp --show-inputs").stderr.splitlines()
    assert "rounds = 4  (from population_size, training_rounds and cohort_size)" in shown  # 3.03, rounded up
    configure("[tool.csgm]\ngamma = 0.1\n")
    shown = csgm(f"{LINE} --mechanism gaussian --norm-ratio 9 --show-inputs").stderr
    assert re.search(r"^gamma = 0.1  \(config gamma in .*, set aside\)$", shown, re.MULTILINE)
    assert "\nnorm_ratio = 9.0  (flag --norm-ratio, set aside)\n" in shown
    sweep = LINE.replace("calibrate", "sweep")
    shown = csgm(
        f"{sweep} {cohort[:-14]} --norm-ratio 9 --vary gamma=0.5,1 --accountant rdp --show-inputs"
    ).stderr
    assert shown.startswith("vary = gamma=0.5,1.0  (flag --vary)\n")
    assert re.search(r"^gamma = 0.1  \(config gamma in .*, set aside\)$", shown, re.MULTILINE)
    assert "\nrounds = 4  (from " in shown
