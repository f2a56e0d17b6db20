"""When a lake's tables were rid of old versions last: kept over restarts, since a job that is begun anew each hour has to remove some, too."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from urllib.parse import quote

from ingest.lake.delta.delta_log import Action
from ingest.lake.files.storage import Files, files_at
from ingest.model.names import maintenance_path

_PER_HOURS, _AT_MOST_EVERY = 24, 600.0
"""Old versions are looked for so many times while one stays readable, but so many seconds apart at least."""


def every(hours: int) -> float:
    """Seconds between two looks for old versions, where they stay readable for so many hours."""
    return max(hours * 3600 / _PER_HOURS, _AT_MOST_EVERY)


def lasting(hours: int) -> int:
    """The retention to give VACUUM, in hours: somewhat more than ``hours``, since versions of the last ``hours`` have to be there still when
    old ones are looked for the next time.
    """
    return math.ceil(hours * _PER_HOURS / (_PER_HOURS - 1)) + 1


def hours_since(actions: Iterable[Action], written: float | None = None) -> int:
    """How old a commit is, in hours, rounded up, and one more, as clocks and disks differ. ``actions``: of its log entry; ``written``: when that file was
    changed, in seconds since 1970. The older of what both say counts: a file may be a later copy, and a commit need not say when it was. 0 where neither says.
    """
    said = (one["commitInfo"].get("timestamp") for one in actions if "commitInfo" in one)
    moments = [float(ms) / 1000 for ms in said if ms]
    moments += [] if written is None else [written]
    return math.ceil((time.time() - min(moments)) / 3600) + 1 if moments else 0


class VacuumTimes:
    """Of one lake. ``of``: who keeps them, where that is not the job of the mirrors: each writes a file of its own."""

    def __init__(self, lake: str, of: str = "") -> None:
        self._lake = lake
        self._file = f"vacuumed-{quote(of, safe='')}.json" if of else "vacuumed.json"

    def when_due(
        self, path: str, hours: int, refuse_lost: Callable[[], None], vacuum: Callable[[], bool]
    ) -> bool:
        """Have old versions of a table removed, where they were not looked for lately, and note it; whether they were. ``vacuum``: whether it has removed
        all of them; where not, it is soon due again. Of a table that is new here nothing is old, so it is only noted. Raises what ``refuse_lost`` does, which is asked first.
        """
        if not self.is_due(path, hours):
            return False
        refuse_lost()
        known = path in self._known
        if not known or vacuum():
            self.note(path)
        return known

    def is_due(self, path: str, hours: int) -> bool:
        """Whether it was not looked at lately. A clock that was set back is not waited for."""
        return not 0 < self._since(path) < every(hours)

    def note(self, path: str) -> None:
        """It was looked at now."""
        self._known[path] = time.time()
        self._files.write(self._file, json.dumps(self._known))

    def _since(self, path: str) -> float:
        now = time.time()
        return now - self._known.get(path, now)

    @cached_property
    def _files(self) -> Files:
        return files_at(maintenance_path(self._lake))

    @cached_property
    def _known(self) -> dict[str, float]:
        """By path."""
        known: dict[str, float] = json.loads(self._files.read(self._file) or "{}")
        return known
