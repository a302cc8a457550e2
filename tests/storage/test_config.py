"""Config files: which one is found, what is read from it, and how each mistake in it is named."""

from pathlib import Path

import pytest

from csgm_cli.cli import main
from csgm_cli.errors import StorageError, UsageError
from csgm_cli.hints import did_you_mean
from csgm_cli.storage import config
from csgm_cli.storage.config import check_keys, find_config, read_settings

COMMANDS = ("calibrate", "account", "version")


def written(path: Path, text: str | bytes) -> Path:
    """Write a file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def values(path: Path, command: str = "calibrate") -> dict[str, object]:
    """Return the settings of a command as plain values."""
    return {name: setting.value for name, setting in read_settings(path, command, COMMANDS).items()}


def test_nearest_file_is_found(tmp_path):
    """The search goes upward and stops at the first folder with settings."""
    far = written(tmp_path / "csgm.toml", "")
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    assert find_config(start) == far
    near = written(tmp_path / "a" / "pyproject.toml", "[tool.csgm]\n")
    assert find_config(start) == near
    nearer = written(tmp_path / "a" / "csgm.toml", "")
    assert find_config(start) == nearer


@pytest.mark.parametrize("as_file", [False, True], ids=["repository", "worktree"])
def test_search_ends_at_the_repository_root(tmp_path, as_file):
    """A file above the repository root is another project's; one in the root counts."""
    written(tmp_path / "csgm.toml", "")
    root = tmp_path / "repository"
    start = root / "src"
    start.mkdir(parents=True)
    (root / ".git").write_text("") if as_file else (root / ".git").mkdir()
    assert find_config(start) is None
    assert find_config(root) is None
    own = written(root / "csgm.toml", "")
    assert find_config(start) == own


@pytest.mark.parametrize(
    "text", ["", "[tool.black]\n", "[project]\ndependencies = ['csgm-cli']\n", "[[broken"]
)
def test_pyproject_without_settings_is_passed_by(tmp_path, text):
    """A pyproject.toml that holds nothing for csgm does not end the search, not even a broken one."""
    found = written(tmp_path / "csgm.toml", "")
    written(tmp_path / "a" / "pyproject.toml", text)
    assert find_config(tmp_path / "a") == found


def test_removed_working_folder(tmp_path, monkeypatch):
    """Where the working folder is gone there is no config file."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_config() is None


def test_toml_parser_is_not_imported_for_nothing(tmp_path, monkeypatch):
    """A project's pyproject.toml that never mentions csgm is not parsed."""
    written(tmp_path / "pyproject.toml", "[tool.black]\nline-length = 99\n")
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(config, "_parse", lambda path: pytest.fail("parsed"))
    assert find_config(tmp_path) is None


def test_command_table_beats_shared_table(tmp_path):
    """[tool.csgm.calibrate] overrides [tool.csgm], key by key, whichever spelling either uses."""
    path = written(
        tmp_path / "csgm.toml",
        "[tool.csgm]\nnorm-ratio = 10\nrounds = 7\n"
        "[tool.csgm.calibrate]\nnorm_ratio = 20\n[tool.csgm.account]\nx = 1\n",
    )
    assert values(path) == {"norm_ratio": 20, "rounds": 7}
    assert values(path, "version") == {"norm_ratio": 10, "rounds": 7}
    settings = read_settings(path, "calibrate", COMMANDS)
    assert settings["norm_ratio"].specific
    assert settings["norm_ratio"].label == f"norm_ratio in {path} [tool.csgm.calibrate]"
    assert settings["rounds"].label == f"rounds in {path} [tool.csgm]"


