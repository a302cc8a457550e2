"""Where values come from: flag > environment > command's table > shared table > default."""

import pytest

from csgm_cli.cli.options.definitions import CONFIGURABLE
from csgm_cli.cli.options.sources import Rank
from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.ranges import FORMER_NAMES
from tests.cli.questions import configure

LINE = "calibrate --epsilon 5 --delta 1e-8 --format json"


def test_each_source_beats_the_weaker_ones(csgm, monkeypatch, configured):
    """The strongest source that has a value for rounds gives it."""
    line = f"{LINE} --gamma 0.1 --norm-ratio 9"
    rounds = lambda *words: csgm(" ".join([line, *words])).document["inputs"]["rounds"]
    assert rounds() == 1
    configured("[tool.csgm]\nrounds = 2\n")
    assert rounds() == 2
    configured("[tool.csgm]\nrounds = 2\n[tool.csgm.calibrate]\nrounds = 3\n")
    assert rounds() == 3
    monkeypatch.setenv("CSGM_ROUNDS", "4")
    assert rounds() == 4
    assert rounds("--rounds 5") == 5


def test_whole_question_from_the_file(csgm, configured):
    """A run without any flag can be described in pyproject.toml."""
    configured(
        "[project]\nname = 'x'\n[tool.csgm]\nepsilon = 5\ndelta = 1e-8\nformat = 'json'\n"
        "[tool.csgm.calibrate]\ngamma = 0.01\nnorm-ratio = 1000\nverify = true\nrounds = 1e2\n",
        "pyproject.toml",
    )
    inputs = csgm("calibrate").document["inputs"]
    assert inputs["epsilon"] == 5.0
    assert inputs["delta"] == 1e-8
    assert inputs["gamma"] == 0.01
    assert inputs["norm_ratio"] == 1000.0
    assert inputs["verify"] is True
    assert inputs["rounds"] == 100


def test_whole_question_from_the_environment(csgm, monkeypatch):
    """A run without any flag can be described by the environment."""
    for name, value in {"EPSILON": "5", "DELTA": "1e-8", "COMPRESSION": "100", "NORM_RATIO": "1000"}.items():
        monkeypatch.setenv(f"CSGM_{name}", value)
    monkeypatch.setenv("CSGM_VALUE", "yes")
    assert csgm("calibrate").stdout == csgm(f"{LINE[:-14]} --gamma 0.01 --norm-ratio 1000 --value").stdout


def test_empty_and_unknown_variables(csgm, monkeypatch):
    """An empty variable counts as unset, and a variable of no option sets nothing."""
    monkeypatch.setenv("CSGM_GAMMA", "")
    monkeypatch.setenv("CSGM_NOSUCH", "1")
    assert csgm(f"{LINE} --gamma 0.1 --norm-ratio 9").status == 0


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CSGM_ROUNDS", "1.5", "CSGM_ROUNDS must be an integer in [1, 1e+09], got '1.5'"),
        ("CSGM_GAMMA", "nan", "CSGM_GAMMA must be a number in [1e-09, 1], got 'nan'"),
        ("CSGM_ACCOUNTANT", "rpd", "CSGM_ACCOUNTANT must be one of"),
        ("CSGM_VERIFY", "maybe", "CSGM_VERIFY must be true or false, got 'maybe'"),
    ],
)
def test_wrong_variable_is_named(csgm, monkeypatch, variable, value, said):
    """A bad value from the environment is blamed on the variable, not on a flag nobody typed."""
    monkeypatch.setenv(variable, value)
    outcome = csgm("calibrate --epsilon 5 --delta 1e-8 --norm-ratio 9")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr.splitlines()[0]
    assert "--" not in outcome.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rounds = 1.5", "rounds in {path} [tool.csgm] must be an integer in [1, 1e+09], got 1.5"),
        ("rounds = 0", "rounds in {path} [tool.csgm] must be an integer in [1, 1e+09], got 0"),
        ("gamma = nan", "gamma in {path} [tool.csgm] must be a number in [1e-09, 1], got nan"),
        ("gamma = inf", "gamma in {path} [tool.csgm] must be a number in [1e-09, 1], got inf"),
        ("gamma = '0.1'", "gamma in {path} [tool.csgm] must be a number, got '0.1'"),
        ("gamma = true", "gamma in {path} [tool.csgm] must be a number, got True"),
        ("gamma = [0.1, 0.2]", "gamma in {path} [tool.csgm] must be a number, got [0.1, 0.2]"),
        ("verify = 1", "verify in {path} [tool.csgm] must be true or false, got 1"),
        ("accountant = 'rpd'", "accountant in {path} [tool.csgm] must be one of"),
        ("accountant = 3", "accountant in {path} [tool.csgm] must be a string, got 3"),
        ("output = 1979-05-27", "output in {path} [tool.csgm] must be a string"),
        (
            "norm-ration = 9",
            "unknown key norm-ration in {path} [tool.csgm]; did you mean norm_ratio or min_separation or"
            " rotation?",
        ),
        ("config = 'x'", "unknown key config in {path} [tool.csgm]"),
        (f"rounds = 1{'0' * 400}", "rounds in {path} [tool.csgm] must be an integer"),
    ],
)
def test_wrong_key_is_named(csgm, place, line, said, configured):
    """A bad value or key is blamed on the file and the key."""
    configured(f"[tool.csgm]\n{line}\n")
    outcome = csgm("calibrate --epsilon 5 --delta 1e-8")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said.format(path=place / "csgm.toml") in outcome.stderr.splitlines()[0]


