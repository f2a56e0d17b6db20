"""One process at a time: what several commands of a machine may begin at once, and one of them has to do."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def on_stderr(sentence: str) -> None:
    """Where there is no console yet."""
    print(sentence, file=sys.stderr, flush=True)


@contextmanager
def only_one(what: Path, say: Callable[[str], None] = on_stderr) -> Iterator[None]:
    """One process at a time; others say that they wait, wait, and find it done. The lock is a file beside ``what``.

    The kernel gives it back when its process ends, however it ends, so nobody waits for the dead.
    """
    what.parent.mkdir(parents=True, exist_ok=True)
    with (what.parent / f"{what.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(
                f"another `ingest` of this machine is at work there ({lock.name}); waiting for it …"
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
