"""What messages say: what was probably meant, of a length to read, and nothing that steers a terminal."""

from pathlib import Path

import numpy as np
import pytest

from csgm_cli.cli.options.definitions import CONFIGURABLE
from csgm_cli.hints import close_words
from csgm_cli.storage.arrays import read_arrays


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("calibrate --norm-ratio 0.0064", "156.25"),
        ("calibrate --gamma 100", "for a compression factor of 100: --gamma 0.01; for 100 %: --gamma 1\n"),
        ("calibrate --compression 0.01", "--gamma 0.01"),
        ("calibrate --epsilom 3", "did you mean --epsilon?"),
        ("calibrate --norm-ratio 9 --norm-ratio 10", "csgm sweep --vary norm-ratio=A,B"),
        ("calibrate --norm-ratio", "try: csgm calibrate --help\n"),
        ("factorize --T 8 --T 16", "may be given once here\n"),
        ("calibrate --eps 3", "did you mean --epsilon?"),
        ("factorize --t 64", "did you mean --T or --tolerance?"),
        ("calibrate --hepl", "did you mean --help?"),
        ("cal --epsilon 3", "did you mean calibrate?"),
        ("calibrate --dim 4M", "write it as 4e6"),
        ("calibrate --rounds 1.5k", "write it as 1.5e3"),
        ("calibrate --gamma 1%", "write it as 0.01"),
        ("calibrate --gamma 10%", "write it as 0.1\n"),
        ("calibrate --gamma 0,05", "write it as 0.05\n"),
        ("calibrate --gamma 0,005", "write it as 0.005\n"),
        ("calibrate --gamma 1/20", "write it as 0.05\n"),
        ("calibrate --delta 10^-7", "write it as 1e-7\n"),
        ("calibrate --delta 5*10**-7", "write it as 5e-7\n"),
        ("calibrate --delta 1/0", "got '1/0'\n"),
        ("calibrate --delta 0", "try: delta 0 is pure differential privacy, which Gaussian noise never "),
        (
            "sweep --vary delta=0,1e-6",
            "Gaussian noise never gives; choose one well below 1 / number of clients",
        ),
        (
            "calibrate --epsilon 3,5",
            "try: write it as 3.5; for several values: csgm sweep --vary epsilon=3,5\n",
        ),
        ("calibrate --epsilon 1,2,3", "try: for several values: csgm sweep --vary epsilon=1,2,3\n"),
        ("account --sigma 1 --epsilon 0.5;3", "try: for several values: csgm sweep --vary epsilon=0.5,3\n"),
        ("calibrate --rounds 10,20", "try: for several values: csgm sweep --vary rounds=10,20\n"),
        ("calibrate --gamma 2,5", "try: for several values: csgm sweep --vary gamma=2,5\n"),
        ("calibrate --gamma 200%", "got '200%'\n"),
        ("calibrate --delta 10^-400", "got '10^-400'\n"),
        ("factorize --T 4,8", "got '4,8'\n"),
        (
            "compare --gamma 0.05,0.04",
            "--gamma takes one number each time, got '0.05,0.04'\n  try: repeat --gamma\n",
        ),
        ("compare --gamma 0,05", "write it as 0.05\n"),
        ("calibrate --gamma 5", "for a compression factor of 5: --gamma 0.2; for 5 %: --gamma 0.05\n"),
        ("calibrate --delta 1e5", "try: did you mean 1e-5?\n"),
        ("calibrate --delta 2.5e+07", "try: did you mean 2.5e-7?\n"),
        ("calibrate --delta 99", "--delta must be a number in [1e-300, 1), got '99'\n"),
        (
            "calibrate 4 1e-7",
            "got an unexpected argument '4'\n  try: all values are options: csgm calibrate --",
        ),
        (
            "calibrate --epsilon 1e-7 --delta 4",
            "--epsilon must be a number in [1e-06, 10000], got '1e-7'\n"
            "  try: epsilon and delta seem to be swapped: epsilon 4, delta 1e-07\n",
        ),
        (
            "calibrate --delta 4 --epsilon 1e-5",
            "epsilon and delta seem to be swapped: epsilon 4, delta 1e-05\n",
        ),
        ("account --sigma 1 --max-epsilon 1e-7 --delta 4", "seem to be swapped: epsilon 4, delta 1e-07\n"),
        ("calibrate --epsilon 0.5 --delta 1", "--delta must be a number in [1e-300, 1), got '1'\n"),
        (
            "calibrate --epsilon 1e-7 --delta 1e-9",
            "--epsilon must be a number in [1e-06, 10000], got '1e-7'\n",
        ),
        ("calibrate --dim 4,000,000", "write it as 4000000"),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --dim 4e6",
            "try: pass --cohort-size beside --dim, or --norm-ratio, or --linf-norm with --l2-norm\n",
        ),
        (
            "calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 --cohort-size 9",
            "the rotation rule needs dim beside cohort_size\n  try: pass --dim beside --cohort-size, ",
        ),
        (
            "calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --rounds 300 --population 2000",
            "--population-size computes the --rounds of one client; if each client takes part independently",
        ),
        ("calibrate --steps 100", "no such option: --steps; did you mean --rounds?"),
        ("account --clip 1", "no such option: --clip; did you mean --l2-norm?"),
        ("account --std 1", "no such option: --std; did you mean --sigma?"),
        ("plan --json", "no such option: --json; did you mean --format?"),
        ("account --noise-multiplier 0", "try: without noise there is no (epsilon, delta) guarantee"),
        ("account --sigma 1 --gamma 1 --norm-ratio 1", "try: --delta asks for epsilon and may be repeated, "),
        (
            "account --gamma 1 --norm-ratio 1 --delta 1e-5",
            "try: for example --noise-multiplier 0.0122, or --",
        ),
        ("compare --epsilon 1 --delta 1e-5 --norm-ratio 1", "try: for example --gamma 0.01; either may be "),
        (
            "plan --epsilon 1 --delta 1e-5 --norm-ratio 1",
            "try: for example --max-noise-overhead 0.05, 5 % more",
        ),
        (
            "calibrate --clients 2000",
            "no such option: --clients; did you mean --population-size or --cohort-size?",
        ),
        ("factorize --T 4 --workload momentum:0.9", "try: momentum=0.9\n"),
        (
            "account --mechanism gaussian --sigma 1 --delta 1e-6 --rounds 1 --max-epsilon 2",
            " is above 2.0 (--max-epsilon); csgm calibrate --epsilon 2.0 with the same options",
        ),
        (
            "calibrate --epsilon --delta 1e-8",
            "error[usage]: --epsilon needs a value, and --delta after it is an option\n",
        ),
        ("compare --gamma --delta", "--gamma needs a value, and --delta after it is an option\n"),
        ("version --output --format json", "is an option\n  try: a file of that name: ./--format\n"),
        ("calibrate --norm-ratio 1_000", "try: write it as 1000\n"),
        ("calibrate --norm-ratio 1_000.5", "try: write it as 1000.5\n"),
        (
            "sweep --vary gamma=0.01..0.1",
            "try: N values from LO to HI: 0.01:0.1:N, or :Nlog for equal ratios\n",
        ),
        ("sweep --vary delta=1e-8-1e-6", "try: N values from LO to HI: 1e-8:1e-6:N, or"),
        ("sweep --vary gamma=-0.5", "--vary gamma must be a number in [1e-09, 1], got '-0.5'\n"),
        (
            "sweep --noise-multiplier 1 --epsilon 5 --delta 1e-8 --gamma 1 --vary rounds=1,2",
            "try: with --noise-multiplier one of them is the answer: pass the other\n",
        ),
        (
            "account --sigma 1 --epsilon 5 --delta 1e-8",
            "try: pass --delta to compute epsilon (checked by --max-epsilon)",
        ),
        ("--epsilon 5", "option: --epsilon\n  try: options follow the command: csgm COMMAND --epsilon\n"),
        ("account --norm_ratio 5", "no such option: --norm_ratio; did you mean --norm-ratio?\n"),
        ("account --noise 5", "no such option: --noise; did you mean --noise-multiplier?\n"),
        ("calibrate --noise 5", "try: --noise-multiplier is an option of csgm account and sweep; csgm"),
        (
            "check --sampling-rate 0.1",
            "sampling-rate is an option of csgm calibrate, account, compare, plan, sweep and simulate; csgm",
        ),
        ("inspect", "FILE is required\n  try: for example csgm inspect prefix32.npz; csgm inspect --help\n"),
        ("completion", "try: for example csgm completion bash; csgm completion --help\n"),
        ("check", "try: for example csgm check budget.toml --format github; csgm check --help\n"),
        ("calibrte", "did you mean calibrate?"),
        ("--format json version", "options follow the command"),
        ("completion bahs", "did you mean bash?"),
    ],
)
def test_helpful_message(csgm, line, said):
    """Where the mistake can be guessed, the message says what was probably meant."""
    assert said in csgm(line).stderr