def test_option_of_another_command(csgm, configured):
    """A shared table may hold options of any command; a command's own table may not."""
    configured("[tool.csgm]\nmax-epsilon = 3\nsigma = 2\n")
    assert csgm(f"{LINE} --gamma 0.1 --norm-ratio 9").status == 0
    configured("[tool.csgm.calibrate]\nmax-epsilon = 3\n")
    assert "unknown key max-epsilon" in csgm(f"{LINE} --gamma 0.1 --norm-ratio 9").stderr


def test_byte_order_mark(csgm, place):
    """What some editors put before UTF-8 is not a part of it."""
    (place / "csgm.toml").write_bytes("\ufeff[tool.csgm]\nnorm-ratio = 2\n".encode())
    assert csgm(f"{LINE} --gamma 0.1").document["inputs"]["norm_ratio"] == 2


def test_config_without_a_name(csgm):
    """The name that was given is the one that is told."""
    outcome = csgm("calibrate", "--config", "")
    assert (outcome.status, outcome.stdout) == (4, "")
    assert outcome.stderr == "error[cannot-read]: cannot read '': no file is named\n"


def test_named_config_file(csgm, place, monkeypatch):
    """--config and CSGM_CONFIG name the file to read instead of the one that would be found."""
    configure("[tool.csgm]\nrounds = 2\n")
    configure("[tool.csgm]\nrounds = 3\n", "other.toml")
    line = f"{LINE} --gamma 0.1 --norm-ratio 9"
    assert csgm(f"{line} --config other.toml").document["inputs"]["rounds"] == 3
    monkeypatch.setenv("CSGM_CONFIG", "other.toml")
    assert csgm(line).document["inputs"]["rounds"] == 3
    missing = csgm(f"{line} --config missing.toml")
    assert (missing.status, missing.document["error"]["slug"]) == (4, "cannot-read")
    configure("[tool.csgm]\nrounds =\n", "other.toml")
    broken = csgm(line)
    assert (broken.status, broken.document["error"]["slug"]) == (2, "invalid-toml")


def test_completion_survives_a_broken_file(csgm, monkeypatch):
    """A broken config file does not stop the shell from completing options."""
    configure("[tool.csgm]\nrounds =\n")
    for name, value in {
        "_CSGM_COMPLETE": "bash_complete",
        "COMP_WORDS": "csgm calibrate --eps",
        "COMP_CWORD": "2",
    }.items():
        monkeypatch.setenv(name, value)
    assert csgm("").stdout == "plain,--epsilon\n"


def test_stronger_alternative_wins(csgm, monkeypatch, configured):
    """Of two ways to say one thing, the one from the stronger source is used."""
    configured("[tool.csgm]\ncompression = 10\nnorm-ratio = 9\nrounds = 5\n")
    inputs = csgm(
        f"{LINE} --gamma 0.2 --linf-norm 0.5 --population 100 --cohort-size 10 --training-rounds 20"
    ).document["inputs"]
    assert (inputs["gamma"], inputs["compression"]) == (0.2, 5.0)
    assert inputs["norm_ratio"] == 2.0
    assert inputs["rounds"] == 2
    monkeypatch.setenv("CSGM_GAMMA", "0.3")
    assert csgm(LINE).document["inputs"]["gamma"] == 0.3


