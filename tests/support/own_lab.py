"""A lab of one test's own: its job and its connector go with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.local.stack import Stack
from ingest.source.connector import Connector
from tests.kills.lab import Lab


@contextmanager
def own_lab(stack: Stack, folder: Path, name: str, **more: Any) -> Iterator[Lab]:
    """One pipeline with a job of its own. Connect remembers an offset under a name, so each has one of its own. ``more``: as ``Lab`` takes it."""
    found = Lab(stack, folder, name, **more)
    try:
        yield found
    finally:
        found.close()
        Connector(found.pipeline()).delete()
