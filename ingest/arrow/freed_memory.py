"""Memory that a large batch has freed is given back to the system.

Arrow's pool and C's allocator keep what is freed for the next time. After rows of 8 MB that is 400 MB of the one and 160 of the
other, which the next batch, upkeep and the JVM beside it cannot have; over some batches of unlike sizes it adds up.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

import pyarrow as pa

LARGE = 16 * 2**20
"""Bytes of rows from which on it is worth some milliseconds."""

_DELTA_RS = "dirty_decay_ms:200,muzzy_decay_ms:0"
"""What delta-rs's own allocator (jemalloc) does with freed memory: the system has it back after 0.2 s, not after ten. In a drain of 2 GB
that is about 100 MiB of the driver's, and takes no time that could be measured (`bench.volume`)."""


def as_soon_as_freed() -> None:
    """Ask delta-rs's allocator for it. To be called before ``deltalake`` is imported, as it reads its settings once; what the user has
    set stays.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", _DELTA_RS)


def give_back() -> None:
    """What nobody holds any more."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc has it; another C library has none.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
