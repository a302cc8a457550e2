"""The dense optimizer of jax-privacy on one prefix sum: ``PYTHON -m benchmarks.dense_optimizer T``.

``PYTHON`` has jax-privacy; nothing of csgm is imported. Prints, as JSON, the time of the imports, of the
first call and of a second one, and the error of the resulting C.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.measure import own_peak


def main() -> None:
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", val=True)
    from jax_privacy.matrix_factorization import dense

    size = int(sys.argv[1])
    found: dict[str, object] = {"import": _used()}
    for name in ("first", "again"):
        before = _used()
        c = np.asarray(dense.optimize(size))
        found[name] = [after - start for after, start in zip(_used(), before, strict=True)]
        print(json.dumps(found | {"error": _error(c), "peak": own_peak()}), flush=True)


def _used() -> list[float]:
    """CPU and wall seconds."""
    return [time.process_time(), time.perf_counter()]


def _error(c: object) -> float:
    """||A C^-1||_F^2 max column norm^2 / T."""
    import numpy as np

    strategy = np.asarray(c)
    b = np.linalg.solve(strategy.T, np.tril(np.ones(strategy.shape)).T).T
    return float((b**2).sum() * (strategy**2).sum(axis=0).max() / len(strategy))


if __name__ == "__main__":
    main()
