"""Events written by structlog, one a line, into a file of their own.

A disk that is full, or a folder that is gone, costs events and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal

import structlog

from ingest.observe.events import Event

MOST_BYTES = 64 * 2**20
"""Of one file; four older ones are kept beside it."""


class _Quiet(RotatingFileHandler):
    """One that prints nothing: the screen is for people's sentences."""

    failed = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging calls it by this name)
        """An event that could not be written is counted."""
        del record
        self.failed += 1


def path_beside(log: Path, pipeline: str, form: Literal["text", "json"]) -> Path:
    """The events' file beside Spark's log."""
    return log.with_name(f"events-{pipeline}.{'jsonl' if form == 'json' else 'log'}")


class EventLog:
    """Of one run. Writes from any thread. Raises ``OSError`` when the folder cannot be made."""

    def __init__(self, path: Path, form: Literal["text", "json"]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _Quiet(path, maxBytes=MOST_BYTES, backupCount=4, encoding="utf-8", delay=True)
        plain = logging.Logger("ingest.events", logging.INFO)  # noqa: LOG001 (a named one is the whole process's)
        plain.addHandler(self._file)
        render: Any = (
            structlog.processors.JSONRenderer()
            if form == "json"
            else structlog.processors.LogfmtRenderer(key_order=["timestamp", "event"])
        )
        self._log = structlog.wrap_logger(
            plain,
            processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), render],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
        )

    @property
    def failed(self) -> int:
        """Events that could not be written."""
        return self._file.failed

    def write(self, events: Iterable[Event]) -> None:
        """Each as a line. What an event has no value of is left out."""
        for event in events:
            known = {name: value for name, value in event.fields.items() if value is not None}
            self._log.info(event.name, **known)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
