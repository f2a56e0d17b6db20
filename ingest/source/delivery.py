"""Waiting until Connect has delivered to Kafka what MySQL had committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ingest.model.errors import IngestError
from ingest.source import mysql
from ingest.source.connector import Connector, delivered, undelivered
from ingest.source.supervisor import Supervisor

_WORKER_RESTART = 60.0
"""Seconds that `--once` waits for a Connect worker that does not answer."""


def await_delivery(
    connector: Connector,
    supervisor: Supervisor,
    target: mysql.Reached,
    *,
    stop: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Return when Kafka holds every change up to ``target``, or when told to stop. Raises :class:`IngestError` where
    Connect stays away.
    """
    said = 0.0
    answered = time.monotonic()
    while not stop.is_set():
        supervisor.look()
        try:
            offset = connector.offset()
        except IngestError:  # a worker that restarts is given a minute
            if time.monotonic() - answered > _WORKER_RESTART:
                raise
            stop.wait(1)
            continue
        answered = time.monotonic()
        if delivered(offset, target):
            return
        if time.monotonic() - said > 5:
            said = time.monotonic()
            say(_waiting_for(offset, target))
        stop.wait(0.2)


def _waiting_for(offset: dict[str, Any] | None, target: mysql.Reached) -> str:
    if offset is None:
        return "waiting for the connector's first records …"
    if offset.get("snapshot"):
        return "waiting for the snapshot to reach Kafka …"
    missing = undelivered(offset, target)
    return f"waiting for {missing or 0:,} transactions to reach Kafka …"
