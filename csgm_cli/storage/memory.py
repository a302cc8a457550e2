"""Available memory."""

from __future__ import annotations

import os
from pathlib import Path

from csgm_cli.errors import StorageError, UsageError

_CGROUP = Path("/sys/fs/cgroup")
_GIB = 2.0**30
#: For NumPy and SciPy, which map 95 MiB while they load with one BLAS thread (other builds may take more),
#: and for SciPy alone, which may be loaded later.
_LIBRARIES, _SCIPY = 192 << 20, 96 << 20
#: Buffers and stack of each further BLAS thread (measured 40 MiB).
_PER_THREAD = 64 << 20


def check_libraries_fit() -> None:
    """Raise ``StorageError`` (slug ``memory-limit``) where a limit of the process leaves too little memory.

    OpenBLAS, which NumPy and SciPy load, ends a process that has no room for its buffers with exit code 1,
    and that would read as a claim that does not hold.
    """
    left, threads = _of_process(), os.environ.get("OPENBLAS_NUM_THREADS", "")
    needed = _LIBRARIES + _PER_THREAD * (int(threads) - 1 if threads.isdecimal() else 0)
    if left is not None and left < needed:
        room = f"{_size(needed)} of memory are needed, the limit of this process leaves {_size(left)}"
        raise StorageError("memory-limit", room, "raise the limit (ulimit -v, ulimit -d)")


def check_memory(needed: int, what: str, hint: str = "") -> None:
    """Raise ``UsageError`` (slug ``too-large``) where ``what`` (ends in "needs") takes more than there is."""
    available = available_bytes()
    if available is not None and needed > available:
        size = f"{_size(needed)} of memory, {_size(available)} are available"
        raise UsageError("too-large", f"{what} {size}", hint)


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count >> 20} MiB"


def available_bytes() -> int | None:
    """Memory available without swapping and within all limits; None where unknown."""
    limit = _of_process()
    process = None if limit is None else max(0, limit - _SCIPY)
    found = [free for free in (_of_machine(), _of_container(), process) if free is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # all there is, where the system does not say what is free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    try:
        limit, used = (
            int((_CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
    except (OSError, ValueError):  # no limit reads "max"
        return None
    return max(0, limit - used)


def _of_process() -> int | None:
    """The memory left under ``ulimit -v`` and ``ulimit -d``."""
    try:
        import resource

        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
        used = {resource.RLIMIT_AS: int(pages[0]), resource.RLIMIT_DATA: int(pages[5])}
        limits = {limit: resource.getrlimit(limit)[0] for limit in used}
        size = resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None
    left = [most - used[limit] * size for limit, most in limits.items() if most != resource.RLIM_INFINITY]
    return max(0, min(left)) if left else None