def test_equal_alternatives_conflict(csgm, monkeypatch):
    """Two ways to say one thing from the same source are refused, and both are named."""
    monkeypatch.setenv("CSGM_GAMMA", "0.1")
    monkeypatch.setenv("CSGM_COMPRESSION", "10")
    outcome = csgm("calibrate --epsilon 5 --delta 1e-8 --norm-ratio 9")
    assert outcome.stderr.splitlines()[0] == (
        "error[conflicting-options]: CSGM_GAMMA and CSGM_COMPRESSION exclude each other"
    )


def test_command_table_settles_an_alternative(csgm):
    """A command's table is stronger than the shared one, for alternatives as well."""
    configure("[tool.csgm]\ngamma = 0.1\nnorm-ratio = 9\n[tool.csgm.calibrate]\ncompression = 4\n")
    assert csgm(LINE).document["inputs"]["gamma"] == 0.25


def test_ratio_may_be_given_twice_if_it_agrees(csgm):
    """Two sources of the ratio are compared, not refused."""
    assert csgm(f"{LINE} --gamma 0.1 --norm-ratio 4 --linf-norm 0.25").status == 0
    assert csgm(f"{LINE} --gamma 0.1 --norm-ratio 4 --linf-norm 0.2").status == 2


def test_gaussian_by_flag_ignores_a_configured_gamma(csgm):
    """A gamma in the file was meant for the compressed mechanisms; one typed beside gaussian is an error."""
    configure("[tool.csgm]\ngamma = 0.1\nnorm-ratio = 9\n")
    inputs = csgm(f"{LINE} --mechanism gaussian").document["inputs"]
    assert (inputs["gamma"], inputs["norm_ratio"]) == (1.0, None)
    assert csgm(f"{LINE} --mechanism gaussian --gamma 0.1").document["error"]["slug"] == "gaussian-gamma"
    assert csgm(f"{LINE} --mechanism gaussian --gamma 1").status == 0


def test_account_question_by_flag_beats_the_configured_one(csgm, configured):
    """A shared file may hold the target for calibrate; account asks what its flag asks."""
    configured("[tool.csgm]\nepsilon = 5\ndelta = 1e-8\ngamma = 0.1\nnorm-ratio = 9\n")
    by_delta = csgm("account --sigma 1 --delta 1e-6 --format json").document
    assert (by_delta["inputs"]["epsilon"], by_delta["result"]["delta"]) == (None, 1e-6)
    by_epsilon = csgm("account --sigma 1 --epsilon 3 --format json").document
    assert (by_epsilon["inputs"]["delta"], by_epsilon["result"]["epsilon"]) == (None, 3.0)


@pytest.mark.parametrize("source", ["shared", "own", "environment"])
def test_account_with_a_configured_target_asks_for_epsilon(csgm, monkeypatch, source, configured):
    """Epsilon and delta of one weak source are the target of calibrate: account asks what epsilon is."""
    if source == "environment":
        monkeypatch.setenv("CSGM_EPSILON", "5")
        monkeypatch.setenv("CSGM_DELTA", "1e-8")
    else:
        table = "[tool.csgm]" if source == "shared" else "[tool.csgm.account]"
        configured(f"{table}\nepsilon = 5\ndelta = 1e-8\n")
    line = "account --sigma 1.13901278161 --mechanism gaussian --format json"  # what (5, 1e-8) takes
    asked = csgm(line).document
    assert (asked["inputs"]["epsilon"], asked["inputs"]["delta"]) == (None, 1e-8)
    assert asked["result"]["epsilon"] == pytest.approx(5.0, rel=1e-10)
    assert csgm(f"{line} --max-epsilon 5").status == 0
    assert csgm(f"{line} --max-epsilon 4.99").status == 1
    assert "epsilon = 5.0" in csgm(f"{line} --show-inputs").stderr


