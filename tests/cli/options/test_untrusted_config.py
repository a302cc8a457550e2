"""A config file found by searching may come with a checkout, and must not decide what passes."""

import pytest

from csgm_cli.cli.options.definitions import CONFIGURABLE, MODEL_DEFAULTS, SEARCHABLE
from csgm_cli.cli.root import REGISTRY
from tests.cli.questions import configure

EXCEEDED = """\
[population.all]
epsilon = 1
delta = 1e-6
[population.all.release.only]
mechanism = "gaussian"
sigma = 1
rounds = 1
"""
GAUSSIAN = "account --mechanism gaussian --sigma 1 --delta 1e-6 --rounds 1"
SPARSE = "account --noise-multiplier 0.0122 --delta 1e-8 --rounds 1 --max-epsilon 5"


@pytest.mark.parametrize(
    "key",
    [
        "exit-zero = true", "output = 'out'", "write-lock = 'out'", "against-lock = 'budget.toml'",
        "diff = 'budget.toml'", "accountant = 'rdp'", "quiet = true", "verify = false",
    ],
)  # fmt: skip
@pytest.mark.parametrize("table", ["tool.csgm", "tool.csgm.check"])
@pytest.mark.parametrize("name", ["csgm.toml", "pyproject.toml"])
def test_a_found_file_does_not_disarm_check(csgm, place, monkeypatch, key, table, name):
    """Exit status 2 with file, line and key; the same file is trusted if it is named."""
    (place / "budget.toml").write_text(EXCEEDED)
    configure(f"# settings\n\n[{table}]\nformat = 'text'\n{key}\n", name)
    (place / "sub").mkdir()
    monkeypatch.chdir(place / "sub")
    outcome = csgm("check ../budget.toml")
    path = place / name
    assert (outcome.status, outcome.stdout) == (2, "")
    [line] = outcome.stderr.splitlines()
    assert line.startswith(f"error[untrusted-key]: {path}:5: {key.split()[0]} is not taken from")
    assert f"--config {path}" in line
    assert not list((place / "sub").iterdir())
    named = csgm(f"check ../budget.toml --config {path}")
    assert "untrusted-key" not in named.stderr
    monkeypatch.setenv("CSGM_CONFIG", str(path))
    assert csgm("check ../budget.toml").status == named.status


@pytest.mark.parametrize(
    "key",
    [
        "max-epsilon = 9", "rounds = 1", "noise-multiplier = 9", "sigma = 9", "delta = 0.5", "epsilon = 9",
        "mechanism = 'gaussian'", "adjacency = 'add-remove'", "population-size = 9", "from = 'x.json'",
        "sampling-rate = 0.1", "client-sampling = 'poisson'", "factorization = 'tree:4'", "epochs = 1",
        "training-rounds = 9", "output = 'out'",
    ],
)  # fmt: skip
def test_a_found_file_asks_account_nothing(csgm, place, key):
    """Neither the claim nor what it is checked with comes from a file that nobody named."""
    configure(f"[tool.csgm.account]\n{key}\n")
    outcome = csgm(GAUSSIAN)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"{place / 'csgm.toml'}:2: {key.split()[0]} is not taken" in outcome.stderr


@pytest.mark.parametrize(
    ("flags", "key", "status"),
    [
        ("--norm-ratio 1000", "gamma = 0.01", 0),
        ("--norm-ratio 1000", "compression = 100", 0),
        ("--gamma 0.01", "norm-ratio = 1000", 0),
        ("--gamma 0.01", "linf-norm = 0.001", 0),
        ("--gamma 0.01 --norm-ratio 1000", "l2-norm = 0.5", 0),
        ("--gamma 0.01 --norm-ratio 1000", "dim = 4", 1),
        ("--gamma 0.01 --norm-ratio 1000", "cohort-size = 4", 0),
    ],
)
def test_a_gate_takes_no_model_default_from_a_found_file(csgm, place, flags, key, status):
    """account --max-epsilon refuses what the file would decide; without the limit, or named, it is used."""
    configure(f"[tool.csgm]\n{key}\n")
    refused = csgm(f"{SPARSE} {flags}")
    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error[untrusted-key]: --max-epsilon is not checked with ")
    assert f"{key.split()[0]} in {place / 'csgm.toml'} [tool.csgm]" in refused.stderr
    assert csgm(f"{SPARSE} {flags} --config csgm.toml").status == status
    assert csgm(f"{SPARSE.partition(' --max')[0]} {flags}").status == 0


def test_flags_override_a_found_file_in_a_gate(csgm):
    """A default of the file that is not used refuses nothing."""
    configure("[tool.csgm]\ngamma = 0.5\nformat = 'json'\n")
    outcome = csgm(f"{SPARSE} --gamma 0.01 --norm-ratio 1000")
    assert (outcome.status, outcome.document["inputs"]["gamma"]) == (0, 0.01)
    saved = csgm(
        "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --rounds 1 --output r.json"
    )
    assert saved.status == 0
    again = csgm("account --from r.json --max-epsilon 5.1")
    assert (again.status, again.document["inputs"]["gamma"]) == (0, 0.01)


def test_what_a_found_file_may_set():
    """Presentation and defaults of the model: nothing that names a file, a claim or an exit status."""
    presentation = {"format", "value", "statement", "plot_size", "show_inputs", "value_bits"}
    model = {"gamma", "compression", "norm_ratio", "linf_norm", "l2_norm", "dim", "cohort_size"}
    assert presentation | model == SEARCHABLE
    assert model == set(MODEL_DEFAULTS)
    assert SEARCHABLE < CONFIGURABLE


@pytest.mark.parametrize("command", [name for name in REGISTRY if name not in ("completion", "help")])
def test_every_command_refuses_it(csgm, command):
    """The shared table is refused by commands without the option, too."""
    configure("[tool.csgm]\nexit-zero = true\n")
    outcome = csgm(command)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "untrusted-key" in outcome.stderr
