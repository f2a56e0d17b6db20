"""What tables need beside their changes: files put in order, old versions removed. Between batches, by the one
writer that they have, so that it conflicts with nobody; one table at a time, so that no change waits long.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ingest import table_log
from ingest.compaction import compact, files
from ingest.direct import DirectTable
from ingest.layout import Written, choose
from ingest.names import KEY_PROPERTY, compaction_path, maintenance_path
from ingest.storage import LocalFiles, local_folder

LOOK_EVERY = 4
"""MERGEs of a table, for a look at its files takes a millisecond or two."""

_PER_HOURS = 24
"""Old versions are looked for so many times while one stays readable."""


_DOING = {
    "_compact": "put in order",
    "_vacuum": "rid of old versions",
    "_cut": "rid of the log of old versions",
}


@dataclass
class Maintenance:
    """Of the tables of one lake in a local folder. ``hours``: how long versions stay readable; ``versions``: how
    many at most.
    """

    lake: str
    hours: int
    versions: int = 10_000
    _cut_at: dict[str, int] = field(default_factory=dict)
    _written: dict[str, Written] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _paths: dict[str, set[str]] = field(default_factory=dict)
    _given_up: set[tuple[str, str]] = field(default_factory=set)
    _said: list[str] = field(default_factory=list)

    def done(self) -> tuple[str, ...]:
        """What was done since this was asked last, in sentences."""
        said, self._said = tuple(self._said), []
        return said

    def between_batches(self, tables: Sequence[DirectTable]) -> None:
        """Do what is due for one of these tables at most. A failure is said, and not met again by this job."""
        for direct in tables:
            for act in (self._compact, self._vacuum, self._cut):
                place = (direct.path, act.__name__)
                try:
                    if place not in self._given_up and act(direct):
                        return
                except Exception as failure:  # noqa: BLE001 - whatever it is, no change depends on it
                    self._given_up.add(place)
                    self._said.append(
                        f"{direct.path}: cannot be {_DOING[act.__name__]} by this job: {failure}"
                    )

    def _compact(self, direct: DirectTable) -> bool:
        path = direct.path
        known = self._written.get(path, Written())
        if direct.merges - self._seen.get(path, 0) < LOOK_EVERY:
            return False
        for rows in direct.take_written():
            known = known.and_then(rows)
        self._seen[path], self._written[path] = direct.merges, known
        direct.version()
        key: list[str] = json.loads(direct.known().metadata().configuration.get(KEY_PROPERTY, "[]"))
        held = files(direct.known(), key[0] if key else None, self._paths.get(path))
        self._paths[path] = {one.path for one in held}
        rewrite = choose(held, known)
        if rewrite is None:
            return False
        started = time.monotonic()
        done = compact(direct, rewrite, key, local_folder(compaction_path(self.lake)))
        if done and rewrite.orders:
            self._written[path] = known.in_order(sum(one.rows for one in held))
        if done:
            direct.version()
            self._paths[path] = {one.path for one in files(direct.known(), None)}
            took = time.monotonic() - started
            self._said.append(
                f"{path}: {rewrite.rows:,} rows in {len(rewrite.files)} files put in order, {took:.1f} s"
            )
        return done

    def _vacuum(self, direct: DirectTable) -> bool:
        """Remove versions that are too old, and files of commits that never were."""
        now, known = time.time(), self._vacuumed
        since = now - known.setdefault(direct.path, now)
        if 0 < since < self.hours * 3600 / _PER_HOURS:
            return False
        if since:
            removed = direct.vacuum(self.hours)
            if removed:
                self._said.append(f"{direct.path}: {removed:,} files of old versions removed")
        known[direct.path] = now
        LocalFiles(maintenance_path(self.lake)).write("vacuumed.json", json.dumps(known))
        return bool(since)

    def _cut(self, direct: DirectTable) -> bool:
        """Keep the log's folder short."""
        newest = direct.known().version()
        if newest - self._cut_at.get(direct.path, -self.versions) < self.versions // 10:
            return False
        self._cut_at[direct.path] = newest
        return table_log.cut(local_folder(direct.path), self.versions) > 0

    @cached_property
    def _vacuumed(self) -> dict[str, float]:
        """By path of a table: when its old versions were removed last, or it was first seen."""
        text = LocalFiles(maintenance_path(self.lake)).read("vacuumed.json")
        known: dict[str, float] = json.loads(text or "{}")
        return known
