"""Asks, beside the batches, how far the lake is behind its source; ``caught_up`` says what the answers prove."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.quarantine import waiting_list
from ingest.model.manifest import Entry
from ingest.model.topics import TableId, captured
from ingest.observe.caught_up import LOOK_EVERY, CaughtUp, Ends, Progress, names, progress
from ingest.source import mysql
from ingest.source.connector import Connector, delivered, undelivered
from ingest.source.left_out import LeftOut
from ingest.source.mysql import Reached


@dataclass(frozen=True)
class Outside:
    """Who is asked. ``reached``: where MySQL's log ends; ``offset``: what Connect has stored; ``newest``: the manifest's
    newest row; ``ends``: where the records of the pipeline's topics end, committed or not, as a transaction whose offset
    is committed may have its data's markers still to come; ``left_out``: tables that the connector leaves out; ``quarantined``: how
    many changes wait in quarantine.
    """

    reached: Callable[[], Reached]
    offset: Callable[[], Mapping[str, Any] | None]
    newest: Callable[[], Entry | None]
    ends: Callable[[], Ends]
    left_out: Callable[[], Collection[str]] = tuple
    quarantined: Callable[[], int] = int

    @classmethod
    def of(cls, pipeline: Pipeline) -> Outside:
        """The real ones."""

        def reached() -> Reached:
            with mysql.connected(pipeline.source) as cursor:
                return mysql.reached(cursor)

        return cls(
            reached,
            Connector(pipeline).offset,
            Ledger(pipeline.lake.path).last,
            lambda: broker.end_offsets(pipeline, broker.data_topics(pipeline), committed=False),
            LeftOut(pipeline).tables,
            lambda: waiting_list.count(pipeline.lake.path),
        )


@dataclass
class LagWatch:
    """One thread of its own, while a run goes on. ``topic``: of a table; ``prefix``: of each topic, its dot included; ``patterns``: the
    pipeline file's ``source.tables``; ``clock``: this machine's, in epoch seconds.
    """

    outside: Outside
    topic: Callable[[TableId], str]
    prefix: str
    patterns: Sequence[str] = ("*.*",)
    clock: Callable[[], float] = time.time
    progress: Progress = field(default_factory=Progress)
    looks: Counter[str] = field(default_factory=Counter)
    _quarantined: tuple[int, int] | None = None
    """How many changes wait, as of which batch."""
    _found: CaughtUp[Reached] = field(default_factory=CaughtUp)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Look again and again until told to stop."""
        self._thread = threading.Thread(target=self._keep_looking, daemon=True, name="lag")
        self._thread.start()

    def stop(self) -> None:
        """End after the look in hand, which is waited for a moment only."""
        self._stop.set()
        if self._thread:
            self._thread.join(LOOK_EVERY)

    def _keep_looking(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(LOOK_EVERY)

    def look(self) -> None:
        """Ask once. Where somebody does not answer nothing new is known, and the lag grows."""
        try:
            self._ask()
        except Exception:  # noqa: BLE001 (whatever it is, no change depends on it; it is counted)
            self.looks["failed"] += 1
        else:
            self.looks["answered"] += 1

    def _ask(self) -> None:
        at = self.clock()
        target = self.outside.reached()
        self._found = self._found.ask(at, target)
        offset = self.outside.offset()
        # After the offset: a table is noted before the connector passes over a change of it.
        left_out = frozenset(self.outside.left_out())
        newest = self.outside.newest()
        tables = newest.tables if newest else {}
        untaken = self._untaken(tables)
        marks = newest.high_water if newest else {}
        applied = {p: mark.offset for p, mark in marks.items() if p[0] not in untaken}
        # After both: whatever Connect had delivered stands below these ends, and so does what is applied.
        ends = {p: end for p, end in self.outside.ends().items() if p[0] not in untaken}
        held = dict(offset) if offset else None
        self._found = self._found.arrive(lambda one: delivered(held, one), ends)
        left = [self.topic(TableId.parse(name)) for name in left_out]
        self._found = self._found.apply(applied, ends, left)
        self.progress = progress(
            self._found,
            applied,
            ends,
            names((topic for topic, _ in ends), tables, self.topic, self.prefix),
            looked_at=at,
            undelivered=undelivered(held, target) if target.gtids.count() else None,
            left_out=len(left_out),
            quarantined=self._in_quarantine(newest.batch_id if newest else 0),
        )

    def _untaken(self, tables: Iterable[str]) -> set[str]:
        """Topics of tables that the pipeline file takes no more. What waits in one of them (the table is paused, stands still, or is hidden)
        may wait for good, and nothing is missing by that.
        """
        known = [TableId.parse(name) for name in tables]
        taken = set(captured(known, self.patterns))
        of = {table: self.topic(table) for table in known}
        return {of[table] for table in known if table not in taken} - {of[t] for t in taken}

    def _in_quarantine(self, batch: int) -> int:
        """What waits there changes with a batch alone."""
        if self._quarantined is None or self._quarantined[0] != batch:
            self._quarantined = batch, self.outside.quarantined()
        return self._quarantined[1]
