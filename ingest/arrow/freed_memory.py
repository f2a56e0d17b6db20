"""Memory that a large batch has freed is given back to the system.

Arrow's pool and C's allocator keep what is freed for the next time. After rows of 8 MB that is 400 MB of the one and 160 of the
other, which the next batch, upkeep and the JVM beside it cannot have; over some batches of unlike sizes it adds up.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import pyarrow as pa

LARGE = 16 * 2**20
"""Bytes of rows from which on it is worth some milliseconds."""


def give_back() -> None:
    """What nobody holds any more."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc has it; another C library has none.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
