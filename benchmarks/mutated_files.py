"""Valid input files with random changes, read by every command that reads them; none may break a promise."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.fuzz import settle
from benchmarks.measure import ROOT, Table, show
from tests.fuzzing.lines import Line
from tests.fuzzing.promises import HUNG, run

_BUDGET = (ROOT / "docs" / "examples" / "budget.toml").read_text(encoding="utf-8")
_CONFIG = """[tool.csgm]
gamma = 0.01
norm-ratio = 300

[tool.csgm.calibrate]
format = "json"
rounds = 10
"""
_QUESTION = ("--epsilon", "3", "--delta", "1e-6", "--gamma", "0.1", "--norm-ratio", "50", "--rounds", "5")
_SWEEP = ("sweep", *_QUESTION, "--vary", "l2-norm=1,2,3", "--format")
#: Bytes that mean something to a parser, or are not text.
_TOKENS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b"\n",
    b"\x00",
    b"\xff",
    b"1e999",
    b"-1",
    b"NaN",
    b"null",
    b"=",
)
_MOST_CHANGES = 4


class Target(NamedTuple):
    """A file by name, the command that makes it (or its text), and the one that reads it."""

    name: str
    made: tuple[str, ...] | str
    read: tuple[str, ...]


_TARGETS = (
    Target("budget.toml", _BUDGET, ("check", "budget.toml")),
    Target("csgm.toml", _CONFIG, ("calibrate", "--epsilon", "3", "--delta", "1e-6", "--config", "csgm.toml")),
    Target(
        "lock.json",
        ("check", "good.toml", "--write-lock", "lock.json"),
        ("check", "good.toml", "--against-lock", "lock.json"),
    ),
    Target(
        "saved.json",
        ("calibrate", *_QUESTION, "--format", "json", "--output", "saved.json"),
        ("account", "--from", "saved.json"),
    ),
    Target(
        "rows.csv",
        (*_SWEEP, "csv", "--output", "rows.csv"),
        (*_SWEEP, "csv", "--output", "rows.csv", "--resume"),
    ),
    Target(
        "rows.jsonl",
        (*_SWEEP, "jsonl", "--output", "rows.jsonl"),
        (*_SWEEP, "jsonl", "--output", "rows.jsonl", "--resume"),
    ),
    Target("eight.npz", ("factorize", "--T", "8", "--output", "eight.npz"), ("inspect", "eight.npz")),
    Target("eight.json", ("factorize", "--T", "8", "--output", "eight.json"), ("inspect", "eight.json")),
    Target(
        "bands.npz",
        ("factorize", "--T", "12", "--min-separation", "4", "--participations", "3", "--output", "bands.npz"),
        ("inspect", "bands.npz"),
    ),
    Target(
        "stream.npz",
        ("factorize", "--T", "16", "--strategy", "streaming:2", "--output", "stream.npz"),
        ("calibrate", *_QUESTION[:-2], "--epochs", "2", "--factorization", "stream.npz"),
    ),
)


def tables(*, quick: bool, examples: int | None = None, seed: int = 0) -> Iterator[Table]:
    """Change ``examples`` files, on all cores; example i of a seed is always the same."""
    number = examples or (100 if quick else 4_000)
    with ProcessPoolExecutor(os.cpu_count(), initializer=settle) as pool:
        found = list(pool.map(_ending, repeat(seed), range(number), chunksize=10))
    ended = Counter((_target(i).name, end.status) for i, end in enumerate(found))
    broken = Counter(end.broken for end in found if end.broken)
    said = (
        f"{number:,} files with seed {seed}, each with 1 to {_MOST_CHANGES} changes of bytes:"
        f" {broken.total()} broke a promise{''.join(f'; {what}: {n}' for what, n in broken.most_common())}."
        f" The slowest took {show(max(end.seconds for end in found))} s of CPU. Exit codes of the commands:"
    )
    statuses = sorted({status for _, status in ended})
    rows = [
        [target.name, f"`csgm {target.read[0]}`", *(f"{ended[target.name, status]:,}" for status in statuses)]
        for target in _TARGETS
    ]
    yield Table("Mutated files", said, ["file", "read by", *map(str, statuses)], rows)


class _Ending(NamedTuple):
    """Exit code and CPU seconds of one command; ``broken`` is the promise it broke, or empty."""

    status: int
    seconds: float
    broken: str


def _target(i: int) -> Target:
    return _TARGETS[i % len(_TARGETS)]


@cache
def _valid(target: Target) -> bytes:
    """The content of the file as csgm writes it."""
    path = Path(target.name)
    Path("good.toml").write_text(_BUDGET, encoding="utf-8")
    if isinstance(target.made, str):
        path.write_text(target.made, encoding="utf-8")
    else:
        command, *words = target.made
        outcome = run(Line(command, (tuple(words),)))
        assert outcome.status == 0, outcome.stderr
    content = path.read_bytes()
    command, *words = target.read
    outcome = run(Line(command, (tuple(words),)))
    assert outcome.status == 0, outcome.stderr
    path.unlink()
    return content


def _ending(seed: int, i: int) -> _Ending:
    random, target = Random(f"{seed}/{i}"), _target(i)
    content = _valid(target)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        content = random.choice(_CHANGES)(content, random)
    path = Path(target.name)
    path.write_bytes(content)
    command, *words = target.read
    outcome = run(Line(command, (tuple(words),)))
    path.unlink(missing_ok=True)
    broken = _broken(outcome.status, outcome.stderr)
    if broken:
        print(f"{broken}: {target.name} {i} of seed {seed}\n{outcome.stderr}", file=sys.stderr, flush=True)
    return _Ending(outcome.status, outcome.seconds, broken)


def _broken(status: int, stderr: str) -> str:
    if status == HUNG:
        return "an end"
    if status not in (0, 1, 2, 3, 4):
        return "a promised exit code"
    if "Traceback" in stderr:
        return "no traceback"
    if any(ord(c) < 32 and c != "\n" for c in stderr):
        return "no control characters"
    return "" if status in (0, 1) or stderr.count("error[") == 1 else "one error message"


# --------------------------------------------------------------------------- changes


def _flip(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) or 1)
    return content[:at] + bytes([random.randrange(256)]) + content[at + 1 :]


def _digit(content: bytes, random: Random) -> bytes:
    """Another digit, if it has one."""
    places = [i for i, byte in enumerate(content) if byte in b"0123456789"]
    if not places:
        return content
    at = random.choice(places)
    return content[:at] + random.choice("0123456789").encode() + content[at + 1 :]


def _cut(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + content[at + random.choice([1, 2, 8, 1000]) :]


def _insert(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + random.choice(_TOKENS) + content[at:]


def _repeat(content: bytes, random: Random) -> bytes:
    at, size = random.randrange(len(content) + 1), random.choice([1, 16, 200])
    return content[: at + size] + content[at:]


def _swap(content: bytes, random: Random) -> bytes:
    """Exchange two lines, if it has lines."""
    lines = content.split(b"\n")
    a, b = random.randrange(len(lines)), random.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


_CHANGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flip,
    _digit,
    _digit,
    _digit,
    _digit,
    _cut,
    _insert,
    _repeat,
    _swap,
)
