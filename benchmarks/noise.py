"""Time and memory of correlated noise: ``python -m benchmarks.noise [--quick] [--record]``.

Each row is measured in its own process with one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.measure import ROOT, Table, case, missed, own_peak, ran_case, show

if TYPE_CHECKING:
    from csgm_cli import NoiseStream

_RECORD = ROOT / "docs" / "noise.md"
_MARK = "<!-- figures -->\n"
_DIM, _T, _BUFFERS, _BLOCK = 10**6, 1000, 4, 16_384
#: Limits: time as a multiple of drawing and N multiply-adds, or of a matrix product; memory in MB.
_STREAMING_LIMIT, _DENSE_LIMIT, _MEMORY_LIMIT = 2.0, 1.5, 100.0
#: Of the throughput of NumPy's normals in float64.
_LEAST_SHARE = 0.5
_DOUBLES_BUFFERS = 4, 8
_DENSE_T, _DENSE_DIM = 1024, 8 * _BLOCK


def main() -> None:
    if ran_case(_CASES):
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50 rounds of 1000")
    parser.add_argument("--record", action="store_true", help="write the tables to docs/noise.md")
    options = parser.parse_args()
    found = "\n".join(
        str(table) for table in (_streaming(50 if options.quick else _T), _throughput(), _dense())
    )
    print(found)
    if options.record:
        text = _RECORD.read_text(encoding="utf-8").partition(_MARK)[0]
        _RECORD.write_text(f"{text}{_MARK}\n{found}", encoding="utf-8")


# ---------------------------------------------------------------- cases, each in its own process


def _timed(work: Callable[[], object]) -> dict[str, float]:
    begun = time.process_time()
    work()
    used = time.process_time() - begun
    return {"cpu": used, "peak": own_peak() * 2**20 / 1e6}


def _stream(on: str, dtype: str = "float32", buffers: int = _BUFFERS) -> NoiseStream:
    from csgm_cli import NoiseStream
    from csgm_cli.factorization import factorize, parse_workload
    from csgm_cli.model.factorization import NoiseOn, Strategy, StrategyName

    found = factorize(parse_workload("prefix-sum", _T), Strategy(StrategyName.STREAMING, buffers))
    return NoiseStream(found, sigma=1.0, dim=_DIM, on=NoiseOn(on), dtype=dtype)


def _by_round(on: str, rounds: str) -> dict[str, float]:
    """Round by round, as in training."""
    stream = _stream(on)
    return _timed(lambda: [stream.next_round()[0] for _ in range(int(rounds))])


def _by_block(on: str, rounds: str) -> dict[str, float]:
    """Block by block, all rounds of each."""
    stream = _stream(on)
    return _timed(lambda: [b.next_round()[0] for b in stream.blocks(_BLOCK) for _ in range(int(rounds))])


def _doubles(on: str, buffers: str, rounds: str) -> dict[str, float]:
    """Round by round in float64, beside as many of NumPy's own normals; the least of each round."""
    import numpy as np

    stream, generator = _stream(on, "float64", int(buffers)), np.random.default_rng()
    stream.next_round()

    def pair() -> tuple[float, float]:
        return _timed(stream.next_round)["cpu"], _timed(lambda: generator.standard_normal(_DIM))["cpu"]

    ours, theirs = (min(column) for column in zip(*(pair() for _ in range(int(rounds))), strict=True))
    return {"cpu": ours, "normals": theirs}


def _draws(rounds: str) -> dict[str, float]:
    """The least possible work: NumPy's normals and N multiply-adds, in blocks that fit in cache."""
    import numpy as np

    generator = np.random.default_rng()
    noise, scratch = np.empty(_DIM, np.float32), np.empty(_BLOCK, np.float32)
    states, factor = np.zeros((_BUFFERS, _DIM), np.float32), np.float32(0.5)

    def work() -> None:
        for _ in range(int(rounds)):
            for start in range(0, _DIM, _BLOCK):
                z = noise[start : start + _BLOCK]
                generator.standard_normal(out=z, dtype=np.float32)
                part = scratch[: len(z)]
                for state in states:
                    np.multiply(state[start : start + _BLOCK], factor, out=part)
                    np.add(part, z, out=state[start : start + _BLOCK])

    return _timed(work)