def test_pyproject_may_hold_other_things(tmp_path):
    """In pyproject.toml other tables are none of csgm's business."""
    path = written(
        tmp_path / "pyproject.toml", "[project]\nname = 'x'\n[tool.black]\n[tool.csgm]\nepsilon = 3\n"
    )
    assert values(path) == {"epsilon": 3}


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        ("epsilon = 3\n", "unknown-key", "epsilon"),
        ("[tool.cgsm]\nepsilon = 3\n", "unknown-key", "cgsm"),
        ("tool = 3\n", "invalid-config", "must be a table"),
        ("[tool]\ncsgm = 3\n", "invalid-config", "must be a table"),
        ("[tool.csgm.calibrat]\n", "unknown-key", "did you mean calibrate?"),
        ("[tool.csgm]\nnorm-ratio = 1\nnorm_ratio = 2\n", "duplicate-key", "norm-ratio and norm_ratio"),
        ("[tool.csgm]\nepsilon = \n", "invalid-toml", "line 2"),
        ("[tool.csgm]\nepsilon = 1\nepsilon = 2\n", "invalid-toml", "line 3"),
        (b"[tool.csgm]\n# \xff\n", "invalid-toml", "line 2"),
        (f"x = {'[' * 100_000}", "invalid-toml", "deep"),
    ],
)
def test_wrong_file(tmp_path, text, slug, said):
    """Each kind of wrong content is a usage error that names the file and the place."""
    path = written(tmp_path / "csgm.toml", text)
    with pytest.raises(UsageError, match=said) as error:
        values(path)
    assert error.value.slug == slug
    assert str(path) in error.value.message


HOLDS = "[tool.csgm]\nepsilon = 3\n"
DOTS = "a." * 20_000


@pytest.mark.parametrize(
    "text",
    [
        f"{DOTS}a = 1",
        f"[{DOTS}a]",
        f"[[{DOTS}a]]",
        f"x = {{{DOTS}a = 1}}",
        f"{'a . ' * 40}a = 1",
        '"a".' * 40 + "a = 1",
        "'a'." * 40 + "a = 1",
        # What looks like a string and is none: quotes that end a string of several lines, escapes, comments.
        f'x = {{y = """a"""", {DOTS}a = "b"}}',
        f"x = {{y = '''a''''', {DOTS}a = 'b'}}",
        f'x = {{y = "\\\\", {DOTS}a = "b"}}',
        f'x = 1 # """\n{DOTS}a = 1',
        f"# '\n{DOTS}a = 1 # '",
    ],
)
def test_a_key_of_absurdly_many_parts_is_refused(tmp_path, text):
    """Such keys would keep Python's parser busy for hours; no one writes them by hand."""
    path = written(tmp_path / "pyproject.toml", f"{text}\n")
    with pytest.raises(UsageError, match="more than 32 parts") as error:
        values(path)
    assert error.value.slug == "invalid-toml"
    assert len(error.value.message) < 500


@pytest.mark.parametrize(
    "text",
    [
        f"{'a.' * 31}a = 1",
        f"x = '{DOTS}'",
        f'x = "{DOTS}\\"{DOTS}"',
        f'x = """\n{DOTS}\n"""',
        f"x = '''\n{DOTS}\n'''",
        f"# {DOTS}",
        f"x = [{'1.5,' * 20_000}]",
        f"x = {'[' * 50}{']' * 50}",
    ],
)
def test_dots_that_belong_to_no_key_are_fine(tmp_path, text):
    """Text, numbers and comments of another program's table do not make a file absurd."""
    path = written(tmp_path / "pyproject.toml", f"[other]\n{text}\n{HOLDS}")
    assert values(path) == {"epsilon": 3}


