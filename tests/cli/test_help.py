"""The help: complete, grouped, and in step with the registry."""

import re

import pytest

from csgm_cli.cli.command import Command
from csgm_cli.cli.root import REGISTRY, root

HEADINGS = {
    *("Points", "Target", "Mechanism", "Cohort and rounds", "Noise", "Accounting"),
    *("Problem", "Arrays", "Simulation", "Training", "Output", "Examples"),
}


def test_registry_is_what_the_help_lists(csgm):
    """``csgm --help`` lists every command with its line, in the registry's order."""
    listed = csgm("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(REGISTRY)
    assert [" ".join(line.split()[1:]) for line in listed] == list(REGISTRY.values())


def test_exit_codes_are_in_the_help(csgm):
    """The help explains every exit code."""
    text = csgm("--help").stdout
    assert all(f"\n    {code:<4} " in text for code in (0, 1, 2, 3, 4, 70, 130, 141))


@pytest.mark.parametrize("name", REGISTRY)
def test_help_of_a_command(csgm, name):
    """A command's help starts as the registry describes it; its options stand under known headings."""
    outcome = csgm(f"{name} --help")
    assert outcome.stdout == csgm(f"{name} -h").stdout
    assert f"\n  {REGISTRY[name]}\n" in outcome.stdout
    headings = [line[:-1] for line in outcome.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [heading for heading in dict.fromkeys(headings) if heading in HEADINGS]
    assert headings[-2:] == ["Output", "Examples"]


@pytest.mark.parametrize(
    ("what", "own", "other"),
    [
        ("mean", ("--from", "--trials"), ("--data", "--epsilon")),
        ("train", ("--data", "--epsilon"), ("--from",)),
    ],
)
def test_help_of_an_experiment(csgm, what, own, other):
    """After its name, the help of simulate has its options and examples, and no others."""
    text = csgm(f"simulate {what} --help").stdout
    assert text == csgm(f"simulate -h {what}").stdout
    assert text.startswith(f"Usage: csgm simulate [OPTIONS] {what}\n")
    shown = set(text.split())
    assert shown >= {*own, "--rotation", "--seed", "--format", "--help"}
    assert shown.isdisjoint(other)
    assert set(re.findall(r"csgm simulate (\w+) -", text.partition("Examples:")[2])) <= {what}
    assert text != csgm("simulate --help").stdout


@pytest.mark.parametrize("name", ["", *REGISTRY, "simulate mean", "simulate train"])
def test_help_fits_80_columns(csgm, monkeypatch, name):
    """On a terminal of 80 columns no line of any help is broken by the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, csgm(f"{name} --help").stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", REGISTRY)
def test_help_as_a_command(csgm, name):
    """``csgm help COMMAND`` is ``csgm COMMAND --help``."""
    outcome = csgm(f"help {name}")
    assert (outcome.status, outcome.stdout) == (0, csgm(f"{name} --help").stdout)


def test_help_without_a_command(csgm):
    """``csgm help`` is ``csgm --help``."""
    assert (csgm("help").status, csgm("help").stdout) == (0, csgm("--help").stdout)


@pytest.mark.parametrize(
    ("line", "said"),
    [("help calibrat", "did you mean calibrate?"), ("help check x", "unexpected extra argument")],
)
def test_help_of_no_command(csgm, line, said):
    """An unknown command gets a suggestion, and a second one is refused."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr


@pytest.mark.parametrize("name", REGISTRY)
def test_every_option_is_explained(name):
    """Each option says what it is, and none is there that another option of the command already is."""
    command = root.get_command(None, name)
    assert isinstance(command, Command)
    helps = [param.help for param in command.params if param.param_type_name == "option"]
    assert all(helps)
    assert len(set(helps)) == len(helps)


def test_help_of_plan_has_the_plain_gaussian_as_a_reference_only():
    """The plain Gaussian mechanism is what overheads are over, and none of the mechanisms to plan."""
    command = root.get_command(None, "plan")
    helps = {param.name: param.help for param in command.params if param.param_type_name == "option"}
    assert "lain Gaussian" not in helps["mechanism"]
    for name in ("max_mse_overhead", "max_noise_overhead"):
        assert "plain Gaussian mechanism's" in helps[name]


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("calibrate", {"--sigma", "--noise-multiplier", "--max-epsilon", "--at-equal-mse"}),
        ("account", {"--value-bits", "--max-mse-overhead"}),
        ("compare", {"--mechanism", "--value", "--sigma"}),
        ("plan", {"--noise-multiplier", "--sigma"}),
        ("sweep", {"--value", "--max-epsilon", "--from", "--at-equal-mse"}),
        ("factorize", {"--epsilon", "--gamma", "--verify"}),
        ("inspect", {"--T", "--value", "--tolerance", "--strategy"}),
        ("selftest", {"--value", "--epsilon", "--verify"}),
        ("version", {"--value", "--epsilon"}),
        ("completion", {"--format", "--output"}),
        ("help", {"--format", "--output"}),
    ],
)
def test_options_are_absent_where_they_do_not_apply(csgm, name, absent):
    """An option that would mean nothing is not offered."""
    offered = set(csgm(f"{name} --help").stdout.split())
    assert offered.isdisjoint(absent)