def test_delta_0_in_a_file(csgm):
    """What --delta 0 would be told, a config and a budget are told too."""
    never = "try: delta 0 is pure differential privacy, which Gaussian noise never gives"
    Path("csgm.toml").write_text("[tool.csgm]\ndelta = 0\n", encoding="utf-8")
    assert never in csgm("calibrate --epsilon 3 --mechanism gaussian --config csgm.toml").stderr
    Path("csgm.toml").unlink()
    Path("budget.toml").write_text("[population.all]\nepsilon = 3\ndelta = 0.0\n", encoding="utf-8")
    assert never in csgm("check budget.toml").stderr


def test_a_number_in_quotes(csgm):
    """A config and a budget take numbers as they are; what is no number is no better without quotes."""
    for value, hinted in (("3", True), ("1e6", True), ("three", False)):
        Path("csgm.toml").write_text(f"[tool.csgm]\nepsilon = '{value}'\n", encoding="utf-8")
        refused = csgm("calibrate --delta 1e-6 --mechanism gaussian --config csgm.toml").stderr
        assert refused.startswith("error[wrong-type]: ")
        assert (f"try: without quotes: {value}\n" in refused) is hinted
        Path("csgm.toml").unlink()
        Path("b.toml").write_text(f"[population.all]\nepsilon = '{value}'\ndelta = 1e-6\n", encoding="utf-8")
        assert (f"try: without quotes: {value}\n" in csgm("check b.toml").stderr) is hinted