@pytest.mark.parametrize("text", ['\\"""\n', '\\"', '"', "'", "'''\\\n", "a", "a ", '"""\\'])
def test_text_made_to_keep_a_parser_busy(tmp_path, text):
    """Half a megabyte of unfinished strings and keys is read once, not once per beginning."""
    path = written(tmp_path / "csgm.toml", text * (2**19 // len(text)))
    with pytest.raises(UsageError) as error:
        values(path)
    assert error.value.slug == "invalid-toml"


@pytest.mark.parametrize("separator", [".", " . "])
@pytest.mark.parametrize("form", ["{} = 1", "[{}]"])
def test_a_key_of_32_parts_is_read_and_one_of_33_refused(tmp_path, form, separator):
    """Spaces around the dots make no difference."""
    key = lambda parts: separator.join("a" * parts)
    path = written(tmp_path / "pyproject.toml", f"{HOLDS}[other]\n{form.format(key(32))}\n")
    assert values(path) == {"epsilon": 3}
    path = written(tmp_path / "pyproject.toml", f"{HOLDS}[other]\n{form.format(key(33))}\n")
    with pytest.raises(UsageError, match="more than 32 parts"):
        values(path)


def test_a_file_of_1_mib_is_read(tmp_path):
    """The limit itself is allowed."""
    path = written(tmp_path / "csgm.toml", HOLDS.ljust(2**20, "#"))
    assert values(path) == {"epsilon": 3}


def test_a_file_too_large_to_be_written_by_hand(tmp_path):
    """A config file has at most 1 MiB."""
    path = written(tmp_path / "csgm.toml", HOLDS.ljust(2**20 + 1, "#"))
    with pytest.raises(UsageError) as error:
        values(path)
    assert error.value.slug == "too-large"


def test_a_folder_that_may_not_be_looked_into_holds_no_settings(tmp_path, monkeypatch):
    """The working folder may lie below one that is closed to the user."""

    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", closed)
    monkeypatch.setattr(Path, "exists", closed)
    assert find_config(tmp_path) is None


def test_unreadable_file(tmp_path):
    """A file that cannot be read is an IO error that names it."""
    for path in (tmp_path / "missing.toml", tmp_path, Path("a\0b")):
        with pytest.raises(StorageError) as error:
            values(path)
        assert (error.value.slug, error.value.exit_status) == ("cannot-read", 4)
        assert repr(str(path)) in error.value.message


def test_unknown_keys(tmp_path):
    """A command's table may hold its own options only; the shared table any command's."""
    path = written(tmp_path / "csgm.toml", "[tool.csgm]\ngamma = 0.1\n")
    shared = read_settings(path, "version", COMMANDS).values()
    check_keys(shared, own={"format"}, known={"format", "gamma"})
    with pytest.raises(
        UsageError, match=r"unknown key gamma in .*csgm.toml \[tool.csgm\]; did you mean gama\?"
    ):
        check_keys(shared, own={"format"}, known={"format", "gama"})
    path = written(tmp_path / "csgm.toml", "[tool.csgm.version]\ngamma = 0.1\n")
    specific = read_settings(path, "version", COMMANDS).values()
    with pytest.raises(UsageError, match=r"\[tool.csgm.version\]$") as error:
        check_keys(specific, own={"format"}, known={"format", "gamma"})
    assert error.value.hint == "one of format"


def test_did_you_mean():
    """Close words are suggested, others are not."""
    assert did_you_mean("epsilom", ["delta", "epsilon"]) == "; did you mean epsilon?"
    assert did_you_mean("zzz", ["delta", "epsilon"]) == ""
    assert did_you_mean("", ["delta", "epsilon"]) == ""


def test_words_cut_short_or_in_another_case():
    """Whoever wrote the beginning of a word meant that word, and not one that is spelled like it."""
    assert did_you_mean("eps", ["epochs", "help", "epsilon"]) == "; did you mean epsilon?"
    assert did_you_mean("t", ["plot", "tolerance", "T"]) == "; did you mean T or tolerance?"
    assert did_you_mean("max", ["max_mse", "max_epsilon", "max_noise_x", "max_noise_xy"]).count("max") == 3


def test_the_shortest_of_the_words_that_begin_so_are_suggested():
    """At most three, the shortest first."""
    words = ["max_aaaa", "max_bbb", "max_cc", "max_d"]
    assert did_you_mean("max", words) == "; did you mean max_d or max_cc or max_bbb?"


@pytest.mark.parametrize("value", ["9" * 6000, "0x" + "f" * 6000])
@pytest.mark.parametrize("key", ["rounds", "verify", "mechanism"])
def test_absurd_numbers_are_wrong_content(tmp_path, monkeypatch, capsys, key, value):
    """A whole number that Python will not even print is a mistake in the file, not a bug."""
    (tmp_path / "csgm.toml").write_text(f"[tool.csgm]\n{key} = {value}\n")
    monkeypatch.chdir(tmp_path)
    assert (
        main(["calibrate", "--epsilon", "5", "--delta", "1e-8", "--gamma", "0.1", "--norm-ratio", "9"]) == 2
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error[")
