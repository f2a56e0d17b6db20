"""Who may touch the lake while a query runs, and whether anybody may any more.

One at a time: the batch that Spark calls for, or what is done between batches. Once the guard is closed no batch begins;
Spark brings its ranges again to the next query. ::

    free ──batch()──▶ held ──ends──▶ free ──between()──▶ held ──ends──▶ free
      └─────────────────── close() waits for free, then ──────────────▶ closed
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StoppingError(Exception):
    """A batch, or the next part of one, would begin while the run ends: nothing of it is done, it comes again."""


class StreamGuard:
    """Of one query. ``stopping``: whether the whole run is to end.

    ``failure``: the first that a batch raised, since Spark would hand it on as the text of a Python traceback.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self.failure: Exception | None = None
        self._stopping = stopping
        self._changed = threading.Condition()
        self._held = self._closing = self._closed = False

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Hold the lake for a batch. Raises :class:`StoppingError` where none may begin any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held)
            if self._closed or self._stopping():
                raise StoppingError
            self._held = True
        try:
            yield
        except StoppingError:
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            raise
        finally:
            self._free()

    def go_on(self) -> None:
        """Before the next part of a batch in hand. Raises :class:`StoppingError` where the run is to end, or somebody waits to
        close.
        """
        if self._stopping() or self._closing:
            raise StoppingError

    @contextmanager
    def between(self) -> Iterator[bool]:
        """Hold the lake for what is done between batches; False, at once, while a batch is being applied."""
        with self._changed:
            mine = not (self._held or self._closed)
            self._held = self._held or mine
        try:
            yield mine
        finally:
            if mine:
                self._free()

    def close(self) -> None:
        """Wait for the batch in hand, or the part of it, and let no other begin."""
        with self._changed:
            self._closing = True
            self._changed.wait_for(lambda: not self._held)
            self._closed = True

    def _free(self) -> None:
        with self._changed:
            self._held = False
            self._changed.notify_all()
