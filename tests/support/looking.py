"""What anybody on this machine may see of its processes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psutil


class Looking:
    """Every command line that there is while something runs, each half second. ``also``: looked at as often."""

    def __init__(self, also: Callable[[], object] = lambda: None) -> None:
        self.lines, self._also = set[str](), also
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            for one in psutil.process_iter():
                try:
                    self.lines.add(" ".join(one.cmdline()))
                except psutil.Error:
                    continue
            self._also()
