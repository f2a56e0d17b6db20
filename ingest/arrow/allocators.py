"""How the allocators of a job's process keep what is freed. Imports nothing of what it is about: they are asked before there are threads of theirs."""

from __future__ import annotations

import ctypes
import os
import sys

_DELTA_RS = "dirty_decay_ms:200,muzzy_decay_ms:0"
"""What delta-rs's own allocator (jemalloc) does with freed memory: the system has it back after 0.2 s, not after ten. In a drain of 2 GB
that is about 100 MiB of the driver's, and takes no time that could be measured (`bench.volume`)."""


def as_soon_as_freed() -> None:
    """Ask delta-rs's allocator for it. To be called before ``deltalake`` is imported, as it reads its settings once; what the user has
    set stays.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", _DELTA_RS)


_ARENAS, _M_ARENA_MAX = "MALLOC_ARENA_MAX", -8
"""What glibc calls it, and its number (``malloc.h``)."""


def one_arena() -> None:
    """Have C's allocator keep one pool for all threads, not eight for each core: what one of them has freed another can use. For this process
    and those that it starts. Of a drain of 2 GB by Spark's tasks the driver's Python took 489 MiB, not 578, and no more time (`bench.volume`).
    To be called before there are threads; what the user has set stays.
    """
    if _ARENAS in os.environ or sys.platform != "linux":
        return
    os.environ[_ARENAS] = "1"
    # glibc reads that as a process starts, so this one has to ask.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
