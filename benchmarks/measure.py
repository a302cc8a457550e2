"""CPU time, wall time and memory of child processes, and Markdown tables."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Cost:
    """CPU (user and system, all threads) and wall seconds, peak memory in MiB, and the standard output.

    The peak is never below the parent's own, so the measuring process must stay small: it imports no numpy.
    """

    cpu: float
    wall: float
    peak: float
    stdout: str


def csgm(*words: str) -> list[str]:
    """The command line of the installed console script."""
    return [str(Path(sys.executable).with_name("csgm")), *words]


def python(*words: str) -> list[str]:
    """The command line of this interpreter."""
    return [sys.executable, *words]


def cost(command: Sequence[str]) -> Cost:
    """Run ``command`` once in an empty folder, with the repository importable; raises if it fails."""
    # PYTHONDONTWRITEBYTECODE, for example, would compile every module anew in each run.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CSGM_", "PYTHON"))}
    environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as out:
        (Path(folder) / ".git").mkdir()  # no configuration is searched beyond here
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, cwd=folder, env=environment)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise RuntimeError(f"exit code {child.returncode}: {' '.join(command)}")
        out.seek(0)
        return Cost(used.ru_utime + used.ru_stime, wall, _mebibytes(used.ru_maxrss), out.read())


def case(module: str, *words: str) -> dict[str, float]:
    """What ``module`` finds in a process of its own, one of its cases called by name (`ran_case`)."""
    found: dict[str, float] = json.loads(cost(python("-m", module, "--case", *words)).stdout)
    return found


def ran_case(cases: Mapping[str, Callable[..., dict[str, float]]]) -> bool:
    """Whether this process was started for a case, whose result is then on stdout; with one BLAS thread."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of child processes, too
    if sys.argv[1:2] != ["--case"]:
        return False
    print(json.dumps(cases[sys.argv[2]](*sys.argv[3:])))
    return True


def replace_part(file: Path, begin: str, end: str, part: str) -> None:
    """Put ``part`` between two lines of ``file``."""
    text = file.read_text(encoding="utf-8")
    before, after = text.partition(begin)[0], text.partition(end)[2]
    file.write_text(f"{before}{begin}\n{part}\n{end}{after}", encoding="utf-8")


def own_peak() -> float:
    """The peak memory of this process so far, in MiB."""
    return _mebibytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _mebibytes(peak: int) -> float:
    """``ru_maxrss`` in MiB; its unit depends on the system."""
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def interleaved(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, Cost]:
    """The median cost of each command. The runs are interleaved, so that other load affects all alike.

    One untimed run of each fills the caches of bytecode and files.
    """
    for command in commands.values():
        cost(command)
    runs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            runs[name].append(cost(command))
    return {name: _median(costs) for name, costs in runs.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        median(c.cpu for c in costs),
        median(c.wall for c in costs),
        median(c.peak for c in costs),
        costs[-1].stdout,
    )


@dataclass(frozen=True)
class Table:
    """A Markdown table under a heading and a text."""

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## {self.title}\n\n{self.text}\n\n{table}\n"


def verdict(value: float, limit: float) -> str:
    """Met or missed."""
    return "met" if value <= limit else "missed"


def missed(value: float, limit: float) -> str:
    """A remark behind a number that exceeds its limit; else empty."""
    return "" if value <= limit else " (missed)"


def show(number: float, digits: int = 3) -> str:
    """``number`` with that many significant digits, without an exponent between 1e-3 and 1e6."""
    if number != 0 and not 1e-3 <= abs(number) < 1e6:
        return f"{number:.{digits}g}"
    text = f"{number:#.{digits}g}"
    return f"{float(text):.0f}" if abs(number) >= 10 ** (digits - 1) else text