def test_max_epsilon_settles_what_is_asked(csgm, configured):
    """A limit on epsilon asks for epsilon, even where a stronger table than delta's names one."""
    configured("[tool.csgm]\ndelta = 1e-8\n[tool.csgm.account]\nepsilon = 5\n")
    line = "account --sigma 1 --mechanism gaussian --format json"
    assert csgm(line).document["inputs"]["delta"] is None
    assert csgm(f"{line} --max-epsilon 6").status == 0
    assert csgm(f"{line} --max-epsilon 5").status == 1  # sigma 1.139 is what (5, 1e-8) takes
    assert csgm(f"{line} --max-epsilon 5").document["inputs"]["epsilon"] is None


def test_a_limit_set_aside_is_not_silent(csgm, place, configured):
    """--epsilon asks for delta, so that a configured limit cannot be checked; a warning says so."""
    configured("[tool.csgm]\ndelta = 1e-8\nmax-epsilon = 1\n")
    outcome = csgm("account --sigma 1 --mechanism gaussian --rounds 1 --epsilon 3 --format json")
    assert outcome.status == 0
    [warning] = outcome.document["warnings"]
    assert warning["slug"] == "limit-set-aside"
    assert f"max-epsilon in {place / 'csgm.toml'} [tool.csgm] is not checked" in warning["message"]
    assert "pass --delta" in warning["message"]
    checked = csgm("account --sigma 1 --mechanism gaussian --rounds 1 --format json")
    assert (checked.status, checked.document["warnings"]) == (1, [])


@pytest.mark.parametrize("saved", [False, True])
def test_a_configured_limit_is_checked_whatever_else_is_set(csgm, monkeypatch, saved, configured):
    """An epsilon from the environment, meant for calibrate, does not open the gate of a config file."""
    csgm("calibrate --mechanism gaussian --epsilon 5 --delta 1e-8 --format json --output r.json")
    question = "--from r.json" if saved else "--sigma 1.13901278161 --mechanism gaussian"
    configured("[tool.csgm]\nmax-epsilon = 4.99\ndelta = 1e-8\n")
    monkeypatch.setenv("CSGM_EPSILON", "3")
    refused = csgm(f"account {question}")
    assert (refused.status, "EXCEEDED" in refused.stdout) == (1, True)
    assert "is above 4.99 (max-epsilon in " in refused.stderr
    configured("[tool.csgm]\nmax-epsilon = 5.01\ndelta = 1e-8\n")
    held = csgm(f"account {question}")
    assert (held.status, "max epsilon" in held.stdout, "set-aside" in held.stderr) == (0, True, False)
    typed = csgm(f"account {question} --epsilon 3")
    assert (typed.status, "warning[limit-set-aside]" in typed.stderr) == (0, True)


@pytest.mark.parametrize("named", ["flag", "environment", "config"])
def test_only_flags_ask_a_saved_result_another_question(csgm, monkeypatch, named, configured):
    """Whatever names the saved file, configured targets and accountants change nothing of its question."""
    csgm("calibrate --mechanism gaussian --epsilon 5 --delta 1e-8 --format json --output r.json")
    monkeypatch.setenv("CSGM_DELTA", "1e-3")
    monkeypatch.setenv("CSGM_ACCOUNTANT", "rdp")
    table = "from = 'r.json'\n" if named == "config" else ""
    configured(f"[tool.csgm]\nepsilon = 7\n{table}")
    if named == "environment":
        monkeypatch.setenv("CSGM_FROM", "r.json")
    line = f"account {'--from r.json' if named == 'flag' else ''} --format json"
    inputs = csgm(line).document["inputs"]
    assert (inputs["epsilon"], inputs["delta"], inputs["accountant"]) == (None, 1e-8, "exact")
    by_flag = csgm(f"{line} --delta 1e-3 --accountant rdp").document["inputs"]
    assert (by_flag["delta"], by_flag["accountant"]) == (1e-3, "rdp")


def test_flags_of_both_questions_conflict(csgm):
    """What somebody typed is never set aside."""
    line = "account --sigma 1 --mechanism gaussian --epsilon 3"
    for other in ("--delta 1e-8", "--max-epsilon 4", "--delta 1e-8 --max-epsilon 4"):
        outcome = csgm(f"{line} {other}")
        assert outcome.status == 2
        assert f"{other.split()[0]} and --epsilon exclude each other" in outcome.stderr


