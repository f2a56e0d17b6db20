"""Ctrl-C and SIGTERM: what runs ends behind its batch, and a second one interrupts it."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def stops(stop: threading.Event) -> None:
    """Have both set ``stop``, from the main thread."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
