"""MySQL, Kafka and Connect of a benchmark's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.local.stack import Stack


@contextmanager
def fresh_stack(name: str) -> Iterator[tuple[Stack, Path]]:
    """A stack that runs, and a folder for what else there is; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"ingest-{name}-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            yield stack, Path(folder)
        finally:
            stack.down()
