"""Whether an object store that denies may let this process in again, or only a new start.

Keys are read as a job starts. Spark's process keeps those that it was begun with for as long as it lives, so new ones are no use to a run
that goes on: it ends, and whoever runs it begins it with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ingest.config.lake_settings import Lake
from ingest.lake.files import object_store
from ingest.lake.files.object_files import LakeDeniedError
from ingest.model.errors import IngestError
from ingest.model.location import is_s3

WAITS = 90.0
"""Seconds that a run waits where its keys are of its environment, as for all else that it needs."""
_APART = 180.0
"""Seconds between two denials of which the later one begins anew: longer than any pause between two tries."""


@dataclass
class LentKeys:
    """Of this process, to one lake."""

    lake: Lake
    clock: Callable[[], float] = time.monotonic
    _since: float = field(default=0.0, init=False)
    _newest: float = field(default=float("-inf"), init=False)

    def are_old(self, failure: BaseException) -> bool:
        """Asked with each failure: whether it is a denial that no waiting ends. So it is where the pipeline file names other keys by now, and
        after a while where they are of an environment, which is that of the start. A role renews its keys by itself, files are
        looked at each time, and what a key may do is changed while a job runs: these are waited for.
        """
        if not isinstance(failure, LakeDeniedError) or not is_s3(self.lake.path):
            return False
        now = self.clock()
        if now - self._newest > _APART:
            self._since = now
        self._newest = now
        return self._others_are_named() or (
            object_store.are_of_the_start(self.lake) and now - self._since >= WAITS
        )

    def _others_are_named(self) -> bool:
        try:
            named = object_store.keys(self.lake)
        except IngestError:  # a file is being replaced
            return False
        return any(os.environ.get(name) != key for name, key in named.items())