@pytest.mark.parametrize("separator", [" ", ",", ", "])
def test_repeated_option_from_the_environment(csgm, monkeypatch, separator):
    """A variable can hold several values of an option that may be repeated."""
    monkeypatch.setenv("CSGM_DELTA", f"1e-6{separator}1e-8")
    document = csgm("account --sigma 4 --mechanism gaussian --format json").document
    assert document["inputs"]["delta"] == [1e-6, 1e-8]
    assert [row["delta"] for row in document["result"]["rows"]] == [1e-6, 1e-8]


def test_repeated_option_from_the_file(csgm, configured):
    """A list in the file is several values; a plain number is one."""
    configured("[tool.csgm.account]\ndelta = [1e-6, 1e-8]\n")
    line = "account --sigma 4 --mechanism gaussian --format json"
    assert csgm(line).document["inputs"]["delta"] == [1e-6, 1e-8]
    configured("[tool.csgm.account]\ndelta = 1e-6\n")
    assert csgm(line).document["inputs"]["delta"] == 1e-6


@pytest.mark.parametrize(
    ("flag", "variable", "file", "is_json"),
    [
        ("", "", "", False),
        ("--format json", "", "", True),
        ("--format=json", "", "", True),
        ("", "json", "", True),
        ("", "", "json", True),
        ("--format text", "json", "json", False),
        ("", "csv", "json", False),
        ("--value", "json", "json", False),
    ],
)
@pytest.mark.parametrize("mistake", ["--nosuch 1", "--epsilon nan", "--accountant exact --norm-ratio 9"])
def test_format_of_errors(csgm, monkeypatch, flag, variable, file, is_json, mistake):
    """Wherever JSON is asked for, and whenever the error happens, the error is JSON too."""
    monkeypatch.setenv("CSGM_FORMAT", variable)
    if file:
        configure(f"[tool.csgm.calibrate]\nformat = '{file}'\n")
    outcome = csgm(
        f"calibrate --delta 1e-6 --gamma 0.1 {flag} {'' if 'nan' in mistake else '--epsilon 3'} {mistake}"
    )
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[")
    assert (outcome.stdout != "") == is_json
    if is_json:
        assert outcome.document["schema"] == "csgm/error/1"


def test_format_of_an_error_in_the_file_itself(csgm):
    """An unknown key beside format = "json" is reported as JSON."""
    configure("[tool.csgm]\nformat = 'json'\nnosuch = 1\n")
    assert csgm("version").document["error"]["slug"] == "unknown-key"


def test_which_of_two_config_files_is_read(csgm, place, monkeypatch):
    """csgm.toml wins over the pyproject.toml beside it, the nearer folder over that above; one is read."""
    line = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.1 --format json"
    configure("[tool.csgm]\nnorm-ratio = 2\ncohort-size = 7\n", "pyproject.toml")
    configure("[tool.csgm]\nnorm-ratio = 3\n")
    (place / "sub").mkdir()
    (place / "sub" / "pyproject.toml").write_text("[tool.csgm]\nnorm-ratio = 4\n")
    inputs = csgm(line).document["inputs"]
    assert (inputs["norm_ratio"], inputs["cohort_size"]) == (3, None)
    monkeypatch.chdir(place / "sub")
    assert csgm(line).document["inputs"]["norm_ratio"] == 4
    (place / "sub" / "csgm.toml").write_text("[tool.csgm]\nnorm-ratio = 5\n")
    assert csgm(line).document["inputs"]["norm_ratio"] == 5


def test_one_name_per_option(place):
    """Flag, parameter and variable of an option are one name, or a former one, whichever command has it."""
    for name in REGISTRY:
        for param in root.get_command(None, name).params:
            if param.param_type_name == "option":
                names = [param.name, *(old for old, new in FORMER_NAMES.items() if new == param.name)]
                variables = [param.envvar] if isinstance(param.envvar, str) else param.envvar
                assert param.opts == ["--" + name.replace("_", "-") for name in names]
                assert variables == ["CSGM_" + name.upper() for name in names]
                assert param.name in CONFIGURABLE | {"config"}


def test_ranks_are_in_the_documented_order():
    """flag > environment > command's table > shared table > default."""
    ranks = [Rank.FLAG, Rank.ENVIRONMENT, Rank.COMMAND_CONFIG, Rank.CONFIG, Rank.DEFAULT]
    assert sorted(ranks, reverse=True) == ranks
