"""Settings from ``[tool.csgm]`` and ``[tool.csgm.<command>]`` in csgm.toml or pyproject.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import Place, UsageError, shown
from csgm_cli.ranges import current_name, underflows
from csgm_cli.storage.files import cannot_read, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

#: File names looked for in each folder; the first one that holds settings wins.
_FILE_NAMES = ("csgm.toml", "pyproject.toml")

#: Python's TOML parser takes time with the square of the parts of a key: a file has to be sane first.
_MOST_BYTES = 1 << 20
_MOST_PARTS = 32
#: Strings, closed or not, and comments: their dots are no dots of a key. Linear, whatever the text.
#: Compiled only where a file is read, as most commands read none.
_QUOTED = r"""(?sx)
      "{3} (?: [^"\\] | \\.? | "{1,2}(?!") )*+ (?: "{3,5} )?  |  " (?: [^"\\\n] | \\[^\n]? )*+ "?
      |  '{3} (?: [^'] | '{1,2}(?!') )*+ (?: '{3,5} )?  |  ' [^'\n]*+ '?  |  \#[^\n]*+ """
_PART = r"(?<![\w-])[\w-]++[ \t]*+\.[ \t]*+"
_DEEP_KEY = rf"(?:{_PART}){{{_MOST_PARTS}}}"


class TooSmall(str):
    """A number of a config file, as it is written there, that is not 0 but that float64 reads as 0."""

    __slots__ = ()


@dataclass(frozen=True)
class Setting:
    """One key of a config file: its option ``name`` (underscores), its value and where it stands.

    ``table`` is the TOML table it was found in; ``specific`` is True in a command's own table, ``searched``
    where nobody named the file.
    """

    name: str
    value: Any
    key: str
    table: str
    path: Path
    specific: bool
    searched: bool = False

    @property
    def label(self) -> str:
        """How messages name it, for example ``norm-ratio in csgm.toml [tool.csgm]``."""
        return f"{self.key} in {self.path} [{self.table}]"


def find_config(start: Path | None = None) -> Path | None:
    """Return the nearest config file at or above ``start`` (the working folder), up to a repository root.

    A folder with ``.git`` is a repository root; without one the search ends at the file system's. A folder
    that may not be looked into holds none.
    Errors are those of ``read_settings``, for a pyproject.toml that mentions csgm.
    """
    try:
        start = start or Path.cwd()
    except OSError:  # the working folder was removed
        return None
    for folder in (start, *start.parents):
        for name in _FILE_NAMES:
            path = folder / name
            if _is(Path.is_file, path) and (name == "csgm.toml" or _mentions_csgm(path)):
                return path
        if _is(Path.exists, folder / ".git"):
            return None
    return None


def _is(test: Callable[[Path], bool], path: Path) -> bool:
    try:
        return test(path)
    except OSError:
        return False


def read_settings(path: Path, command: str, commands: Collection[str]) -> dict[str, Setting]:
    """Return the settings that ``path`` holds for ``command``, by option name.

    ``[tool.csgm.<command>]`` overrides ``[tool.csgm]``; tables of other ``commands`` are left alone.
    ``StorageError``: unreadable. ``UsageError``: not TOML, a table that is no command, a key twice.
    """
    table = _csgm_table(path, _parse(path))
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if strangers := table.keys() - shared.keys() - set(commands):
        name = min(strangers)
        from csgm_cli.hints import did_you_mean

        message = f"[tool.csgm.{name}] in {path} is no command{did_you_mean(name, commands)}"
        raise UsageError("unknown-key", message, f"one of {', '.join(commands)}")
    found = {setting.name: setting for setting in _settings(path, "tool.csgm", shared, specific=False)}
    if isinstance(own := table.get(command), dict):
        own_table = f"tool.csgm.{command}"
        found |= {setting.name: setting for setting in _settings(path, own_table, own, specific=True)}
    return found


def check_keys(settings: Iterable[Setting], own: Collection[str], known: Collection[str]) -> None:
    """Raise ``UsageError`` (slug ``unknown-key``) for a key that means nothing.

    A command's own table may hold the command's ``own`` option names, ``[tool.csgm]`` any ``known`` one.
    """
    for setting in settings:
        allowed = own if setting.specific else known
        if setting.name not in allowed:
            from csgm_cli.hints import did_you_mean, instead_of_sampling

            instead = instead_of_sampling(setting.name).replace("`", "")
            meant = "" if instead else did_you_mean(setting.name, allowed)
            hint = instead or f"one of {', '.join(sorted(allowed))}"
            raise UsageError("unknown-key", f"unknown key {setting.label}{meant}", hint)


def check_searched(settings: Iterable[Setting], allowed: Collection[str]) -> None:
    """Raise ``UsageError`` (slug ``untrusted-key``) for a key that only a file named by the user may hold.

    ``allowed``: the option names that a file found by searching may set.
    """
    for setting in settings:
        if setting.searched and setting.name not in allowed:
            from csgm_cli.storage.toml_lines import key_lines

            lines = key_lines(_text(setting.path).replace("\r\n", "\n"))
            place = Place(str(setting.path), lines.get((*setting.table.split("."), setting.key), 1))
            message = f"{place}: {setting.key} is not taken from a config file found by searching"
            hint = f"--config {setting.path}, which may set it, or the flag"
            raise UsageError("untrusted-key", f"{message}; {hint}", place=place)


def _mentions_csgm(pyproject: Path) -> bool:
    # Most projects' files hold nothing for csgm: a look at the bytes spares them the TOML parser.
    return b"csgm" in _read(pyproject) and "csgm" in _table(_parse(pyproject), "tool", pyproject)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise cannot_read(path, error) from None


def _parse(path: Path) -> dict[str, Any]:
    return parse_toml(path, _text(path))


def _text(path: Path) -> str:
    data = _read(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{path} is not valid TOML: not UTF-8 (at line {line})"
        raise UsageError("invalid-toml", message, place=Place(str(path), line)) from None


def parse_toml(path: str | Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; `TooSmall` stands for numbers that float64 reads as 0.

    ``UsageError`` (slug ``invalid-toml`` or ``too-large``) names ``path``.
    """
    import tomllib

    _refuse_absurd(path, text)
    try:
        return tomllib.loads(text, parse_float=_float)
    except ValueError as error:  # a TOMLDecodeError, or a whole number of absurd length
        place = Place(str(path), _line_of(error, text))
        raise UsageError("invalid-toml", f"{path} is not valid TOML: {error}", place=place) from None
    except RecursionError:
        raise UsageError("invalid-toml", f"{path} is nested too deeply") from None


def _line_of(error: ValueError, text: str) -> int:
    """The line that the TOML parser complains about; the first where it names none."""
    if "at end of document" in str(error):
        return len(text.rstrip().split("\n"))
    named = re.search(r"\(at line (\d+)", str(error))
    return int(named[1]) if named else 1


def _refuse_absurd(path: str | Path, text: str) -> None:
    """Raise ``UsageError`` for text that would keep the parser busy, and that nobody wrote by hand."""
    if len(text) > _MOST_BYTES:
        raise UsageError("too-large", f"{path} is larger than any config file that csgm reads")
    if found := re.search(_DEEP_KEY, re.sub(_QUOTED, "_", text)):
        raise UsageError(
            "invalid-toml", f"{path} has a key of more than {_MOST_PARTS} parts: {shown(found[0])}"
        )


def _float(text: str) -> float | TooSmall:
    number = float(text)
    return TooSmall(text) if underflows(text, number) else number


def _csgm_table(path: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``[tool.csgm]``; a file that is csgm's alone may hold nothing else."""
    tool = _table(document, "tool", path)
    strangers = (document.keys() - {"tool"}) | (tool.keys() - {"csgm"})
    if strangers and path.name != "pyproject.toml":
        message = f"unknown key {min(strangers)} in {path}: csgm reads only [tool.csgm]"
        raise UsageError("unknown-key", message, "put options below a line [tool.csgm]")
    return _table(tool, "csgm", path)


def _table(holder: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    table = holder.get(key, {})
    if not isinstance(table, dict):
        raise UsageError("invalid-config", f"{key} in {path} must be a table, got {shown(table)}")
    return table


def _settings(path: Path, table: str, entries: Mapping[str, Any], *, specific: bool) -> Iterator[Setting]:
    seen: dict[str, str] = {}
    for key, value in entries.items():
        name = current_name(key)
        if name in seen:
            raise UsageError(
                "duplicate-key", f"{seen[name]} and {key} in {path} [{table}] are the same option"
            )
        seen[name] = key
        yield Setting(name, value, key, table, path, specific)
