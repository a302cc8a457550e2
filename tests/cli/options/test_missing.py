"""Missing options: one message names all of them, and a command line with them added is complete."""

import pytest

VALUES = {
    "--epsilon": "5", "--delta": "1e-8", "--gamma": "0.1", "--norm-ratio": "100", "--sigma": "1",
    "--max-noise-overhead": "0.1", "--dim": "1e4", "--cohort-size": "100", "--population-size": "1000",
    "--training-rounds": "50", "--vary": "rounds=1,2",
}  # fmt: skip

INCOMPLETE = [
    ("calibrate", "--epsilon, --delta, --gamma and --norm-ratio"),
    ("calibrate --epsilon 5", "--delta, --gamma and --norm-ratio"),
    ("calibrate --epsilon 5 --delta 1e-8", "--gamma and --norm-ratio"),
    ("calibrate --compression 10", "--epsilon, --delta and --norm-ratio"),
    ("calibrate --mechanism gaussian", "--epsilon and --delta"),
    ("calibrate --epsilon 5 --dim 1e4", "--delta, --gamma and --cohort-size"),
    ("calibrate --linf-norm 0.01 --gamma 0.1", "--epsilon and --delta"),
    (
        "calibrate --epsilon 5 --population-size 1000",
        "--delta, --gamma, --norm-ratio, --cohort-size and --training-rounds",
    ),
    ("account", "--sigma, --delta, --gamma and --norm-ratio"),
    ("account --noise-multiplier 1 --epsilon 1", "--gamma and --norm-ratio"),
    ("compare", "--epsilon, --delta, --gamma and --norm-ratio"),
    ("plan", "--epsilon, --delta, --max-noise-overhead and --norm-ratio"),
    ("plan --compression 10", "--epsilon, --delta and --norm-ratio"),
    ("sweep", "--vary, --epsilon, --delta, --gamma and --norm-ratio"),
    ("sweep --vary gamma=0.1,0.2", "--epsilon, --delta and --norm-ratio"),
    ("sweep --vary sigma=1,2 --norm-ratio 10", "--delta and --gamma"),
]


@pytest.mark.parametrize(("line", "flags"), INCOMPLETE, ids=[line for line, _ in INCOMPLETE])
def test_one_message_names_all_missing_options(csgm, line, flags):
    """With exit code 2, the first example of the command, and nothing on stdout."""
    outcome = csgm(line)
    command = line.split()[0]
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"error[missing-option]: {command} needs {flags}\n" in outcome.stderr
    assert f"for example csgm {command} --" in outcome.stderr
    assert outcome.stderr.endswith(f"csgm {command} --help\n")


@pytest.mark.parametrize(("line", "flags"), INCOMPLETE, ids=[line for line, _ in INCOMPLETE])
def test_the_named_options_are_enough(csgm, line, flags):
    """The same line with those options added is answered."""
    added = " ".join(f"{flag} {VALUES[flag]}" for flag in flags.replace(" and", ",").split(", "))
    assert csgm(f"{line} {added}").status == 0


@pytest.mark.parametrize("flag", ["--epsilon", "--delta", "--gamma", "--norm-ratio"])
def test_a_single_missing_option_is_named(csgm, flag):
    rest = " ".join(f"{name} {VALUES[name]}" for name in list(VALUES)[:4] if name != flag)
    outcome = csgm(f"calibrate {rest}")
    assert outcome.status == 2
    assert flag in outcome.stderr


def test_a_config_file_counts(csgm, configured):
    """What the file gives is not missing, and the message says which file was read."""
    configured("[tool.csgm]\nepsilon = 5\ngamma = 0.1\n")
    outcome = csgm("calibrate")
    assert "calibrate needs --delta and --norm-ratio\n" in outcome.stderr
    assert "the config file that was read is" in outcome.stderr


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("calibrate --clients 500", "--population-size or --cohort-size"),
        ("compare --num-clients 500", "--population-size or --cohort-size"),
        ("calibrate --noise 5", "--noise-multiplier"),
    ],
)
def test_names_of_other_tools(csgm, line, meant):
    """Every option that a name of another tool may stand for is suggested."""
    assert meant in csgm(line).stderr