def _matrix(dtype: str) -> dict[str, float]:
    """Noise block by block, and the matrix product alone."""
    import numpy as np

    from csgm_cli import NoiseStream
    from csgm_cli.factorization import dense_factors, factorize, parse_workload

    b = dense_factors(factorize(parse_workload("prefix-sum", _DENSE_T)), "float64").B.astype(dtype)
    z = np.random.default_rng().standard_normal((_DENSE_T, _BLOCK)).astype(dtype)
    product = np.empty_like(z)

    def noise() -> None:
        for block in NoiseStream(b, sigma=1.0, dim=_DENSE_DIM, on="sums").blocks(_BLOCK):
            for _ in block:
                pass

    def multiply() -> None:
        for _ in range(_DENSE_DIM // _BLOCK):
            np.matmul(b, z, out=product)

    times = [(_timed(noise)["cpu"], _timed(multiply)["cpu"]) for _ in range(5)]
    ours, theirs = (sorted(column)[2] for column in zip(*times, strict=True))
    return {"cpu": ours, "product": theirs, "peak": _timed(lambda: None)["peak"]}


_CASES: dict[str, Callable[..., dict[str, float]]] = {
    "round": _by_round,
    "block": _by_block,
    "doubles": _doubles,
    "draws": _draws,
    "matrix": _matrix,
}


# ---------------------------------------------------------------- tables


def _case(*words: str) -> dict[str, float]:
    return case("benchmarks.noise", *words)


def _verdict(value: float, limit: float) -> str:
    return f"{show(value)}{missed(value, limit)}"


def _streaming(rounds: int) -> Table:
    draws = _case("draws", str(rounds))["cpu"]

    def rows() -> Iterator[list[str]]:
        for on in ("increments", "sums"):
            for order in ("round", "block"):
                found = _case(order, on, str(rounds))
                multiple = _verdict(found["cpu"] / draws, _STREAMING_LIMIT)
                peak = _verdict(found["peak"], _MEMORY_LIMIT)
                per_round = show(1e3 * found["cpu"] / rounds)
                yield [f"{on}, {order} by {order}", show(found["cpu"]), per_round, multiple, peak]

    said = (
        f"{_DIM:,} coordinates, {rounds:,} rounds of T = {_T:,}, streaming:{_BUFFERS}, float32. Multiple:"
        f" of drawing normals by NumPy's default generator and {_BUFFERS} multiply-adds per coordinate, which"
        f" took {show(draws)} s. Limits: multiple {_STREAMING_LIMIT:g}, {_MEMORY_LIMIT:g} MB for the whole"
        f" process."
    )
    header = ["noise on", "CPU s", "ms per round", "multiple", "peak MB"]
    return Table("Streaming noise", said, header, list(rows()))


def _throughput() -> Table:
    def rows() -> Iterator[list[str]]:
        for buffers, on in product(_DOUBLES_BUFFERS, ("increments", "sums")):
            found = _case("doubles", on, str(buffers), "20")
            share = found["normals"] / found["cpu"]
            mark = "" if share >= _LEAST_SHARE else " (missed)"
            times = (show(1e3 * found[name]) for name in ("cpu", "normals"))
            yield [f"{on}, streaming:{buffers}", *times, f"{show(share)}{mark}"]

    said = (
        f"{_DIM:,} coordinates, float64, beside `default_rng().standard_normal`, the least of"
        f" 20 rounds each. Limit: at least {_LEAST_SHARE:g} of its throughput."
    )
    return Table("Noise in float64", said, ["noise on", "ms per round", "normals ms", "share"], list(rows()))


def _dense() -> Table:
    def rows() -> Iterator[list[str]]:
        for dtype in ("float32", "float64"):
            found = _case("matrix", dtype)
            multiple = _verdict(found["cpu"] / found["product"], _DENSE_LIMIT)
            yield [dtype, show(found["cpu"]), show(found["product"]), multiple, show(found["peak"])]

    said = (
        f"T = {_DENSE_T:,}, optimal, {_DENSE_DIM:,} coordinates in blocks of {_BLOCK:,}, all rounds, drawing"
        f" included; beside it the product of B and Z alone (medians of 5). Limit: multiple {_DENSE_LIMIT:g}."
    )
    return Table("Dense noise", said, ["dtype", "CPU s", "product s", "multiple", "peak MB"], list(rows()))


if __name__ == "__main__":
    main()