def test_files_of_another_kind(csgm):
    """Where a budget is no result, and a result no file of arrays, the message says which file and why."""
    Path("budget.toml").write_text("[population.all]\n", encoding="utf-8")
    refused = csgm("account --from budget.toml").stderr
    assert refused.startswith(
        "error[bad-result-file]: 'budget.toml': not a saved csgm result: it is not JSON"
    )
    line = "calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --format json --output saved.json"
    assert csgm(line).status == 0
    refused = csgm("inspect saved.json").stderr
    assert refused.startswith("error[broken-file]: 'saved.json': it is no file of arrays")


def test_arrays_of_a_workload_that_nobody_named(csgm):
    """Where they are not factors of prefix sums, what they are of can be said; a word that is said is not."""
    assert csgm("factorize --T 4 --workload momentum=0.9 --output m.npz").status == 0
    arrays = read_arrays("m.npz").arrays
    np.savez("bare.npz", B=arrays["B"], C=arrays["C"])
    outcome = csgm("inspect bare.npz")
    assert outcome.status == 1
    assert "  try: pass --workload if B C is not prefix-sum\n" in outcome.stderr
    outcome = csgm("inspect bare.npz --workload momentum=0.8")
    assert (outcome.status, "try:" in outcome.stderr) == (1, False)
    assert csgm("inspect bare.npz --workload momentum=0.9").status == 0


def test_a_comma_in_a_list_of_a_variable(csgm, monkeypatch):
    """In a variable commas separate values, and a list of gammas is right there."""
    monkeypatch.setenv("CSGM_GAMMA", "0.05,0.04")
    assert csgm("compare --epsilon 3 --delta 1e-6 --norm-ratio 9 --accountant rdp").status == 0


def test_help_beside_a_stray_word(csgm):
    """Whoever asks for help gets it."""
    assert csgm("calibrate 4 --help").status == 0


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("calibrate --sigma 3", "--sigma is an option of csgm account and sweep; csgm calibrate --help"),
        (
            "check --gamma 0.1",
            "--gamma is an option of csgm calibrate, account, compare, plan, sweep and simulate",
        ),
        ("calibrate --T 32", "--T is an option of csgm factorize; here: --factorization STRATEGY:T"),
        ("plan --strategy tree", "--strategy is an option of csgm factorize; here: --factorization"),
        ("inspect --strategy tree", "--strategy is an option of csgm factorize; csgm inspect --help"),
        ("calibrate --jobs 2", "--jobs is an option of csgm sweep; csgm calibrate --help"),
        ("calibrate --zzz 3", "csgm calibrate --help"),
    ],
)
def test_an_option_of_another_command_is_sent_there(csgm, line, hint):
    """No option that is spelled a little like it is suggested instead."""
    first, second = csgm(line).stderr.splitlines()
    assert first == f"error[unknown-option]: no such option: {line.split()[1]}"
    assert second.startswith(f"  try: {hint}")


def test_a_missing_ratio_names_what_gives_it(csgm):
    """The message says what is missing, and the hint every flag that would do."""
    first, second = csgm("calibrate --epsilon 3 --delta 1e-6 --gamma 0.1").stderr.splitlines()
    assert first.startswith("error[missing-norm-ratio]: norm_ratio is missing")
    for flag in ("--norm-ratio", "--linf-norm", "--l2-norm", "--dim", "--cohort-size"):
        assert flag in second


