"""What C's allocator is asked for, in a process of its own: it is asked once."""

import subprocess
import sys

import pytest

MANY_THREADS = """
import ctypes, sys, threading
from ingest.arrow import allocators
if sys.argv[1] == "one":
    allocators.one_arena()
import pyarrow
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
together = threading.Barrier(8)
def take():
    together.wait()
    for _ in range(100):
        libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
sys.stdout.flush()
libc.malloc_stats()
"""
"""``malloc_stats`` tells of each arena, to stderr."""


def arenas(which, **environment):
    done = subprocess.run(
        [sys.executable, "-c", MANY_THREADS, which],
        check=True, capture_output=True, text=True,
        env={"PYTHONPATH": ":".join(sys.path), **environment},
    )  # fmt: skip
    return done.stderr.count("Arena ")


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc that has them")
def test_one_arena_is_one_for_all_threads_and_what_the_user_has_set_stays():
    assert arenas("many") > 1
    assert arenas("one") == 1
    assert arenas("one", MALLOC_ARENA_MAX="4") > 1
