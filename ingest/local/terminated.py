"""SIGTERM to a command that has started servers: it ends them, as behind Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def as_exit() -> Iterator[None]:
    """SIGTERM inside raises ``SystemExit``, so that each ``finally`` is reached. Without this Python ends at once, and what
    was started goes on. A second one is passed over: the ending has begun.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal is handled
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