def test_delta_next_to_one_is_not_shown_as_one(csgm):
    """The message says which delta it speaks of."""
    line = "calibrate --epsilon 3 --delta 0.9999999999999999 --gamma 0.5 --dim 1 --norm-ratio 1"
    assert "delta 0.9999999999999999 already covers the target" in csgm(line).stderr


@pytest.mark.parametrize("name", sorted(name for name in CONFIGURABLE if "_" in name))
def test_missing_underscore(name):
    """A name without its underscores, in whatever case, has one suggestion: itself."""
    for word in (name.replace("_", ""), name.upper().replace("_", "-")):
        assert close_words(word, CONFIGURABLE) == [name]


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("CSGM_DETLA", "; did you mean CSGM_DELTA or CSGM_MODEL?"),
        ("CSGM_ADJACENCYY", "; did you mean CSGM_ADJACENCY?"),
        ("CSGM_COHORTSIZE", "; did you mean CSGM_COHORT_SIZE?"),
        ("CSGM_QQQ", ""),
    ],
)
@pytest.mark.parametrize("line", ["calibrate", "version --format json"])
def test_misspelt_variable(csgm, monkeypatch, line, variable, said):
    """A variable that sets nothing is named before an error that it may explain; stdout is the same."""
    plain = csgm(line)
    monkeypatch.setenv(variable, "replace-one")
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (plain.status, plain.stdout)
    first, rest = outcome.stderr.split("\n", 1)
    assert first == f"warning[unknown-variable]: unrecognised environment variable {variable}{said}"
    assert rest == plain.stderr


def test_known_variables_are_not_warned_of(csgm, monkeypatch):
    """Every option's variable is known, whichever command is run, and so is CSGM_DEBUG."""
    for name in ("CSGM_DEBUG", "CSGM_CONFIG", "CSGM_MAX_MSE_OVERHEAD", "CSGM_FROM", "CSGMX", "XCSGM_Y"):
        monkeypatch.setenv(name, "")
    assert csgm("version").stderr == ""


def test_long_value_is_cut_in_the_message(csgm):
    """A megabyte of nonsense does not come back as a megabyte of message."""
    outcome = csgm("calibrate", "--epsilon", "9" * 10**6)
    assert outcome.status == 2
    assert len(outcome.stderr) < 300


@pytest.mark.parametrize(
    "words",
    [
        ["calibrate", "--" + "x" * 10**5],
        ["y" * 10**5],
        ["calibrate", "z" * 10**5],
        ["version", "--output", "o" * 10**5],
        ["version", "--config", "c" * 10**5],
        ["account", "--from", "f" * 10**5],
        ["calibrate", "--accountant", "a" * 10**5],
        ["version", "--show-inputs", "--output", "s/" * 10**4 + "s"],
    ],
    ids=lambda words: words[-1][:3],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_message_is_of_a_length_to_read(csgm, monkeypatch, words, form):
    """Whatever is long in a line, a message keeps its beginning and the reason at its end."""
    monkeypatch.setenv("CSGM_FORMAT", form)
    outcome = csgm(*words)
    assert outcome.status in (2, 4)
    assert max(map(len, outcome.stderr.splitlines())) < 1100
    assert len(outcome.stdout) < 1500
    if outcome.status == 4:
        assert "too long" in outcome.stderr


CONTROL = "a\x1b]0;title\x07\nb\u202ec\x9b31m"


@pytest.mark.parametrize(
    "words",
    [
        ["version", f"--{CONTROL}"],
        [CONTROL],
        ["version", "--output", f"{CONTROL}/x"],
        ["version", "--config", CONTROL],
        ["version", "--show-inputs", "--output", CONTROL],
        ["account", "--from", CONTROL],
        ["account", "--from", f"kept{CONTROL}"],
        ["calibrate", "--epsilon", CONTROL],
        ["calibrate", "--mechanism", CONTROL],
    ],
)
def test_nothing_quoted_steers_the_terminal(csgm, place, monkeypatch, words):
    """What a message quotes, be it an error, a note or a warning, is shown with its controls escaped."""
    saved = csgm("calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --format json").stdout
    (place / f"kept{CONTROL}").write_text(saved)
    monkeypatch.setenv(f"CSGM_{CONTROL}", "1")
    shown = csgm(*words).stderr.replace("\n", "")
    assert "\\x1b" in shown
    assert shown.isprintable()
