"""What little memory is."""

import tracemalloc
from contextlib import contextmanager

_LITTLE = 200e6


@contextmanager
def little_memory():
    """Fail where more than 200 MB are held at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _LITTLE
    finally:
        tracemalloc.stop()
