"""Time of a client's encoding and the size of its payload: ``python -m benchmarks.encode [--record]``.

Each row is measured in its own process with one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import ROOT, Table, case, missed, ran_case, replace_part, show

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan, WireFormat

_RECORD = ROOT / "docs" / "run.md"
_BEGIN, _END = "<!-- encode figures -->\n", "<!-- end of encode figures -->\n"
_DIM, _GAMMA, _COHORT = 2**20, 0.01, 1000
_SEED = bytes(range(16))
#: Limits in ms: of encoding with NumPy alone and with fht-cpu, and of a mask.
_ENCODE_LIMIT, _FAST_LIMIT, _MASK_LIMIT = 30.0, 10.0, 10.0


def main() -> None:
    if ran_case(_CASES):
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encode", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the tables to docs/run.md")
    options = parser.parse_args()
    found = f"{_times()}\n{_formats()}"
    print(found)
    if options.record:
        replace_part(_RECORD, _BEGIN, _END, found)


# ---------------------------------------------------------------- cases, each in its own process


def _timed(work: Callable[[], object], repeats: int = 21) -> dict[str, float]:
    """The median CPU and wall time of ``work`` in ms, after one run that is not timed."""
    work()
    cpu, wall = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(1e3 * (time.perf_counter() - start))
        cpu.append(1e3 * (time.process_time() - used))
    return {"cpu": median(cpu), "wall": median(wall)}


def _plan(rotation: str, wire: WireFormat | None = None) -> Plan:
    from csgm_cli import Mechanism, resolve_geometry
    from csgm_cli.mechanism.plan import FLOAT32, Plan, Rotation

    geometry, _ = resolve_geometry(dim=_DIM, cohort_size=_COHORT)
    return Plan(Mechanism("l2-csgm", _GAMMA, geometry, rounds=1), 1.0, Rotation(rotation), wire or FLOAT32)


def _encode(rotation: str, transform: str) -> dict[str, float]:
    """Encoding of one vector; with the transform of NumPy even where fht-cpu is installed."""
    import numpy as np

    from csgm_cli.mechanism import client
    from csgm_cli.mechanism import rotation as rotations

    if transform == "numpy":
        setattr(rotations, "_compiled_hadamard", lambda: None)  # noqa: B010 - a private name
    plan, vector = _plan(rotation), np.random.default_rng(1).normal(size=_DIM)
    repeats = 5 if rotation == "kashin" else 21
    return _timed(lambda: client.encode(plan, vector, _SEED), repeats)


def _decode() -> dict[str, float]:
    import numpy as np

    from csgm_cli.mechanism.client import encode
    from csgm_cli.mechanism.wire import decode

    plan = _plan("none")
    payload = encode(plan, np.ones(_DIM), _SEED)
    return _timed(lambda: decode(plan, payload, _SEED))


def _mask() -> dict[str, float]:
    from csgm_cli.mechanism.masks import mask_positions

    return _timed(lambda: mask_positions(_SEED, _GAMMA, _DIM))


def _wire(bits: str, floating: str) -> dict[str, float]:
    """The size of the payload of a vector at the L2 clip, and what rounding does to its values."""
    import numpy as np

    from csgm_cli.mechanism.client import encode
    from csgm_cli.mechanism.plan import WireFormat
    from csgm_cli.mechanism.rotation import rotate
    from csgm_cli.mechanism.wire import decode

    plan = _plan("hadamard", WireFormat(int(bits), floating == "True"))
    vector = np.random.default_rng(1).normal(size=_DIM)
    vector /= np.linalg.norm(vector)
    payload = encode(plan, vector, _SEED)
    positions, values = decode(plan, payload, _SEED)
    exact = rotate(plan, vector)[positions]
    return {"bytes": len(payload), "kept": float(values @ exact / (exact @ exact))}


_CASES: dict[str, Callable[..., dict[str, float]]] = {
    "encode": _encode,
    "decode": _decode,
    "mask": _mask,
    "wire": _wire,
}


# ---------------------------------------------------------------- tables


def _case(*words: str) -> dict[str, float]:
    return case("benchmarks.encode", *words)


def _row(name: str, found: dict[str, float], limit: float | None = None) -> list[str]:
    late = "" if limit is None else missed(found["cpu"], limit)
    return [name, f"{show(found['cpu'])}{late}", show(found["wall"]), "" if limit is None else f"{limit:g}"]


def _times() -> Table:
    def rows() -> Iterator[list[str]]:
        yield _row("encode, Hadamard, NumPy", _case("encode", "hadamard", "numpy"), _ENCODE_LIMIT)
        if find_spec("fht_cpu") is not None:
            yield _row("encode, Hadamard, fht-cpu", _case("encode", "hadamard", "fht"), _FAST_LIMIT)
        yield _row("encode, DCT", _case("encode", "dct", "numpy"))
        yield _row("encode, Kashin, NumPy", _case("encode", "kashin", "numpy"))
        yield _row("encode, no rotation", _case("encode", "none", "numpy"))
        yield _row("mask alone", _case("mask"), _MASK_LIMIT)
        yield _row("decode, mask included", _case("decode"))

    said = f"{_DIM:,} coordinates, gamma {_GAMMA:g}, float32 values; medians, in ms, of one thread."
    return Table("Time of a client", said, ["work", "CPU ms", "wall ms", "limit"], list(rows()))


def _formats() -> Table:
    def rows() -> Iterator[list[str]]:
        formats = (
            *(("float32", 32, True), ("float16", 16, True), ("int16", 16, False)),
            *(("int8", 8, False), ("int6", 6, False), ("int4", 4, False)),
        )
        for name, bits, floating in formats:
            found = _case("wire", str(bits), str(floating))
            ratio = 4 * _DIM / found["bytes"]
            yield [name, f"{found['bytes']:,.0f}", f"{ratio:.0f}x", f"{100 * (1 - found['kept']):.2g} %"]

    said = (
        f"One client's payload of {_DIM:,} coordinates at gamma {_GAMMA:g}, beside {4 * _DIM:,} bytes of all"
        " coordinates in float32. Shrinkage: by how much rounding toward zero makes the values smaller, for a"
        f" vector at the L2 clip and the L-inf clip of the rotation rule with {_COHORT:,} clients."
    )
    return Table("Size of a payload", said, ["format", "bytes", "smaller by", "shrinkage"], list(rows()))


if __name__ == "__main__":
    main()
