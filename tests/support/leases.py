"""The lease of one lake, as jobs take it one after the other: whoever had it before stands still, and is not gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from ingest.lake.files import lease as module
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import LocalFiles
from ingest.model.names import lease_path


class Leases:
    """``lake``: its path."""

    def __init__(self, lake: str) -> None:
        self._lake, self._taken = lake, list[Lease]()

    def take(self) -> Lease:
        """As a job that starts does."""
        self.stand_still()
        lease = Lease(LocalFiles(lease_path(self._lake)), lambda _: None)
        self._taken.append(lease)
        term = lease.acquire(standby=True, stop=threading.Event())
        assert term is not None
        return lease

    def stand_still(self) -> None:
        """All that have it, or had it, as under SIGSTOP."""
        for one in self._taken:
            one._ended.set()


@contextmanager
def quick_leases(lake: str) -> Iterator[Leases]:
    """With beats of a tenth of a second."""
    with patch.object(module, "BEAT_EVERY", 0.1), patch.object(module, "EXPIRES_AFTER", 0.4):
        made = Leases(lake)
        try:
            yield made
        finally:
            made.stand_still()
