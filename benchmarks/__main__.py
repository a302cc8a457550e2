"""``python -m benchmarks``: run the benchmarks, print their tables, and record them in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from benchmarks import check, solve, startup, sweep
from benchmarks.measure import ROOT, Table

_NAMES = ("startup", "solve", "sweep", "check", "waste", "scaling", "verify", "fuzz", "files")
_RECORD = ROOT / "docs" / "benchmarks.md"
_PACKAGES = ("csgm-cli", "click", "numpy", "scipy", "mpmath", "dp-accounting")
_OPTIONAL = "prv-accountant"


def main() -> None:
    options = _parser().parse_args()
    found = [f"# Compare speed and waste\n\n{_introduction()}\n"]
    print(found[0], flush=True)
    for table in _tables(options):
        found.append(str(table))
        print(table, flush=True)
    if options.record:
        _RECORD.write_text("\n".join(found), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=_NAMES, action="append", help="run this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no slow tools")
    parser.add_argument("--record", action="store_true", help="write the tables to docs/benchmarks.md")
    parser.add_argument(
        "--examples", type=int, metavar="N", help="number of examples of verify, fuzz and files"
    )
    parser.add_argument("--seed", type=int, default=0, help="for verify, fuzz and files")
    return parser


def _tables(options: argparse.Namespace) -> Iterator[Table]:
    chosen = options.only or _NAMES
    if "startup" in chosen:
        yield from startup.tables(quick=options.quick)
    if "solve" in chosen:
        yield from solve.tables(quick=options.quick)
    if "sweep" in chosen:
        yield from sweep.tables(quick=options.quick)
    if "check" in chosen:
        yield from check.tables(quick=options.quick)
    # These run in this process and enlarge it, so they follow what measures the memory of child processes.
    if "waste" in chosen:
        from benchmarks import waste

        yield from waste.tables(quick=options.quick)
    if "scaling" in chosen:
        from benchmarks import scaling

        yield from scaling.tables(quick=options.quick)
    if "verify" in chosen:
        from benchmarks import verify

        yield from verify.tables(quick=options.quick, examples=options.examples, seed=options.seed)
    if "fuzz" in chosen:
        from benchmarks import fuzz

        yield from fuzz.tables(quick=options.quick, examples=options.examples, seed=options.seed)
    if "files" in chosen:
        from benchmarks import mutated_files

        yield from mutated_files.tables(quick=options.quick, examples=options.examples, seed=options.seed)


def _introduction() -> str:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    try:
        versions += f", {_OPTIONAL} {version(_OPTIONAL)}"
    except PackageNotFoundError:
        versions += f"; no {_OPTIONAL}"
    return (
        "Written by `python -m benchmarks --record`. Compare CPU times (user and system, all threads): other"
        " work shared the machine, which makes wall times unreliable.\n\n"
        f"Machine: {platform.machine()}, {cores} cores, {platform.system()}; load {load:.1f} at the start.\n"
        f"Python {platform.python_version()}; {versions}."
    )


if __name__ == "__main__":
    main()
