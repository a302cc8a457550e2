"""Available memory."""

from __future__ import annotations

import os
from pathlib import Path

from csgm_cli.errors import UsageError

_CGROUP = Path("/sys/fs/cgroup")
_GIB = 2.0**30


def check_memory(needed: int, what: str, hint: str = "") -> None:
    """Raise ``UsageError`` (slug ``too-large``) where ``what`` (ends in "needs") takes more than there is."""
    available = available_bytes()
    if available is not None and needed > available:
        size = f"{needed / _GIB:.1f} GiB of memory, {available / _GIB:.1f} GiB are available"
        raise UsageError("too-large", f"{what} {size}", hint)


def available_bytes() -> int | None:
    """Memory available without swapping and within all limits; None where unknown."""
    found = [free for free in (_of_machine(), _of_container(), _of_process()) if free is not None]
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
    """The memory left under ``ulimit -v``."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - pages * resource.getpagesize())
